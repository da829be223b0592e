"""Which commits made the results of the page, and what each is used for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .attempts import ATTEMPTS
from .controls import CONTROLS
from .defaults import DEFAULTS
from .provenance import Origin, origins
from .results import Result
from .sizes import FULL
from .summary import Results

#: Folders of fits that no figure has, and what the page uses them for.
USES = {
    CONTROLS.folder: "controls: causes in the table of claims, attempts in *Where ICQ is behind*, appendix",
    ATTEMPTS.folder: "attempts: *Where ICQ is behind*, appendix",
    DEFAULTS.folder: "whether defaults should change: *Where ICQ is behind*, appendix",
}
OF_FULL = f"the {FULL} size: *Published and measured*, the claim about PQN in the appendix"
OF_ABLATION = "the ablation of PQN: appendix"


def other_commits(studies: Mapping[str, Results], full: Mapping[str, Results], ablation: Sequence[Result]) -> str:
    """A list of the commits of results outside of the figures, with their uses; empty without any."""
    counted: list[tuple[str, int, list[Origin]]] = []
    for folder, use in USES.items():
        groups = [results for name, results in studies.items() if name.startswith(f"{folder}/")]
        counted.append((use, sum(map(len, groups)), [origin for one in groups for origin in one.origins()]))
    counted.append((OF_FULL, sum(map(len, full.values())), [o for one in full.values() for o in one.origins()]))
    counted.append((OF_ABLATION, len(ablation), list(origins(ablation))))
    lines = [
        f"- {n} of {' and '.join(sorted({origin.text for origin in found}))}, {use}." for use, n, found in counted if n
    ]
    if not lines:
        return ""
    return (
        "\n".join(["These are the figures, their verdicts and the tuning. Other parts of the page use:", "", *lines])
        + "\n"
    )
