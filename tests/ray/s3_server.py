"""A small S3 server on the loopback interface, for pyarrow's client: one object store in the memory of this process.

Objects of the bucket ``denied`` cannot be read or written, as with missing credentials.
"""

from __future__ import annotations

import hashlib
import http.server
import io
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO
from xml.sax.saxutils import escape


class Handler(http.server.BaseHTTPRequestHandler):
    """GET, HEAD, PUT, DELETE of objects, lists, and uploads in parts."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]
    parts: dict[str, dict[int, bytes]]

    def log_message(self, *arguments: object) -> None:
        """Silent."""

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "content_length" not in headers:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _error(self, status: int, code: str) -> None:
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
        self._answer(status, text.encode(), content_type="application/xml")

    def _asked(self) -> tuple[str, str, dict[str, str], bytes]:
        """Bucket, key, query and body."""
        if self.headers.get("transfer-encoding") == "chunked":
            body = _joined(self.rfile)
        else:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if "aws-chunked" in (self.headers.get("content-encoding") or ""):
            body = _joined(io.BytesIO(body))
        path, _, query = self.path.partition("?")
        bucket, _, key = urllib.parse.unquote(path).lstrip("/").partition("/")
        return bucket, key, dict(urllib.parse.parse_qsl(query, keep_blank_values=True)), body

    def _serve(self) -> None:
        bucket, key, query, body = self._asked()
        if bucket == "denied":
            return self._error(403, "AccessDenied")
        name = f"{bucket}/{key}"
        if bucket.startswith("$"):  # the client asks for one that is never there
            return self._answer(404)
        if not key:
            return self._list(bucket, query) if self.command == "GET" else self._answer(200)
        return getattr(self, f"_{self.command.lower()}")(name, query, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - names of the base class

    def _get(self, name: str, query: dict[str, str], body: bytes) -> None:
        data = self.objects.get(name)
        if data is None:
            return self._error(404, "NoSuchKey")
        tag = f'"{hashlib.md5(data).hexdigest()}"'
        wanted = self.headers.get("range")
        if wanted is None:
            return self._answer(200, data, etag=tag)
        low, _, high = wanted.removeprefix("bytes=").partition("-")
        end = min(int(high or len(data) - 1), len(data) - 1)
        part = data[int(low) : end + 1]
        return self._answer(206, part, etag=tag, content_range=f"bytes {low}-{end}/{len(data)}")

    def _head(self, name: str, query: dict[str, str], body: bytes) -> None:
        data = self.objects.get(name)
        if data is None:
            return self._answer(404)
        return self._answer(200, etag=f'"{hashlib.md5(data).hexdigest()}"', content_length=str(len(data)))

    def _put(self, name: str, query: dict[str, str], body: bytes) -> None:
        if "partNumber" in query:
            self.parts[query["uploadId"]][int(query["partNumber"])] = body
        else:
            self.objects[name] = body
        self._answer(200, etag=f'"{hashlib.md5(body).hexdigest()}"')

    def _post(self, name: str, query: dict[str, str], body: bytes) -> None:
        if "uploads" in query:
            number = f"upload{len(self.parts)}"
            self.parts[number] = {}
            text = f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId></InitiateMultipartUploadResult>"
        elif "uploadId" in query:
            done = self.parts.pop(query["uploadId"])
            self.objects[name] = b"".join(done[i] for i in sorted(done))
            text = '<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>'
        else:  # several are deleted
            return self._error(501, "NotImplemented")
        self._answer(200, f"<?xml version='1.0'?>{text}".encode(), content_type="application/xml")

    def _delete(self, name: str, query: dict[str, str], body: bytes) -> None:
        self.objects.pop(name, None)
        self._answer(204)

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        keys, folders = [], set()
        for name in sorted(self.objects):
            key = name.removeprefix(f"{bucket}/")
            if not name.startswith(f"{bucket}/") or not key.startswith(prefix):
                continue
            inner = key[len(prefix) :]
            if delimiter and delimiter in inner:
                folders.add(prefix + inner.partition(delimiter)[0] + delimiter)
            else:
                keys.append((key, len(self.objects[name])))
        text = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, size in keys
        )
        text += "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders))
        count = f"<KeyCount>{len(keys) + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>"
        page = f"<?xml version='1.0'?><ListBucketResult>{count}{text}</ListBucketResult>"
        self._answer(200, page.encode(), content_type="application/xml")


def _joined(stream: BinaryIO) -> bytes:
    """The data of a body in chunks, each behind a line with its length; what follows them does not count."""
    parts = []
    while size := int(stream.readline().partition(b";")[0] or b"0", 16):
        parts.append(stream.read(size))
        stream.readline()
    while stream.readline().strip():
        pass
    return b"".join(parts)


@contextmanager
def s3_server() -> Iterator[tuple[dict[str, bytes], dict[str, str]]]:
    """The objects by ``bucket/key``, and the environment of a client."""
    handler = type("Objects", (Handler,), {"objects": {}, "parts": {}})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
    }
    try:
        yield handler.objects, environment  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
