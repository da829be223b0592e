"""Results of the library as answers of a server, and back."""

from __future__ import annotations

import numpy as np
import pytest

import interlace as il
from helpers import clustered
from interlace.client import answers


@pytest.mark.parametrize("single", [True, False])
def test_stats_arrive_as_they_were_and_fields_of_newer_servers_are_ignored(single: bool) -> None:
    index = il.Index.build(clustered(300, 8), n_bytes=2, threads=1)
    q = clustered(3, 8, seed=1)
    near, within = index.search(q[0] if single else q, 5, margin=0.9999, threads=1), index.range_search(q, 1.0)
    assert near.stats.fallback is not None
    for found, there, back in (
        (near, answers.of_matches, answers.to_matches),
        (within, answers.of_range, answers.to_range),
    ):
        arguments, arrays = there(found)
        arguments["stats"]["of a newer version"] = 1
        again = back(arguments, arrays)
        assert again.stats == found.stats
        assert np.array_equal(again.ids, found.ids)
