"""Fixtures shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interlace import _native


@pytest.fixture(params=_native.simd_levels())
def simd(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each SIMD level of this machine in turn, the emulated one included."""
    before = _native.simd_level()
    _native.force_simd_level(request.param)
    yield request.param
    _native.force_simd_level(before)
