"""The parts of the first page of RESULTS.md: which code made the results, claims, main finding, published figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .answer import share_of_cascade, verdicts
from .literature import published_rows
from .provenance import Origin, differ, origins, other_recipes
from .results import Result
from .statistics import CONFIDENCE
from .summary import Results

#: Share of the saved operations that counts as most of them.
MOST = 0.75


def bold(verdict: str) -> str:
    """A verdict in a table; failures stand out."""
    return f"**{verdict}**" if verdict.startswith("did not") else verdict


def made_by(found: Sequence[Result]) -> str:
    """Which code made the results, and whether their recipes differ."""
    if not found:
        return "There are no results yet.\n"
    counted, odd = origins(found), other_recipes(found)
    listed = ", ".join(f"{n} of {origin.text}" for origin, n in sorted(counted.items()))
    lines = [f"Results: {listed}." if not differ(counted) else f"**These results mix different code**: {listed}."]
    if Origin() in counted:
        lines.append(
            f"**{counted[Origin()]} of {len(found)} results were made by older code, which recorded neither its commit "
            "nor the lists of its searches**: their epochs were chosen by decoded vectors, not by the search, and "
            "MAP@100 is that of the exhaustive scan."
        )
    if odd:
        lines.append(
            f"**{sum(odd.values())} of {len(found)} results have other values of the recipe than most of their kind**: "
            + ", ".join(f"{label} ({n})" for label, n in odd.items())
            + "."
        )
    return "\n".join(lines) + "\n"


def claims_table(found: Mapping[str, Results]) -> str:
    """The table of the paper's claims."""
    judged = verdicts(found)
    lines = [
        "## The claims of the paper",
        "",
        "| claim | in the paper | verdict | effect, 95 % interval | p, corrected | cause |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one in judged:
        effect = "-" if one.effect is None else f"{one.effect.interval(one.places)} {one.statement.unit}"
        p = "-" if one.p != one.p else "<.001" if one.p < 0.001 else f"{one.p:.3f}"
        cells = (one.statement.sentence, one.statement.place, bold(one.verdict), effect, p, one.cause)
        lines.append(f"| {' | '.join(cells)} |")
    n = sum(one.p == one.p for one in judged)
    lines += [
        "",
        "An effect is ours minus theirs, averaged over data sets and books (4, 8, 16 unless the claim says otherwise), "
        "over paired seeds. *held* and *did not hold* are beyond chance after Holm's correction for "
        f"{n} claims: the chance of any false one is at most {1 - CONFIDENCE:.0%}. *no difference*: the data do not "
        "decide.",
    ]
    return "\n".join(lines) + "\n"


def finding(found: Mapping[str, Results]) -> str:
    """The main finding in plain words."""
    few, texts = [], []
    for name, what in (("synthetic-cq", "the synthetic sets"), ("real-sq", "MNIST and CIFAR-10")):
        if name not in found:
            continue
        short = share_of_cascade(found[name], "ICQ", "SQ+CQ", lambda n: 2 < n <= 8)
        long = share_of_cascade(found[name], "ICQ", "SQ+CQ", lambda n: n >= 16)
        if short is not None:
            few.append(short)
            texts.append(f"{short:.0%} on {what}" + ("" if long is None else f" ({long:.0%} with 16 books)"))
    if not few:
        return ""
    if min(few) > MOST:
        told = "Up to 8 books, most of the saved operations come from the two-step search, not from the learned split"
    elif max(few) < 1 - MOST:
        told = "Most of the saved operations come from the learned split, not from the two-step search alone"
    else:
        told = "The two-step search and the learned split both save operations"
    return (
        f"## The main finding\n\n{told}: of the additions that ICQ saves with 4 and 8 books, the books of SQ+CQ, which "
        f"have no split, save in the same search {', '.join(texts)}.\n"
    )


def published_table(found: Mapping[str, Results], full: Mapping[str, Results] | None = None) -> str:
    """What the papers of the baselines report, beside the runs here that follow their protocols."""
    lines = [
        "## Published and measured",
        "",
        "Each baseline in the protocol of its own paper. *reported* are figures from summaries of those papers. The "
        "network of DQN was trained on ImageNet first; here every network starts from random weights. In the "
        "standard size the networks learn from 5,000 images (54K); the papers of PQN, DPQ and SUBIC use all 50,000.",
        "",
        "| method | data | code | reported | measured here | measure |",
        "| --- | --- | --- | --- | --- | --- |",
        *(f"| {' | '.join(row)} |" for row in published_rows(found, full)),
    ]
    return "\n".join(lines) + "\n"


def tuning_table(rows: Sequence[tuple[str, ...]], budget: int) -> str:
    """The fits by which settings were chosen; empty without any."""
    if not rows:
        return ""
    lines = [
        "## Tuning",
        "",
        f"{budget} settings of each line, judged by MAP@100 of training rows that were held out (PROTOCOL.md).",
        "",
        "| data | line | fits | best setting | MAP@100 | of the default |",
        "| --- | --- | --- | --- | --- | --- |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"
