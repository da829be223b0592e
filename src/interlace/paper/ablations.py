"""Checks of claims about settings and parts of the method: what changes when one of them does."""

from __future__ import annotations

from collections.abc import Sequence

from .checks import FAILED, HELD, LISTS, OPEN, PARTLY, SINGLE, Answer, Check
from .summary import OPS, Results

#: Changes of MAP, and relative changes of operations, that count as small.
LITTLE, FEW_OPS = 0.01, 0.05
#: Why a variant may have measured nothing, by the start of its label.
WITHOUT_EFFECT = {
    "sigma": "the code of these results searched with the factor 1 whatever the recipe said",
    "no cap": "the likelihood levels no more axes than the cap allows",
}


def left_out_note(labels: Sequence[str]) -> str:
    """Why lines are not shown; empty if all are."""
    if not labels:
        return ""
    reasons = [next((why for start, why in WITHOUT_EFFECT.items() if one.startswith(start)), "") for one in labels]
    told = "; ".join(f"{label} ({why})" if why else label for label, why in zip(labels, reasons, strict=True))
    return f"Left out, because every measure of every fit equals that of ICQ: {told}. *Controls* has other runs of them"


def moves_little(prefix: str, limit: float = LITTLE, needed: bool = True) -> Check:
    """Change of MAP over the values of one setting; with ``needed`` the claim is that it stays within ``limit``."""

    def check(results: Results) -> Answer:
        labels = [label for label in results.labels() if label.startswith(prefix)]
        found = {
            f"{label} on {data}": gap.value
            for data in results.data
            for label in labels
            for n_books in results.books(data, label)
            if (gap := results.gap(data, n_books, label, "ICQ", LISTS)) is not None
        }
        if not found:
            return Answer(OPEN, "")
        where, worst = max(found.items(), key=lambda item: abs(item[1]))
        texts = ", ".join(f"{gap:+.3f} ({label})" for label, gap in found.items())
        return Answer(
            HELD if (abs(worst) <= limit) == needed else FAILED,
            f"MAP@100 relative to the default: {texts}; largest change {worst:+.3f} ({where})",
        )

    return check


def needed(label: str, reference: str = "ICQ") -> Check:
    """Holds if MAP falls or operations rise without a part of the method, by more than noise and small changes."""

    def check(results: Results) -> Answer:
        texts, worse, tested = [], 0, 0
        for data in results.data:
            for n_books in results.books(data, label):
                gaps = [results.gap(data, n_books, label, reference, measure) for measure in (LISTS, OPS)]
                if gaps[0] is not None and gaps[1] is not None:
                    ops = results.mean(data, reference, n_books, OPS)
                    few = FEW_OPS * ops.value if ops else 0.0
                    tested += gaps[0].n > 1
                    worse += gaps[0].sign(LITTLE) == -1 or gaps[1].sign(few) == 1
                    texts.append(f"{gaps[0].value:+.3f} MAP@100, {gaps[1].value:+.2f} operations on {data}")
        if not texts:
            return Answer(OPEN, "")
        verdict = SINGLE if not tested else HELD if worse == tested else PARTLY if worse else FAILED
        return Answer(verdict, f"without it {'; '.join(texts)}", tested)

    return check


def margin_suffices(results: Results, target: float = 0.99) -> Answer:
    """Agreement of the paper's margin with the exhaustive scan: with the paper's sigma, and with that of the codes."""
    texts, default = [], []
    for data in results.data:
        for label in results.labels(data):
            if label == "ICQ" or label.startswith("sigma = "):
                for n_books in results.books(data, label):
                    if n_books <= 2:
                        continue
                    found = results.mean(data, label, n_books, "paper agreement")
                    other = results.mean(data, label, n_books, "codes sigma agreement")
                    if found is not None:
                        beside = "" if other is None else f", of codes {other.value:.3f}"
                        where = f"{'sigma = 1' if label == 'ICQ' else label}, {data}, {n_books} books"
                        texts.append(f"{found.value:.3f}{beside} ({where})")
                        default += [found.value] if label == "ICQ" else []
    if not default:
        return Answer(OPEN, "")
    good = [value >= target for value in default]
    verdict = HELD if all(good) else PARTLY if any(good) else FAILED
    return Answer(verdict, f"agreement with the exhaustive scan {', '.join(texts)}")
