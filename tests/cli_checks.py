"""What every test of the command line looks at."""

from __future__ import annotations


def fails(result: tuple[int, str, str], message: str, code: int = 1) -> None:
    """One line on stderr, nothing on stdout, no traceback."""
    assert result[:2] == (code, "")
    assert result[2].startswith("interlace: error: ")
    assert result[2].count("\n") == 1
    assert message in result[2]
