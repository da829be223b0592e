"""Metrics of several processes as one: counters, histograms and gauges with the same labels are added."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from ..work.metrics import Metrics

SOCKET = "metrics-{}.sock"
SECONDS = 2.0  # for an answer of another process


async def listen(metrics: Metrics, folder: str, number: int) -> asyncio.AbstractServer:
    """Tell other processes of the group what this one has counted."""

    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        metrics.settle()
        with contextlib.suppress(OSError):
            writer.write(metrics.text())
            await writer.drain()
            writer.close()

    path = Path(folder) / SOCKET.format(number)
    path.unlink(missing_ok=True)  # of a process that was replaced
    return await asyncio.start_unix_server(tell, path)


async def others(folder: str, number: int) -> list[str]:
    """What the other readers have counted; one that does not answer is left out."""
    paths = [path for path in Path(folder).glob(SOCKET.format("*")) if path.name != SOCKET.format(number)]
    found = await asyncio.gather(*(asyncio.wait_for(_ask(path), SECONDS) for path in paths), return_exceptions=True)
    return [text for text in found if isinstance(text, str)]


async def _ask(path: Path) -> str:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        return (await reader.read()).decode()
    finally:
        writer.close()


def added(texts: Iterable[str]) -> bytes:
    """The sum, in the format of the texts."""
    kinds: dict[str, tuple[str, str]] = {}
    samples: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for text in texts:
        for family in text_string_to_metric_families(text):
            name = family.name + ("_total" if family.type == "counter" else "")
            if name.endswith("_created"):  # when a process began to count
                continue
            kinds.setdefault(name, (family.type, family.documentation))
            sums = samples.setdefault(name, {})
            for sample in family.samples:
                key = sample.name, tuple(sample.labels.items())
                sums[key] = sums.get(key, 0.0) + sample.value
    lines = []
    for name, (kind, documentation) in kinds.items():
        lines += [f"# HELP {name} {documentation}", f"# TYPE {name} {kind}"]
        lines += [f"{sample}{_labels(labels)} {value}" for (sample, labels), value in samples[name].items()]
    return ("\n".join(lines) + "\n").encode()


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    if not labels:
        return ""
    escaped = [(k, v.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")) for k, v in labels]
    return "{" + ",".join(f'{k}="{v}"' for k, v in escaped) + "}"
