"""A browser for tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from page_helpers import browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser, or a reason to skip."""
    with browser() as found:
        yield found
