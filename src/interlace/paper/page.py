"""The parts of the first page of RESULTS.md: which code made the results, claims, main finding, published figures."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from .answer import MIXED, verdicts
from .attempts import ATTEMPTS, BOOKS, PROTOCOLS, UNSEEN
from .causes import AS_TUNED, leads, share_of_cascade
from .controls import BOTH, CONTROLS, GAP, GROUPS, HELD_OUT, MARGIN, RATE, SCALE, SETTINGS, key, runs
from .defaults import DEFAULTS, RATES
from .literature import published_rows
from .names import title
from .provenance import Origin, differ, origins, other_recipes
from .results import Result
from .statistics import CONFIDENCE
from .summary import Results

#: Share of the saved operations that counts as most of them.
MOST = 0.75


def bold(verdict: str) -> str:
    """A verdict in a table; failures stand out."""
    return f"**{verdict}**" if verdict.startswith(("did not", MIXED)) else verdict


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


#: Groups that compare three quarters of the books on psi with the default, and that line.
SHARES = (
    *((CONTROLS, group) for group in (GAP, HELD_OUT)),
    *((ATTEMPTS, group) for group in (GAP, HELD_OUT, UNSEEN)),
    (DEFAULTS, GAP),
)
SHARE = "3/4 of the books on psi"


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
        if one.disagree:
            parts = (f"{title(data)} {part.interval(one.places)}" for data, part in one.parts.items())
            effect += f"; {', '.join(parts)}"
        p = "-" if one.p != one.p else "<.001" if one.p < 0.001 else f"{one.p:.3f}"
        cells = (one.statement.sentence, one.statement.place, bold(one.verdict), effect, p, one.cause)
        lines.append(f"| {' | '.join(cells)} |")
    n = sum(one.p == one.p for one in judged)
    lines += [
        "",
        "An effect is ours minus theirs, averaged over data sets and books (4, 8, 16 unless the claim says otherwise), "
        "over paired seeds. *held* and *did not hold* are beyond chance after Holm's correction for "
        f"{n} claims: the chance of any false one is at most {1 - CONFIDENCE:.0%}. *no difference*: the data do not "
        "decide. *mixed*: the interval of a data set, which is not corrected, has the other sign than the "
        "average. Where the intervals of data sets have different signs, each is listed.",
    ]
    return "\n".join(lines) + "\n"


def finding(found: Mapping[str, Results]) -> str:
    """The main finding in plain words, and how many claims of the paper have which verdict."""
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
        f"## The main finding\n\n{told}. We also searched the books of SQ+CQ, which have no split, in the same two "
        f"steps. Of the additions that ICQ saves with 4 and 8 books, they save {', '.join(texts)}. {_counts(found)}\n"
    )


def _counts(found: Mapping[str, Results]) -> str:
    """How many claims of the paper have which verdict."""
    counted = Counter(one.verdict for one in verdicts(found) if not one.statement.sentence.startswith("(ours)"))
    listed = ", ".join(f"{n} *{verdict}*" for verdict, n in counted.most_common())
    return f"Verdicts on the {counted.total()} claims of the paper: {listed}."


def published_table(found: Mapping[str, Results], full: Mapping[str, Results] | None = None) -> str:
    """What the papers of the baselines report, beside the runs here that follow their protocols."""
    lines = [
        "## Published and measured",
        "",
        "Each baseline in the protocol of its own paper. *reported* are figures from summaries of those papers. The "
        "network of DQN was trained on ImageNet first; here every network starts from random weights. In the "
        "standard size the networks learn from 5,000 images (54K); the papers of PQN, DPQ and SUBIC use all 50,000. "
        "Results of the full size (all images) are shown where there are some; no other part of this page uses them, "
        "except the claim about PQN in the appendix. The appendix has what PQN lacks, and both usual databases.",
        "",
        "| method | data | code | reported | measured here | measure | size | seeds | commit |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
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


def controls_summary(found: Mapping[str, Results]) -> str:
    """What the controls say, in a few sentences; empty without any."""
    groups = {group: found[key(group)] for group in GROUPS if key(group) in found}
    if not groups:
        return ""
    origins = sorted({origin.text for results in groups.values() for origin in results.origins()})
    texts = [
        *_of_settings(found),
        *(_of_margins(groups[MARGIN]) if MARGIN in groups else ()),
    ]
    lines = [
        "## Controls and attempts",
        "",
        f"Controls are of {' and '.join(origins)}; the list at the top of this page has the other commits.",
        "",
        "These fits (`experiments/controls.py`) answer questions that the figures left open. They have a folder and a "
        f"commit of their own, and no figure uses them. {sum(map(len, groups.values()))} of the {len(runs())} planned "
        "fits were made; tables of all of them follow below, and *Where ICQ is behind* has the attempts among them.",
        "",
        *(f"- {text}" for text in texts),
    ]
    return "\n".join(lines) + "\n"


def _of_settings(found: Mapping[str, Results]) -> list[str]:
    """Whether settings explain the lead of ICQ over SQ+CQ, by number of books."""
    if (results := found.get(key(SETTINGS))) is None:
        return []
    told = {k: leads(found, partial(operator.eq, k)) for k in results.books()}
    names = list(dict.fromkeys(name for lead in told.values() for name in lead))
    rows = [
        (str(k), *(lead[name].interval() if name in lead else "-" for name in names))
        for k, lead in told.items()
        if lead
    ]
    head = ("K", *map(_setting, names))
    lines = [
        f"*Is the lead of ICQ over SQ+CQ tuning?* The figures give ICQ {RATE} and SQ+CQ {SCALE}, each the best of four "
        "settings on MNIST. ICQ minus SQ+CQ on GIST features, MAP@100; with two books both are the same method, so a "
        "lead there is one of settings alone:",
        "",
        *(f"  | {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)),
        "",
    ]
    return ["\n".join(lines)]


def _setting(name: str) -> str:
    return name if name == AS_TUNED else f"with {'both changes' if name == BOTH else name} for both"


def _of_margins(results: Results) -> list[str]:
    """Agreement of the paper's margin by factor, and the effect of the cap."""
    lines = {"0.25": "sigma = 0.25", "1": "ICQ", "4": "sigma = 4"}
    agreed, caps = [], []
    for data in results.data:
        (k,) = results.books(data)
        known = {f: point for f, label in lines.items() if (point := results.mean(data, label, k, "paper agreement"))}
        ops = {f: point for f, label in lines.items() if (point := results.mean(data, label, k, "paper ops"))}
        agreed.append(
            f"{title(data)}: "
            + ", ".join(f"{point.value:.3f} ({ops[f].value:.2f} ops) with {f}" for f, point in known.items())
        )
        for label in ("no cap", "no cap, axes not levelled"):
            if (gap := results.gap(data, k, label, "ICQ", "map@100")) is not None:
                same = label in results.only(data).with_effect("ICQ").left_out
                caps.append(f"{label} {'the same fits' if same else gap.interval()} on {title(data)}")
    texts = [
        "*The factor of sigma* in the paper's margin, 8 books, agreement with the exhaustive scan: "
        f"{'; '.join(agreed)}. The figure `ablation` ran these lines with factor 1, so it does not show them."
    ]
    if caps:
        texts.append(
            f"*No cap at classes - 1*, MAP@100 minus the default: {', '.join(caps)}. Where fits are the same, the "
            "likelihood levels no more axes than the cap allows; without levelled axes there is nothing to cap."
        )
    return texts


