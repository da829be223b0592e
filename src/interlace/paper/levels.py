"""Checks of levels: errors of vectors, a precision that a method must reach, the float vectors."""

from __future__ import annotations

from collections.abc import Sequence

from .checks import FAILED, HELD, LISTS, OPEN, PARTLY, WHOLE, Answer, Check, Counted
from .summary import Results


def reaches(label: str, data: str, least: float) -> Check:
    """Holds if the best mean MAP of the whole ranking over numbers of books is at least this."""

    def check(results: Results) -> Answer:
        found = {k: mean for k in results.books(data, label) if (mean := results.mean(data, label, k, WHOLE))}
        if not found:
            return Answer(OPEN, "")
        texts = ", ".join(f"{mean.text()} ({k} books)" for k, mean in found.items())
        best = max(mean.value for mean in found.values())
        return Answer(HELD if best >= least else FAILED, f"MAP {texts}")

    return check


def beyond_float(ours: str, theirs: str) -> Check:
    """Holds if MAP@100 of our codes is above that of the vectors that the other method encodes, without codes."""

    def check(results: Results) -> Answer:
        gaps = {
            f"{data}, {k} books": gap
            for data in results.data
            for k in results.books(data, ours)
            if (gap := results.gap(data, k, ours, theirs, LISTS, "float@100")) is not None
        }
        if not gaps:
            return Answer(OPEN, "")
        counted = Counted.of(list(gaps.values()))
        texts = ", ".join(f"{gap.interval()} ({where})" for where, gap in gaps.items())
        return Answer(counted.better, f"MAP@100 minus that of the float vectors: {texts}", counted.tested)

    return check


def lower_error(dense: Sequence[str], product: Sequence[str]) -> Check:
    """Holds if the worst dense books have a lower error on held-out rows than the best product books of equal bytes."""

    def check(results: Results) -> Answer:
        texts, held = [], []
        for n_books in results.books("vectors"):
            errors = [
                {label: found.value for label in labels if (found := results.mean("vectors", label, n_books, "error"))}
                for labels in (dense, product)
            ]
            if all(errors):
                worst = max(errors[0], key=lambda label: errors[0][label])
                best = min(errors[1], key=lambda label: errors[1][label])
                held.append(errors[0][worst] < errors[1][best])
                texts.append(f"{n_books} books: {worst} {errors[0][worst]:.3f}, {best} {errors[1][best]:.3f}")
        if not texts:
            return Answer(OPEN, "")
        verdict = HELD if all(held) else PARTLY if any(held) else FAILED
        return Answer(
            verdict,
            f"worst of the former and best of the latter, error as a share of the variance: {'; '.join(texts)}",
        )

    return check
