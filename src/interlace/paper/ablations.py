"""Checks of claims about settings and parts of the method: what changes when one of them does."""

from __future__ import annotations

from .checks import FAILED, HELD, OPEN, PARTLY, Answer, Check
from .summary import Results

#: Changes of MAP, and relative changes of operations, that count as small.
LITTLE, FEW_OPS = 0.01, 0.05


def moves_little(prefix: str, limit: float = LITTLE, needed: bool = True) -> Check:
    """Change of MAP over the values of one setting; with ``needed`` the claim is that it stays within ``limit``."""

    def check(results: Results) -> Answer:
        labels = [label for label in results.labels() if label.startswith(prefix)]
        found = {
            f"{label} on {data}": gap.value
            for data in results.data
            for label in labels
            for n_books in results.books(data, label)
            if (gap := results.gap(data, n_books, label, "ICQ", "map")) is not None
        }
        if not found:
            return Answer(OPEN, "")
        where, worst = max(found.items(), key=lambda item: abs(item[1]))
        texts = ", ".join(f"{gap:+.3f} ({label})" for label, gap in found.items())
        return Answer(
            HELD if (abs(worst) <= limit) == needed else FAILED,
            f"MAP relative to the default: {texts}; largest change {worst:+.3f} ({where})",
        )

    return check


def needed(label: str, reference: str = "ICQ") -> Check:
    """Holds if MAP falls or operations rise without a part of the method, by more than noise and small changes."""

    def check(results: Results) -> Answer:
        texts, worse, n = [], 0, 0
        for data in results.data:
            for n_books in results.books(data, label):
                gaps = [results.gap(data, n_books, label, reference, measure) for measure in ("map", "two-step")]
                if gaps[0] is not None and gaps[1] is not None:
                    n += 1
                    ops = results.mean(data, reference, n_books, "two-step")
                    few = FEW_OPS * ops.value if ops else 0.0
                    worse += -gaps[0].value > max(gaps[0].noise, LITTLE) or gaps[1].value > max(gaps[1].noise, few)
                    texts.append(f"{gaps[0].value:+.3f} MAP, {gaps[1].value:+.2f} operations on {data}")
        if not texts:
            return Answer(OPEN, "")
        return Answer(HELD if worse == n else PARTLY if worse else FAILED, f"without it {'; '.join(texts)}")

    return check


def margin_suffices(results: Results, target: float = 0.99) -> Answer:
    """Agreement of the paper's margin with the exhaustive scan, for each constant of sigma."""
    texts, default = [], []
    for data in results.data:
        for label in results.labels(data):
            if label == "ICQ" or label.startswith("sigma = "):
                for n_books in results.books(data, label):
                    found = results.mean(data, label, n_books, "agreement of paper")
                    if found is not None:
                        texts.append(f"{found.value:.3f} ({'sigma = 1' if label == 'ICQ' else label}, {data})")
                        default += [found.value] if label == "ICQ" else []
    if not default:
        return Answer(OPEN, "")
    good = [value >= target for value in default]
    verdict = HELD if all(good) else PARTLY if any(good) else FAILED
    return Answer(verdict, f"agreement with the exhaustive scan {', '.join(texts)}")
