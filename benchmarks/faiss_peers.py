"""The peers: faiss indexes at equal code bytes, each at its best SIMD level, trained on the same rows as ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from bench_sets import BenchSet, FloatArray
from interlace.evaluate.answers import agreement, recall
from measure import KS, Ids, Method, quiet, seconds_per_query
from plan import Plan

FASTSCAN, PQ = "faiss IndexPQFastScan", "faiss IndexPQ"
AGREEMENT = 0.999  # with all lists, like our default margin with its exhaustive scan
LISTS = 256


def levels() -> dict[str, int | None]:
    """SIMD levels faiss has on this CPU. The highest is not always the fastest: IndexPQ is quicker without any."""
    config = getattr(faiss, "SIMDConfig", None)
    if config is None:
        return {"default": None}
    named = {
        value: name[10:]
        for name, value in vars(faiss).items()
        if name.startswith("SIMDLevel_") and name != "SIMDLevel_COUNT"
    }
    return {name: value for value, name in sorted(named.items()) if config.is_simd_level_available(value)}


def set_level(name: str) -> None:
    """Set the SIMD level, a global of faiss, if it can be chosen."""
    value = levels()[name]
    if value is not None:
        faiss.SIMDConfig.set_level(value)


def best_level() -> str:
    """The highest level, used for building."""
    return list(levels())[-1]


def build_all(
    data: BenchSet, n_bytes: int, train: NDArray[np.int64], plan: Plan, say: Callable[[str], None]
) -> list[Method]:
    """All peers, trained and filled, with their level and nprobe chosen."""
    builders = [fast_scan, product_codes, _opq, _ivf_pq, _ivf_fastscan]
    builders += [_rq] if plan.rq else []
    builders += [_rq_table] if plan.rq_table else []
    methods = []
    for builder in builders:
        say(f"building {builder.__name__[1:]}")
        methods.append(builder(data, n_bytes, train, plan))
    return methods


def quality(peer: Method, data: BenchSet, plan: Plan) -> dict[str, Any]:
    """Recall by k; IVF indexes also carry their agreement with all lists."""
    queries, truth = data.queries[: plan.answered], data.truth[: plan.answered]
    found = {k: peer.answers(queries, k) for k in KS}
    return {"recall": {str(k): round(recall(ids, truth, k), 5) for k, ids in found.items()}}


def fast_scan(data: BenchSet, n_bytes: int, train: NDArray[np.int64], plan: Plan) -> Method:
    """The flat scan of 4-bit codes."""
    pad = _padding(data, 2 * n_bytes)
    index = faiss.IndexPQFastScan(data.x.shape[1] + pad, 2 * n_bytes, 4)
    index.pq.cp.max_points_per_centroid = len(train)  # the default trains 4-bit books on 4,096 rows only
    return _filled(FASTSCAN, index, data, train, plan, ops=2 * n_bytes, pad=pad)


def product_codes(data: BenchSet, n_bytes: int, train: NDArray[np.int64], plan: Plan) -> Method:
    """The flat scan of 8-bit codes."""
    pad = _padding(data, n_bytes)
    index = faiss.IndexPQ(data.x.shape[1] + pad, n_bytes, 8)
    return _filled(PQ, index, data, train, plan, n_timed=plan.timed_slow, ops=n_bytes, pad=pad)


def _opq(data: BenchSet, n_bytes: int, train: NDArray[np.int64], plan: Plan) -> Method:
    dim = data.x.shape[1]
    out = plan.opq_out if dim > 2 * plan.opq_out else dim + _padding(data, n_bytes)
    # np: without training for polysemous codes, which this search does not use.
    index = faiss.index_factory(dim, f"OPQ{n_bytes}_{out},PQ{n_bytes}np")
    rotation = faiss.downcast_VectorTransform(index.chain.at(0))
    rotation.max_train_points = plan.opq_rows
    rotation.niter = plan.opq_iterations
    notes = [f"rotation to {out} dimensions learned from {min(plan.opq_rows, len(train))} rows"]
    return _filled("faiss OPQ+PQ", index, data, train, plan, n_timed=plan.timed_slow, ops=n_bytes, notes=notes)


def _rq(data: BenchSet, n_bytes: int, train: NDArray[np.int64], plan: Plan) -> Method:
    index = faiss.IndexResidualQuantizer(data.x.shape[1], n_bytes, 8)
    notes = [_tuned(index.rq), "search decodes every row; recall by exact search in the decoded rows, the same ranking"]
    peer = _filled("faiss ResidualQuantizer", index, data, train, plan, n_timed=plan.timed_decode, notes=notes)
    peer.answer = lambda queries, k: faiss.knn(queries, index.reconstruct_n(0, index.ntotal), k)[1]
    return peer


def _rq_table(data: BenchSet, n_bytes: int, train: NDArray[np.int64], plan: Plan) -> Method:
    search_type = faiss.AdditiveQuantizer.ST_norm_qint8
    index = faiss.IndexResidualQuantizer(data.x.shape[1], n_bytes - 1, 8, faiss.METRIC_L2, search_type)
    notes = [_tuned(index.rq), "one byte is the norm; search by tables"]
    name = "faiss ResidualQuantizer, norm byte"
    return _filled(name, index, data, train, plan, n_timed=plan.timed_slow, ops=n_bytes, notes=notes)


def _tuned(rq: Any) -> str:
    """Plain k-means on all rows: in its time the default, progressive, could take a fifth of them and errs more."""
    rq.max_beam_size = 5
    rq.train_type = faiss.ResidualQuantizer.Train_default
    return "beam 5, plain instead of progressive k-means"


def _ivf_pq(data: BenchSet, n_bytes: int, train: NDArray[np.int64], plan: Plan) -> Method:
    pad = _padding(data, n_bytes)
    index = faiss.index_factory(data.x.shape[1] + pad, f"IVF{LISTS},PQ{n_bytes}np")
    return _ivf(f"faiss IVF{LISTS},PQ{n_bytes}", index, data, train, plan, pad)


def _ivf_fastscan(data: BenchSet, n_bytes: int, train: NDArray[np.int64], plan: Plan) -> Method:
    pad = _padding(data, 2 * n_bytes)
    index = faiss.index_factory(data.x.shape[1] + pad, f"IVF{LISTS},PQ{2 * n_bytes}x4fs")
    index.pq.cp.max_points_per_centroid = len(train)
    return _ivf(f"faiss IVF{LISTS},PQ{2 * n_bytes}x4fs", index, data, train, plan, pad)


def _ivf(name: str, index: Any, data: BenchSet, train: NDArray[np.int64], plan: Plan, pad: int) -> Method:
    index.cp.min_points_per_centroid = 1
    peer = _filled(name, index, data, train, plan, pad=pad, choose=False)
    queries = data.queries[: plan.nprobe_queries]
    nprobe, reached = {}, {}
    for k in KS:
        nprobe[k], reached[k] = smallest_nprobe(index, peer.inputs(queries), k)
    at_level = peer.prepare

    def prepare(mode: str, k: int) -> None:
        at_level(mode, k)
        index.nprobe = nprobe[k]

    peer.prepare = prepare
    peer.facts |= {
        "id_bytes": 8,
        "nprobe": {str(k): n for k, n in nprobe.items()},
        "agreement": {str(k): round(value, 6) for k, value in reached.items()},
    }
    peer.facts["notes"].append(
        f"smallest nprobe that agrees with all {LISTS} lists at {AGREEMENT}, chosen on the first {len(queries)} queries"
    )
    _choose_levels(peer, data.queries)
    return peer


def smallest_nprobe(index: Any, queries: FloatArray, k: int) -> tuple[int, float]:
    """The smallest nprobe by bisection, and its agreement; agreement grows with nprobe: visited rows are kept."""

    def answers(nprobe: int) -> Ids:
        index.nprobe = nprobe
        return index.search(queries, k)[1]

    everything = answers(LISTS)
    low, high, reached = 1, LISTS, 1.0
    while low < high:
        middle = (low + high) // 2
        found = agreement(answers(middle), everything)
        if found >= AGREEMENT:
            high, reached = middle, found
        else:
            low = middle + 1
    return low, reached


def _padding(data: BenchSet, parts: int) -> int:
    """Zero columns that make the dimension a multiple of the sub-quantizers."""
    return -data.x.shape[1] % parts


def _filled(
    name: str,
    index: Any,
    data: BenchSet,
    train: NDArray[np.int64],
    plan: Plan,
    *,
    n_timed: int | None = None,
    ops: int | None = None,
    pad: int = 0,
    notes: list[str] | None = None,
    choose: bool = True,
) -> Method:
    set_level(best_level())
    x = np.pad(data.x, ((0, 0), (0, pad))) if pad else data.x
    started = time.perf_counter()
    index.train(x[train])
    trained = time.perf_counter()
    index.add(x)
    done = time.perf_counter()
    facts = {
        "name": name,
        "kind": "faiss",
        # Of an IVF index sa_code_size() counts the list number too, which is not stored.
        "bytes_per_vector": float(getattr(index, "code_size", None) or index.sa_code_size()),
        "ops_per_vector": ops,
        "build": {"train": round(trained - started, 3), "encode": round(done - trained, 3)},
        "notes": (notes or []) + ([f"{pad} zero columns added"] if pad else []),
    }
    peer = Method(name, lambda queries, k: index.search(queries, k)[1], n_timed or plan.timed, facts=facts, pad=pad)
    peer.facts["level"] = {}

    def prepare(mode: str, k: int) -> None:
        set_level(peer.facts["level"].get(mode, best_level()))

    peer.prepare = prepare
    if choose:
        _choose_levels(peer, data.queries)
    return peer


def _choose_levels(peer: Method, queries: FloatArray) -> None:
    """The fastest level of each mode at k = 10, each tried three times on some of the queries."""
    few = peer.inputs(queries[: max(1, peer.n_timed // 4)])
    for mode in ("batch", "single"):
        tried = {}
        for level in levels():
            peer.facts["level"][mode] = level
            with quiet():
                tried[level] = min(seconds_per_query(peer, few, mode, 10) for _ in range(3))
        peer.facts["level"][mode] = min(tried, key=lambda level: tried[level])


def at_level(peer: Method, level: str, n_timed: int) -> Method:
    """The same peer at one fixed level."""
    facts = peer.facts | {"level": level}

    def prepare(mode: str, k: int) -> None:
        peer.prepare(mode, k)
        set_level(level)

    return Method(f"{peer.key} {level}", peer.search, n_timed, prepare, facts, pad=peer.pad)
