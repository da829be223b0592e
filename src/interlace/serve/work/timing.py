"""A time limit for something that is awaited."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")

if sys.version_info >= (3, 11):

    async def in_time(what: Awaitable[T], seconds: float) -> T:
        """The result, or TimeoutError; without a task of its own, which wait_for makes."""
        async with asyncio.timeout(seconds):
            return await what

else:

    async def in_time(what: Awaitable[T], seconds: float) -> T:
        """The result, or TimeoutError."""
        try:
            return await asyncio.wait_for(what, seconds)
        except asyncio.TimeoutError:
            raise TimeoutError from None
