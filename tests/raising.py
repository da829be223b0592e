"""`raises`: expects an error by its type and by the facts in its message, in any wording."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

Facts = tuple[str | int, ...]


@contextlib.contextmanager
def raises(error: Any, *facts: str | int) -> Iterator[Any]:
    """Expect an error whose message has every fact as a whole word: a parameter, a number, a row, a value.

    The number 1000 may be written ``1000`` or ``1,000``.
    """
    with pytest.raises(error) as caught:
        yield caught
    text = str(caught.value)
    missing = [fact for fact in facts if not has_fact(text, fact)]
    assert not missing, f"the message does not contain {missing}: {text}"


def has_fact(text: str, fact: str | int) -> bool:
    """Whether a text has a fact that is no part of a longer word or number."""
    forms = {str(fact), f"{fact:,}"} if isinstance(fact, int) else {fact}
    words = "|".join(re.escape(form) for form in forms)
    number = isinstance(fact, int)
    before = r"(?<![\w.])" if number else r"(?<!\w)" if words[:1].isalnum() else ""
    after = r"(?!\w|[.,]\d)" if number or words[-1:].isalnum() else ""
    return re.search(f"{before}(?:{words}){after}", text) is not None
