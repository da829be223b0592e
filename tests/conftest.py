"""Fixtures shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from interlace import _native

# The same examples every time, so that a failure says something about a change; `make explore` draws others. Machines
# are busy at times: no deadline for one example.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("same")


@pytest.fixture(params=_native.simd_levels())
def simd(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each SIMD level of this machine in turn, the emulated one included."""
    before = _native.simd_level()
    _native.force_simd_level(request.param)
    yield request.param
    _native.force_simd_level(before)


@pytest.fixture(scope="module")
def one_faiss_thread() -> Iterator[None]:
    """faiss on one thread, and as it was afterwards."""
    faiss = pytest.importorskip("faiss")
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)
