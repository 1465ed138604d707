"""Names of measurements in expressions of a playbook: `last.turnaround.max_s`, `run.ready`.

`last` is the last apply of the same branch, `run` covers the run so far. Stages have the figures of `FIGURES`; kept
links do not count. `control` has one value for each switch that was commanded, whether its ports are lit or not; the
other stages have one for each link.
"""

from collections.abc import Mapping

from hwd.config.playbook.expression import Value
from hwd.model.stage import StageName

FIGURES = ("n", "min_s", "median_s", "mean_s", "p95_s", "p99_s", "max_s")
"""`p95_s` needs 20 values and `p99_s` 100; with fewer they are unknown. Without a value all but `n` are unknown."""
SCOPES = ("last", "run")

MEASUREMENTS: Mapping[str, Value] = {
    **{f"{scope}.{stage}.{figure}": 1 for scope in SCOPES for stage in StageName for figure in FIGURES},
    "last.links": 1,  # links that were asked for, kept ones included
    "last.ready": 1,  # of these, measured ready
    "last.moves": 1,  # crossconnects that were made or removed
    "last.breaches": 1,  # breaches of the order of instants
    "last.outcome": "confirmed",
    "last.what": "ring",
    "run.applies": 1,
    "run.links": 1,
    "run.ready": 1,
    "run.moves": 1,
    "run.breaches": 1,
    "run.seconds": 1.0,  # since the run began
}
"""Every name, with a value of its type."""


def stages_of(names: tuple[str, ...], scope: str) -> frozenset[StageName]:
    """The stages of one scope that some names refer to."""
    parts = (name.split(".") for name in names)
    return frozenset(StageName(part[1]) for part in parts if len(part) == 3 and part[0] == scope)
