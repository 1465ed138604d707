"""Names under which expressions of a playbook find what was measured: `last.turnaround.max_s`, `run.ready`.

`last` is the last apply of the same branch, `run` are all of the run so far. Stages have the figures of `FIGURES`; links that were kept do not count. `control` has
one value for each switch that was commanded, lit ports or not; the others have one for each link.
"""

from collections.abc import Mapping

from hwd.config.playbook.expression import Value
from hwd.timeline.stage import StageName

FIGURES = ("n", "min_s", "median_s", "mean_s", "p95_s", "p99_s", "max_s")
"""`p95_s` needs 20 values and `p99_s` 100; with fewer they are unknown, as all but `n` are without any."""
SCOPES = ("last", "run")

MEASURED: Mapping[str, Value] = {
    **{f"{scope}.{stage}.{figure}": 1 for scope in SCOPES for stage in StageName for figure in FIGURES},
    "last.links": 1,  # links that were asked for, those that were kept among them
    "last.ready": 1,  # of these, measured ready
    "last.moves": 1,  # crossconnects that were made or removed
    "last.breaches": 1,  # orders of instants that were broken
    "last.outcome": "confirmed",
    "last.what": "ring",
    "run.applies": 1,
    "run.links": 1,
    "run.ready": 1,
    "run.moves": 1,
    "run.breaches": 1,
    "run.seconds": 1.0,  # since the run began
}
"""Every name, with a value of its kind."""


def stages_of(names: tuple[str, ...], scope: str) -> frozenset[StageName]:
    """Stages that some names are about, of one scope."""
    parts = (name.split(".") for name in names)
    return frozenset(StageName(part[1]) for part in parts if len(part) == 3 and part[0] == scope)
