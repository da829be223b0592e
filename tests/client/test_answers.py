"""Results of the library as answers of a server, and back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlace as il
from helpers import clustered
from interlace.client import answers
from interlace.client.codes import CODES
from interlace.errors import InputError, InterlaceError, PartlyAddedError, StoreError


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


@given(st.sampled_from(list(CODES)), st.text("abc ü'{}0", min_size=1))
def test_an_error_of_the_server_is_the_same_exception_here(kind: type[InterlaceError], text: str) -> None:
    error = PartlyAddedError(text, 3) if kind is PartlyAddedError else kind(text)
    problems = pytest.importorskip("interlace.serve.problems", reason="the serve extra is not installed")
    response = problems.of_error(error).response("id-1", 0.0)
    problem = json.loads(bytes(response.body))
    assert response.media_type == "application/json"
    assert problem["status"] == {"error": text}
    assert problem["time"] >= 0
    again = answers.error_of(response.status_code, problem)
    assert type(again) is kind
    assert str(again) == str(error)
    assert getattr(again, "added", None) == getattr(error, "added", None)


def test_every_code_of_an_exception_has_a_status() -> None:
    problems = pytest.importorskip("interlace.serve.problems", reason="the serve extra is not installed")
    assert problems.STATUS.keys() == set(CODES.values())


@pytest.mark.parametrize(
    ("status", "problem", "kind"),
    [
        (404, {"code": "unknown_collection", "detail": "there is no collection 'x'"}, InputError),
        (404, {"code": "unknown_field", "detail": "x"}, InputError),
        (404, {"code": "unknown_path", "detail": "x"}, StoreError),
        *((status, {"code": "limit", "detail": "x"}, InputError) for status in (413, 422)),
        *((status, {"code": "limit", "detail": "x"}, StoreError) for status in (408, 429, 503)),
        *((status, {"code": "unsupported", "detail": "x"}, InputError) for status in (422, 501)),
        (401, {"code": "unauthorized", "detail": "x"}, StoreError),
        (400, {"code": "json", "detail": "x"}, InputError),
        (409, {"code": "conflict", "detail": "x"}, InputError),
        (415, {"code": "media_type", "detail": "x"}, InputError),
        (507, {"code": "full", "detail": "x"}, StoreError),
        (502, {"detail": "<html>of a proxy</html>"}, StoreError),
    ],
)
def test_other_errors_are_exceptions_by_their_status(status: int, problem: Any, kind: type[Exception]) -> None:
    found = answers.error_of(status, {"status": {"error": problem["detail"]}, **problem})
    assert type(found) is kind
    assert problem["detail"] in str(found)
