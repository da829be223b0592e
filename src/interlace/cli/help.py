"""Layout of ``--help``: as wide as the terminal, at most 100 columns."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from itertools import groupby

WIDEST = 100


class Help(argparse.HelpFormatter):
    """Fills paragraphs; keeps indented lines (tables, examples) and wraps them only if they are too long."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(WIDEST, shutil.get_terminal_size().columns) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        for is_kept, group in groupby(text.splitlines(), lambda line: line[:1] in ("", " ")):
            if is_kept:
                lines += [part for line in group for part in kept(line, width)]
            else:
                lines += textwrap.wrap(" ".join(group), width)
        return "\n".join(indent + line for line in lines)


def kept(line: str, width: int) -> list[str]:
    """Wrap one line: the last column of a table is continued, a command gets backslashes for the shell."""
    if len(line) <= width:
        return [line]
    if column := re.match(r" +\S.*?  +", line):
        return textwrap.wrap(line, width, subsequent_indent=" " * len(column[0]))
    parts = textwrap.wrap(line, width - 2, subsequent_indent="      ", break_long_words=False, break_on_hyphens=False)
    return [*(f"{part} \\" for part in parts[:-1]), parts[-1]]
