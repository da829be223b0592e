"""Points of JSON become arrays with the same bits as NumPy makes; everything unusual is left to pydantic."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace import _native
from interlace.serve.requests import frequent, models
from interlace.serve.requests.frequent import decoded_upsert


def parsed(text: str, rows: int, dim: int) -> Any:
    out = np.empty((rows, dim), np.float32)
    return out if _native.parse_rows(np.frombuffer(text.encode(), np.uint8), out) else None


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.floats(width=64, allow_nan=False, min_value=-1e38, max_value=1e38), min_size=3, max_size=3))
)
def test_numbers_have_the_bits_that_numpy_makes(rows: list[list[float]]) -> None:
    found = parsed("".join(map(json.dumps, rows)), len(rows), 3)
    with np.errstate(all="ignore"):
        expected = np.array(rows, np.float64).reshape(-1, 3).astype(np.float32)
    assert found is not None
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "text", ["[1,2]", "[1, 2.5e-3]", " [ -0 ,\n1E5 ] ", "[123456789012345678901234567890, 0.1]", "[1e-30,1e38]"]
)
def test_json_numbers_are_read(text: str) -> None:
    assert parsed(text, 1, 2).tolist() == np.array([json.loads(text)], np.float32).tolist()


TOO_SHORT = ["", "[", "[]", "[1]", "[1,", "[1,2", "1,2", "[1 2]", "[,1]", "{}"]
TOO_LONG = ["[1,2,3]", "[1,2]x", "[1,2][", "[1,2][3,4]", "[[1],[2]]"]
NO_NUMBERS = [
    "[null,1]",
    "[nan,1]",
    "[inf,1]",
    "[-inf,1]",
    "[-,1]",
    "[+1,2]",
    "[true,1]",
    '["1",2]',
    "[1e999,1]",
    "[.5,1]",
]


@pytest.mark.parametrize("text", TOO_SHORT + TOO_LONG + NO_NUMBERS)
def test_other_text_is_refused(text: str) -> None:
    assert parsed(text, 1, 2) is None


POINT = {"id": 1, "vector": [1.0, 2.0]}


def test_points_and_batches_are_decoded() -> None:
    points = {"points": [POINT, {"id": 2, "vector": [3, 4], "payload": {"a": [1, None]}}]}
    batch = {"batch": {"ids": [1, 2], "vectors": [[1.0, 2.0], [3, 4]], "payloads": [None, {"a": [1, None]}]}}
    for body in (points, batch):
        found = decoded_upsert(json.dumps(body).encode(), 2)
        assert found is not None
        assert found.ids == [1, 2]
        assert found.vectors.tolist() == [[1, 2], [3, 4]]
        assert found.payloads == [None, {"a": [1, None]}]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"points": []},
        {"points": [POINT], "batch": None, "other": 1},
        {"points": [{**POINT, "vector": [1.0]}]},
        {"points": [{**POINT, "vector": {"": [1.0, 2.0]}}]},
        {"points": [{**POINT, "vector": ["1", 2.0]}]},
        {"points": [{**POINT, "id": -1}]},
        {"points": [{**POINT, "id": 1.5}]},
        {"points": [POINT, {**POINT, "id": "a"}]},
        {"points": [{**POINT, "payload": [1]}]},
        {"points": [POINT], "update_mode": "upsert"},
        {"batch": {"ids": [1, 2], "vectors": [[1.0, 2.0]]}},
        {"batch": {"ids": [1], "vectors": [[1.0, 2.0]], "payloads": []}},
    ],
    ids=str,
)
def test_what_is_unusual_is_left_to_pydantic(body: Any) -> None:
    assert decoded_upsert(json.dumps(body).encode(), 2) is None
    assert decoded_upsert(b"\xff" + json.dumps(body).encode(), 2) is None


@pytest.mark.parametrize(
    ("struct", "model"),
    [
        (frequent.ExpressQuery, models.Query),
        (frequent.ExpressParams, models.SearchParams),
        (frequent.ExpressQuantization, models.Quantization),
        (frequent.PlainUpsert, models.Upsert),
        (frequent.PlainPoint, models.Point),
        (frequent.PlainPoints, models.Batch),
    ],
)
def test_a_struct_has_fields_of_its_model_with_the_same_defaults(struct: Any, model: Any) -> None:
    for field in msgspec.structs.fields(struct):
        of_model = model.model_fields[field.name]
        assert field.required or field.default == of_model.default
        assert field.required or not of_model.is_required()