def protocols_table(found: Mapping[str, Results]) -> str:
    """End-to-end fits on 5,000 images in both databases of the usual protocols; empty without any."""
    if (results := found.get(ATTEMPTS.key(PROTOCOLS))) is None:
        return ""
    names = {"MAP": ("map", 3), "MAP@100": ("map@100", 3), "psi": ("psi", 1)}
    head = ("method", *(f"{name}, {title(data)}" for data in results.data for name in names), "seeds")
    rows = []
    for label in results.labels():
        cells = []
        for data in results.data:
            means = ((results.mean(data, label, BOOKS, measure), n) for measure, n in names.values())
            cells += ["-" if mean is None else mean.text(n) for mean, n in means]
        rows.append((label, *cells, str(len(results.of(results.data[0], label, BOOKS)))))
    (origin,) = {origin.text for origin in results.origins()}
    planned = sum(run.figure == PROTOCOLS for run in ATTEMPTS.runs())
    lines = [
        "*CIFAR-10 with 1K queries and 5K training images*, 48 bits, end to end on the 3-layer network, each fit "
        f"searched in both databases ({origin}; the seed also draws queries and training images). The database of 59K "
        "has the training images too. No other part of this page uses these fits, except the attempts. *psi* is 0 for "
        "methods without a split. "
        f"{len(results)} of {planned} planned results were made.",
        "",
        *(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)),
    ]
    return "\n".join(lines) + "\n"


