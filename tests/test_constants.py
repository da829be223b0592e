"""Numbers that Python code and native code both know are the same: neither reads the other's."""

from __future__ import annotations

import pytest

from interlace import _native
from interlace.codec import book, codebooks
from interlace.engine import hits, segments
from interlace.index import ids
from interlace.learn import axes, grouping, settings
from interlace.learn.cost import shape
from interlace.reference import coding
from interlace.reference.rerank import SUMS

SAME = {
    "Books::kLongCode": [book.LONG_CODE],
    "BeamTables::kMaxBooks": [codebooks.MAX_BOOKS],
    "CrossSums::kStep": [shape.DENSE_STEP],
    "RowNumbers::kSample": [shape.SAMPLE_EVERY],
    "HalfWords::kNarrowest": [book.HALF_WIDTH],
    "NearestWords::kAllTables": [shape.ALL_TABLES, coding.ALL_TABLES],
    "PackedIds::kBlock": [ids.BLOCK],
    "QueryTables::kGroup": [hits.QUERIES_PER_TASK],
    "Rotation::kSmallest": [codebooks.HALF_ROTATION],
    "kWords": [book.MAX_WORDS],
    "kHalfColumns": [axes.HALF_COLUMNS],
    "kBlock": [segments.BLOCK],
    "kGroups": [grouping.GROUPS],
    "kScanColumns": [settings.MAX_BYTES],  # the byte scan reads all columns of the longest codes
    "kSums": [SUMS],
}


@pytest.mark.parametrize("name", SAME)
def test_a_number_is_that_of_native_code(name: str) -> None:
    assert SAME[name] == [_native.constants()[name]] * len(SAME[name])


def test_all_of_them_are_compared() -> None:
    assert set(_native.constants()) == set(SAME)
