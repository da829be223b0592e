"""Commands of stores as a user meets them: from files and pipes, with ids, half-way failures, exit codes."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from cli_checks import fails
from conftest import Run
from helpers import clustered
from interlace.cli import blocks

X = clustered(700, 6, seed=3)
Q = clustered(5, 6, seed=4)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of 500 rows, a model, more rows, queries."""
    path = tmp_path_factory.mktemp("made")
    index = il.Index.build(X[:500], n_bytes=4, layout="subspace", threads=1)
    index.save(path / "x.index")
    il.ICQ(n_bytes=4, layout="subspace", threads=1).fit(X[:500]).save(path / "x.icq")
    index.codebooks.save(path / "x.books")
    np.save(path / "more.npy", X[500:])
    np.save(path / "q.npy", Q)
    return path


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """The same files, for one test."""
    return Path(shutil.copytree(made, tmp_path / "files"))


@pytest.fixture
def store(folder: Path, run: Run) -> Path:
    """Made by the command."""
    assert run("create", "s", "--from", "x.index")[0] == 0
    return folder / "s"


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def npy(x: Any, **how: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, x, **how)
    return file.getvalue()


def json_lines(x: Any, ids: Any = None) -> bytes:
    rows = [r if ids is None else {"id": i, "vector": r} for i, r in zip(ids or x, np.asarray(x).tolist(), strict=True)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def csv(x: Any, separator: str = ",") -> bytes:
    return "".join(separator.join(map(repr, row)) + "\n" for row in np.asarray(x).tolist()).encode()


class TestCreate:
    @pytest.mark.parametrize(("source", "rows"), [("x.index", 500), ("x.icq", 0), ("x.books", 0)])
    def test_from_what(self, run: Run, source: str, rows: int) -> None:
        code, out, err = run("create", "t", "--from", source, "--json")
        assert (code, err) == (0, "")
        assert json.loads(out) == {
            **{"store": "t", "from": source, "rows": rows, "dim": 6},
            **{"metric": "l2", "n_bytes": 4, "columns": None, "originals": None},
        }
        assert len(il.open("t")) == rows
        fails(run("create", "t", "--from", source), "is already a store")

    def test_text(self, run: Run) -> None:
        code, out, _ = run("create", "t", "--from", "x.index")
        assert code == 0
        assert out.startswith("t: a store of 500 rows\nCodebooks(")

    def test_refused(self, run: Run, store: Path) -> None:
        fails(run("create", "t", "--from", "q.npy"), "a NumPy .npy array")
        fails(run("create", "t", "--from", "s"), "is a directory, not an interlace file")
        fails(run("create", "t", "--from", "nothing"), "nothing")
        assert run("create", "t")[0] == 2


class TestAdd:
    def test_a_file(self, run: Run, store: Path) -> None:
        code, out, err = run("add", "s", "more.npy", "--threads", 1)
        assert (code, err) == (0, "")
        assert out.startswith("s: 200 rows added in ")
        assert out.endswith(" s; 700 in the store\n")
        assert il.open("s").ids.tolist() == list(range(700))

    @pytest.mark.parametrize("kind", ["npy", "json", "json with ids", "csv", "tabs", "spaces", "csv with ids", "flat"])
    @pytest.mark.parametrize("rows", [1, 7, 10_000])
    def test_stdin(self, run: Run, store: Path, monkeypatch: pytest.MonkeyPatch, kind: str, rows: int) -> None:
        """Every kind gives the same codes, in blocks of any size."""
        monkeypatch.setattr(blocks, "ROWS", rows)
        x, ids = X[500:520], list(range(900, 920))
        with_ids = b"a,ID,b,c,d,e,f\n" + b"".join(
            f"{r[0]!r},{i},{','.join(map(repr, r[1:]))}\n".encode() for i, r in zip(ids, x.tolist(), strict=True)
        )
        data = {
            "npy": npy(x.astype(np.float64)),
            "json": json_lines(x),
            "json with ids": json_lines(x, ids),
            "csv": b"\xef\xbb\xbf" + csv(x) + b"\n  \n",
            "tabs": csv(x, "\t"),
            "spaces": csv(x, "  "),
            "csv with ids": with_ids,
            "flat": npy(x),
        }[kind]
        piped(monkeypatch, data)
        code, out, err = run("add", "s", "-", "--json", "--threads", 1)
        assert (code, err) == (0, "")
        assert json.loads(out)["added"] == 20
        found = il.open("s")
        new = found.ids[500:].tolist()
        assert new == (ids if "ids" in kind else list(range(500, 520)))
        index = il.open("x.index")
        index.add(x, threads=1)
        np.testing.assert_array_equal(found.get(new), index.reconstruct(np.arange(500, 520)))

    @pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.txt"])
    def test_text_files(self, run: Run, store: Path, name: str) -> None:
        Path(name).write_bytes(json_lines(X[500:510]) if name.endswith("jsonl") else csv(X[500:510]))
        assert run("add", "s", name)[0] == 0
        assert len(il.open("s")) == 510

    def test_ids_of_a_file(self, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(blocks, "ROWS", 64)
        assert run("create", "t", "--from", "x.icq")[0] == 0
        names = [f"n{i}" for i in range(200)]
        Path("names.txt").write_text("\n".join(names) + "\n")
        assert run("add", "t", "more.npy", "--ids", "names.txt")[0] == 0
        assert il.open("t").ids.tolist() == names
        fails(run("add", "t", "q.npy", "--ids", "names.txt"), "'names.txt' has 200 ids, 'q.npy' has 5 rows")
        fails(run("add", "t", "more.npy", "--ids", "names.txt"), "id 'n0' is already in the store")
        code, out, _ = run("add", "t", "more.npy", "--ids", "names.txt", "--upsert", "--json")
        assert (code, json.loads(out)["rows"]) == (0, 200)

    def test_text_ids_that_look_like_numbers(self, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What a store has, text or integers, decides."""
        for first in ("a", 7):
            name = f"t{first}"
            assert run("create", name, "--from", "x.icq")[0] == 0
            piped(monkeypatch, json_lines(X[:1], [first]))
            assert run("add", name, "-")[0] == 0
            piped(monkeypatch, b"id,a,b,c,d,e,f\n" + b"".join(f"{i},1,2,3,4,5,6\n".encode() for i in (12, 13)))
            assert run("add", name, "-")[0] == 0
        assert il.open("ta").ids.tolist() == ["a", "12", "13"]
        assert il.open("t7").ids.tolist() == [7, 12, 13]
        assert run("remove", "ta", "--id", 12)[0] == 0
        assert run("remove", "t7", "--id", 12)[0] == 0

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (b"[1, 2, 3]\n", "line 13: it has 3 values, 6 expected"),
            (b"[1, 2, 3, 4, 5, NaN]\n", "line 13: value 6 is nan, not a finite number"),
            (b'[1, 2, 3, 4, 5, "x"]\n', "line 13: value 6 is 'x', not a number"),
            (b"[1, 2, 3, 4, 5, true]\n", "line 13: value 6 is True, not a number"),
            (b"[1, 2,\n", "line 13: not JSON"),
            (b'{"vektor": []}\n', "line 13: an object with 'vector' (and 'id') is needed, it has vektor"),
            (b'{"id": 1, "vector": [1, 2, 3, 4, 5, 6]}\n', "line 13: it has an id, those before have none"),
            (b"[1e999, 2, 3, 4, 5, 6]\n", "line 13: value 1 is inf"),
            (b"7\n", "line 13: a list of numbers is needed, got 7"),
            (b"\xff\xfe\n", "line 13 is not text"),
            (b"[" + b"1" * 400 + b", 2, 3, 4, 5, 6]\n", "line 13: it has an integer that no float can hold"),
        ],
        ids=lambda value: value[:30] if isinstance(value, bytes) else None,
    )
    def test_a_bad_line_keeps_the_rows_before(
        self, run: Run, store: Path, monkeypatch: pytest.MonkeyPatch, line: bytes, message: str
    ) -> None:
        monkeypatch.setattr(blocks, "ROWS", 5)
        piped(monkeypatch, json_lines(X[:12]) + line + json_lines(X[:3]))
        result = run("add", "s", "-")
        fails(result, f"stdin: {message}")
        assert result[2].endswith("; 12 earlier rows were added\n")
        assert len(il.open("s")) == 512
        piped(monkeypatch, json_lines(X[:12]) + line)
        code, out, _ = run("add", "s", "-", "--json")
        assert code == 1
        assert (json.loads(out)["added"], json.loads(out)["rows"]) == (12, 524)
        assert message in json.loads(out)["error"]

    def test_a_first_line_that_is_bad_adds_nothing(
        self, run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for data, message in (
            (b"hello\n", "stdin: line 1: 'hello' is neither JSON nor numbers"),
            (b"hello, world\n", "line 1: 'hello, world' is neither JSON nor numbers, nor names of columns: 6 expected"),
            (b"some words of junk\nand more\n", "line 1: 'some words of junk' is neither JSON nor numbers"),
            (b"<html>, <head>\n", "nor names of columns: 6 expected"),
            (b"a,b,c,d,e,f\n", "stdin has names of columns, and no rows"),
            (b"1,2,3,4,5,x\n", "line 1: value 6 is 'x', not a number"),
            (b"\n\n", "stdin has no rows"),
            (b"", "stdin is empty"),
            (b"1,2,3\n", "line 1: it has 3 values, 6 expected"),
            (b"id,a,b,c,d,e,f\n1,2\n", "line 2: it has 1 values, 6 expected"),
            (npy(np.zeros((3, 5))), "stdin has rows of shape (5,), the store expects (6,)"),
            (npy(np.zeros(6)), "must hold an array [rows, dimensions], got shape (6,)"),
            (npy(np.asfortranarray(X[:5])), "Fortran order"),
            (npy(np.array([["a"] * 6])), "must hold real numbers"),
            (npy(X[:3])[:9], "cannot be read as .npy"),
            (b"x" * (2 << 20), "line 1 has more than 1,048,576 bytes"),
        ):
            piped(monkeypatch, data)
            result = run("add", "s", "-")
            fails(result, message)
            assert "were added" not in result[2]
        assert len(il.open("s")) == 500

    def test_a_stream_that_ends_too_early(self, run: Run, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(blocks, "ROWS", 5)
        piped(monkeypatch, npy(X[:20])[:-30])
        fails(run("add", "s", "-"), "stdin ends after 18 of 20 rows; 18 earlier rows were added")
        assert len(il.open("s")) == 518

    def test_a_bad_row_in_a_file(self, run: Run, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(blocks, "ROWS", 50)
        bad = X[500:].copy()
        bad[77, 2] = np.nan
        np.save("bad.npy", bad)
        fails(
            run("add", "s", "bad.npy"),
            "is nan, not a finite number (NaN and inf are refused); 50 earlier rows were added",
        )
        assert len(il.open("s")) == 550

    def test_a_disk_that_is_full(self, run: Run, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from interlace.store import files

        monkeypatch.setattr(blocks, "ROWS", 50)
        real, syncs = files.call, []

        def full(name: str, *arguments: Any, **where: int) -> Any:
            if name == "write":
                syncs.append(1)
                if len(syncs) > 2:
                    raise OSError(28, os.strerror(28))
            return real(name, *arguments, **where)

        monkeypatch.setattr(files, "call", full)
        result = run("add", "s", "more.npy")
        monkeypatch.undo()
        fails(result, "No space left on device); 100 earlier rows were added")
        assert len(il.open(store)) == 600
        il.open(store).verify()

    def test_other_mistakes(self, run: Run, store: Path, folder: Path) -> None:
        fails(run("add", "nowhere", "more.npy"), "there is no store 'nowhere'")
        fails(
            run("add", "x.index", "more.npy"),
            "'x.index' is a file, not a store: convert it with `interlace create STORE --from x.index`",
        )
        fails(run("add", "s", "more.xyz"), "unknown extension; supported are .npy, ")
        fails(run("add", "s", "missing.npy"), "there is no file 'missing.npy'")
        fails(run("add", "s", "more.npy", "--upsert"), "--upsert needs ids")
        fails(run("add", "s", "more.npy", "--key", "a"), "key")
        fails(run("add", "s", "-", "--key", "a"), "key")
        with il.open("s", mode="a"):
            fails(run("add", "s", "more.npy"), f"is being written to by process {os.getpid()} since ")

    def test_a_warning_is_one_line(self, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        x = clustered(5000, 6, seed=3, clusters=40)
        index = il.Index.build(x[:3000], n_bytes=4, layout="subspace", max_train_rows=1500, threads=1)
        index.to_store("d").close()
        np.save("far.npy", x[3000:] + 3)
        code, out, err = run("add", "d", "far.npy")
        assert code == 0
        assert err.count("\n") == 1
        assert err.startswith("interlace: warning: the codebooks no longer fit")
        assert "2,000 rows added" in out

    def test_through_a_real_pipe(self, store: Path, folder: Path) -> None:
        command = [sys.executable, "-m", "interlace.cli", "add", str(store), "-"]
        done = subprocess.run(command, input=csv(X[:30]), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert b"30 rows added" in done.stdout


class TestOthers:
    def test_remove(self, run: Run, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("gone.txt").write_text("1\n2\n3\n")
        assert run("remove", "s", "gone.txt", "--id", 9) == (0, "s: 4 rows removed; 496 in the store\n", "")
        fails(run("remove", "s", "gone.txt"), "id 1 is not in the store (3 of 3 unknown)")
        piped(monkeypatch, b"3\n4\n5\n")
        code, out, _ = run("remove", "s", "-", "--ignore-missing", "--json")
        assert (code, json.loads(out)) == (0, {"store": "s", "removed": 2, "rows": 494})
        fails(run("remove", "s"), "no ids given: pass IDS")
        fails(run("remove", "s", "--id", "x"), "id 'x' is not in the store")

    def test_get(self, run: Run, store: Path) -> None:
        np.save("ids.npy", np.array([7, 3]))
        assert run("get", "s", "ids.npy", "-o", "v.npy") == (0, "wrote v.npy: 2 x 6\n", "")
        np.testing.assert_array_equal(np.load("v.npy"), il.open("s").get([7, 3]))
        out = run("get", "s", "ids.npy")[1]
        rows = [json.loads(line) for line in out.splitlines()]
        assert [row["id"] for row in rows] == [7, 3]
        np.testing.assert_array_equal(np.array([row["vector"] for row in rows], np.float32), np.load("v.npy"))
        fails(run("get", "s", "--id", 7, "--id", 5000), "id 5000 is not in the store")
        fails(run("get", "s", "--id", 7, "-o", "v.txt"), "--output must end with .npy")

    def test_what_get_prints_can_be_added(self, run: Run, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        out = run("get", "s", "--id", 7)[1].replace('"id": 7', '"id": 1007')
        piped(monkeypatch, out.encode())
        assert run("add", "s", "-")[0] == 0
        np.testing.assert_allclose(il.open("s").get(1007), il.open("s").get(7), atol=1e-5)

    def test_compact(self, run: Run, store: Path) -> None:
        with il.open("s", mode="a") as opened:
            opened.remove(np.arange(100))
        code, out, _ = run("compact", "s")
        assert code == 0
        assert out.startswith("s: 400 rows; dropped 100 removed rows, ")
        found = json.loads(run("compact", "s", "--json")[1])
        assert (found["rows"], found["removed"], found["bytes"]) == (400, 0, found["bytes_before"])

    def test_health(self, run: Run, store: Path) -> None:
        code, out, _ = run("health", "s")
        assert code == 0
        assert out == f"s: {il.open('s').health()}\n"
        found = json.loads(run("health", "s", "--json")[1])
        assert (found["rows"], found["segments"], found["drift"], found["relearn"]) == (500, 1, None, False)
        (advice,) = found["advice"]  # of 500 rows none calibrate the default margin
        assert (found["default_calibrated"], advice.partition(",")[0]) == (False, "calibrate(queries)")

    def test_export(self, run: Run, store: Path) -> None:
        assert run("remove", "s", "--id", 0)[0] == 0
        code, out, _ = run("export", "s", "-o", "again.index")
        assert code == 0
        assert out == f"again.index: 499 rows, {Path('again.index').stat().st_size:,} bytes\n"
        np.testing.assert_array_equal(il.open("again.index").ids, il.open("s").ids)
        assert json.loads(run("export", "s", "-o", "again.index", "--json")[1])["rows"] == 499
        fails(run("export", "s", "-o", "q.npy"), "not overwriting 'q.npy'")
        fails(run("export", "s", "-o", "s"), "it is a directory")


class TestWhereAnIndexIsTaken:
    def test_search(self, run: Run, store: Path) -> None:
        of_store = json.loads(run("search", "s", "q.npy", "-k", 3, "--margin", "exact", "--json")[1])
        of_index = json.loads(run("search", "x.index", "q.npy", "-k", 3, "--margin", "exact", "--json")[1])
        assert of_store["hits"] == of_index["hits"]
        hit = of_store["hits"][0]["ids"][0]
        assert run("remove", "s", "--id", hit)[0] == 0
        again = json.loads(run("search", "s", "q.npy", "-k", 3, "--margin", "exact", "--json")[1])
        assert hit not in again["hits"][0]["ids"]

    def test_evaluate(self, run: Run, store: Path) -> None:
        """Of rows that are there, by the vectors that were added."""
        kept = np.delete(np.arange(500), np.arange(0, 500, 3))
        with il.open("s", mode="a") as opened:
            opened.remove(np.arange(0, 500, 3))
        np.save("kept.npy", X[kept])
        args = ("--vectors", "kept.npy", "--queries", "q.npy", "-k", 5, "--json", "--threads", 1)
        found = json.loads(run("evaluate", "s", *args)[1])
        index = il.Index.from_codes(il.open("x.index").codebooks, il.open("x.index").engine.codes_of(kept), kept)
        expected = index.evaluate(Q, 5, x=X[kept], threads=1)
        assert found["rows"] == len(kept)
        assert found["recall@5"] == pytest.approx(expected.recall[5])
        assert found["agreement"] == 1.0
        assert found["quantization_error"] == pytest.approx(expected.quantization_error)
        fails(run("evaluate", "s", "q.npy", "--labels", "y.npy"), "--labels is for models; 's' is not a model")

    def test_info(self, run: Run, store: Path) -> None:
        assert run("add", "s", "more.npy")[0] == 0
        code, out, _ = run("info", "s")
        assert code == 0
        lines = [" ".join(line.split()) for line in out.splitlines()]
        assert lines[1] == "kind store, format version 2"
        assert {"rows 700", "ids int64", "log 200 rows that are not in a segment yet"} <= set(lines)
        assert any(line.startswith("segment-3.interlace 500 0 ") for line in lines)
        found = json.loads(run("info", "s", "--json")[1])
        assert (found["rows"], found["log_rows"], found["segments"][0]["rows"]) == (700, 200, 500)
        assert found["file_bytes"] == il.open("s").report().file
        fails(run("info", "."), "a directory, but not a store")

    def test_verify(self, run: Run, store: Path) -> None:
        assert "no damage, checked 500 rows" in run("verify", "s")[1]