def attempts_summary(found: Mapping[str, Results]) -> str:
    """What the fits outside of the figures say about the share of books on psi; empty without any."""
    rows = []
    for study, group in SHARES:
        if (results := found.get(study.key(group))) is None:
            continue
        for data in results.data:
            for k in results.books(data):
                if row := _change(results, data, k, f"ICQ, {SHARE}"):
                    rows.append((k, title(data), (title(data), str(k), *row)))
    if not rows:
        return ""
    return _table(
        "*Three quarters of the books on psi*, minus the default of the figures (a quarter), on draws and rows that no "
        "figure uses:",
        ("data", "K", *CHANGE),
        [row for *_, row in sorted(rows)],
    )


#: Columns about a change of a setting.
CHANGE = ("MAP@100", "ops", "psi", "seeds", "commit")


def _change(results: Results, data: str, k: int, label: str, default: str = "ICQ") -> tuple[str, ...]:
    """Cells about a line and the default: gap, operations and psi of both, seeds, commits; empty without both."""
    gap = results.gap(data, k, label, default, "map@100")
    ops, psi = ([results.mean(data, one, k, measure) for one in (default, label)] for measure in ("ops", "psi"))
    if gap is None or not all(ops) or not all(psi):
        return ()
    numbers = ([f"{mean.value:.{n}f}" for mean in means if mean] for means, n in ((ops, 2), (psi, 1)))
    cells = (" to ".join(dict.fromkeys(both)) for both in numbers)  # one number if both are equal
    return gap.interval(), *cells, str(gap.n), ", ".join(results.commits(data, label, k))


def defaults_summary(found: Mapping[str, Results]) -> str:
    """What fits on draws and rows that no figure uses say about other defaults; empty without any."""
    rows = []
    for group in (RATES, HELD_OUT):
        if (results := found.get(DEFAULTS.key(group))) is None:
            continue
        for label in (label for label in results.labels() if label != "ICQ"):
            for data in results.data:
                for k in results.books(data, label):
                    if row := _change(results, data, k, label):
                        rows.append((label.removeprefix("ICQ, "), title(data), str(k), *row))
    if not rows:
        return ""
    return _table(
        "*Should a default change?* A setting minus the default, on draws and rows that no figure uses (PROTOCOL.md, "
        "*Defaults*):",
        ("setting", "data", "K", *CHANGE),
        sorted(rows),
    )


def _table(text: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [text, "", *(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))]
    return "\n".join(lines) + "\n"


def controls_tables(found: Mapping[str, Results]) -> str:
    """All controls and attempts, for the appendix; empty without any."""
    parts = [
        f"**{text}**\n\n{study.table(found[study.key(group)], group)}"
        for study in (CONTROLS, ATTEMPTS, DEFAULTS)
        for group, text in study.titles.items()
        if study.key(group) in found
    ]
    return "### Tables of all controls and attempts\n\n" + "\n\n".join(parts) + "\n" if parts else ""
