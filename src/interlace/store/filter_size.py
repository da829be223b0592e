"""Limits on filter strings, checked before Python's parser, which could overflow the stack or fill the memory."""

from __future__ import annotations

import re

#: Deepest nesting of brackets and ``not``: Python's parser and Arrow process nested expressions recursively.
DEEPEST = 50
LONGEST = 16 << 20  # characters
MOST_WORDS = 500_000  # names, numbers and strings; each is a node of the syntax tree
MOST_TERMS = 10_000  # comparisons

_TOKENS = re.compile(
    r"""(?P<formatted>\b(?:[fFtT][rR]?|[rR][fFtT])['"])
    |(?P<string>'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''|'[^'\\\n]*(?:\\.[^'\\\n]*)*')
    |(?P<quoted>\"{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"{3}|"[^"\\\n]*(?:\\.[^"\\\n]*)*")
    |(?P<comment>\#[^\n]*)
    |(?P<opened>[(\[{])
    |(?P<closed>[)\]}])
    |(?P<ended>\b(?:and|or)\b|[,<>=])
    |(?P<nested>\*\*|:|\b(?:lambda|if|else|for|await|yield)\b)
    |(?P<before>\bnot\b|[-+~])
    |(?P<word>[\w.]+)""",
    re.VERBOSE | re.DOTALL,
)


def measure(text: str) -> tuple[int, int, bool]:
    """Number of names and values, deepest nesting, and whether there is an f-string, found without a parser.

    Each bracket is a level, and so is each ``not`` or sign until the next comparison, ``and``, ``or`` or comma. Python
    syntax that nests but is not part of the language counts as a level that never ends.
    """
    words = deepest = depth = 0
    levels = [0]  # for each open bracket: ``not`` and signs before the next value
    for token in _TOKENS.finditer(text):
        kind = token.lastgroup
        if kind in ("word", "string", "quoted"):
            words += 1
        elif kind == "opened":
            levels.append(0)
            depth += 1
        elif kind == "closed" and len(levels) > 1:
            depth -= 1 + levels.pop()
        elif kind == "ended":
            depth -= levels[-1]
            levels[-1] = 0
        elif kind == "before":
            levels[-1] += 1
            depth += 1
        elif kind == "nested":
            depth += 1
        elif kind == "formatted":  # the brackets inside it cannot be counted
            return words, deepest, True
        deepest = max(deepest, depth)
        if words > MOST_WORDS or deepest > DEEPEST:
            break
    return words, deepest, False
