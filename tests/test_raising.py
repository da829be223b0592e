"""Facts in messages are whole words and numbers."""

from __future__ import annotations

import pytest

from raising import has_fact, raises


@pytest.mark.parametrize(
    ("fact", "text", "found"),
    [
        (5, "k must be at most 5, got 6", True),
        (5, "got 5.", True),
        (5, "got 55", False),
        (5, "got 1.5", False),
        (5, "got 5.5", False),
        (1000, "got 1,000 rows", True),
        (1, "got 1,000 rows", False),
        ("k", "k must be positive", True),
        ("k", "rank must be positive", False),
        ("x[2, 1]", "x[2, 1] is nan", True),
        ("x[2, 1]", "max[2, 1] is nan", False),
        ("'a'", "it has 'a', 'b'", True),
        ("'a'", "it has 'ab'", False),
    ],
)
def test_facts_are_whole_words_and_numbers(fact: str | int, text: str, found: bool) -> None:
    assert has_fact(text, fact) is found


def test_a_missing_fact_fails() -> None:
    with pytest.raises(AssertionError, match="7"), raises(ValueError, "k", 7):
        raise ValueError("k must be at most 8")
    with raises(ValueError, "k", 8) as caught:
        raise ValueError("k must be at most 8")
    assert caught.value.args == ("k must be at most 8",)
