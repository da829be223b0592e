"""Single queries that arrive together run as one search; each gets its own answer, and its own error."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from serve_helpers import running, vectors

from interlace.serve import RequestLimits
from interlace.serve.problems import ProblemDetails
from interlace.serve.work.threads import MOST, Workers

X = vectors(300, 8)


class Recorder:
    """A search that waits until it may run, and remembers its batches."""

    def __init__(self) -> None:
        self.go, self.batches = threading.Event(), list[list[int]]()

    def __call__(self, given: Any) -> list[Any]:
        self.go.wait(20)
        self.batches.append(list(given))
        return [ValueError(str(n)) if n % 50 == 49 else n * 10 for n in given]


def test_requests_that_wait_run_together() -> None:
    recorder = Recorder()

    async def run() -> list[Any]:
        work = Workers(2, RequestLimits())
        tasks = [asyncio.create_task(work.read_batched("key", recorder, n)) for n in range(200)]
        other = asyncio.create_task(work.read_batched("other", recorder, 1000))
        await asyncio.sleep(0)
        recorder.go.set()
        found = await asyncio.gather(*tasks, other, return_exceptions=True)
        assert work.waiting == 0
        work.close()
        return found

    found = asyncio.run(run())
    for n, answer in enumerate(found[:-1]):
        assert str(answer) == (str(n) if n % 50 == 49 else str(n * 10))
    assert found[-1] == 10000
    assert sorted(n for batch in recorder.batches for n in batch) == [*range(200), 1000]
    assert len(recorder.batches) <= 8  # of 201 requests
    assert max(map(len, recorder.batches)) == MOST
    assert [1000] in recorder.batches


def test_a_request_that_finds_a_thread_does_not_wait() -> None:
    recorder = Recorder()
    recorder.go.set()

    async def run() -> None:
        work = Workers(2, RequestLimits())
        for n in range(5):
            assert await work.read_batched("key", recorder, n) == n * 10
        work.close()

    asyncio.run(run())
    assert recorder.batches == [[0], [1], [2], [3], [4]]


def test_the_queue_and_the_time_are_limited() -> None:
    recorder = Recorder()

    async def run() -> None:
        work = Workers(1, RequestLimits(queue=3, seconds=0.2))
        tasks = [asyncio.create_task(work.read_batched("key", recorder, n)) for n in range(5)]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        limits = [error.more["limit"] for error in found if isinstance(error, ProblemDetails)]
        assert sorted(limits) == ["queue", "queue", "seconds", "seconds", "seconds"]
        recorder.go.set()
        assert await work.read_batched("key", recorder, 7) == 70
        work.close()

    asyncio.run(run())


def test_writes_of_a_collection_run_one_after_the_other_and_finish() -> None:
    running_now, most, done = [0], [0], list[int]()

    def write(n: int) -> int:
        running_now[0] += 1
        most[0] = max(most[0], running_now[0])
        threading.Event().wait(0.02)
        running_now[0] -= 1
        done.append(n)
        return n

    async def run() -> None:
        work = Workers(1, RequestLimits(seconds=0.05))
        found = await asyncio.gather(*(work.write("c", write, n) for n in range(8)), return_exceptions=True)
        late = [error for error in found if isinstance(error, ProblemDetails)]
        assert late
        await asyncio.gather(*(t for t in asyncio.all_tasks() if t is not asyncio.current_task()))
        work.close()

    asyncio.run(run())
    assert most == [1]
    assert done == list(range(8))  # also those whose time was over


@pytest.mark.parametrize("threads", [1, 2])
def test_concurrent_clients_get_their_own_answers(tmp_path: Path, threads: int) -> None:
    with running(tmp_path) as found, httpx.Client(base_url=found.url) as client:
        client.put("/collections/c", json={"vectors": {"size": 8, "distance": "Euclid"}})
        points = [{"id": i, "vector": X[i].tolist()} for i in range(300)]
        client.put("/collections/c/points", json={"points": points})
        true = np.argsort(((X[:, None] - X[None, :60]) ** 2).sum(2), axis=0)[:3]
        wrong = list[Any]()

        async def ask(session: httpx.AsyncClient, i: int) -> None:
            good = i % 7 != 3
            query = X[i].tolist() if good else X[i].tolist()[:5]
            answer = await session.post("/collections/c/points/query", json={"query": query, "limit": 3})
            if good:
                ids = [p["id"] for p in answer.json()["result"]["points"]]
                if ids != true[:, i].tolist():
                    wrong.append((i, ids))
            elif answer.status_code != 400 or "must have 8 dimensions" not in answer.text:
                wrong.append((i, answer.text))

        async def run() -> None:
            async with httpx.AsyncClient(base_url=found.url) as session:
                await asyncio.gather(*(ask(session, i) for i in range(60)))

        asyncio.run(run())
        assert wrong == []
        text = client.get("/metrics").text
    queries = next(line for line in text.splitlines() if line.startswith('interlace_queries_total{collection="c"}'))
    assert float(queries.split()[-1]) >= 51
