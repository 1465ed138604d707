"""The measures of a run, under the names that expressions use. See `hwd.config.playbook.measurement_names`."""

from array import array
from collections.abc import Iterable

import numpy as np

from hwd.config.playbook.expression import Value
from hwd.config.playbook.measurement_names import FIGURES, MEASUREMENTS
from hwd.model.instant import Knowledge
from hwd.model.stage import StageName
from hwd.reconfigure.apply.reconfiguration import Reconfiguration
from hwd.timeline.statistics import P95_NEEDS, P99_NEEDS

_NS_IN_S = 1e9


class Tally:
    """Counts and stage times of reconfigurations that have ended.

    Only the stages in `stages` are stored: a run may have millions of values.
    """

    def __init__(self, stages: Iterable[StageName] = StageName) -> None:
        self.applies = 0
        self.links = 0
        self.ready = 0
        self.moves = 0
        self.breaches = 0
        self.what = ""
        self.outcome = ""
        self._seconds = {stage: array("d") for stage in stages}

    def add(self, ended: Reconfiguration) -> None:
        self.applies += 1
        self.links += len(ended.links)
        self.ready += len(ended.links) - len(ended.not_ready)
        self.moves += sum(len(move.remove) + len(move.add) for move in ended.plan.moves)
        self.breaches += len(ended.timeline.breaches) if ended.timeline else 0
        self.what, self.outcome = ended.plan.what, str(ended.outcome or "")
        for stage, seconds in self._seconds.items():
            seconds.extend(_seconds(ended, stage))

    def figure(self, stage: StageName, figure: str) -> float | None:
        """A figure of a stage; None where the values do not carry it."""
        values = np.frombuffer(self._seconds[stage]) if self._seconds[stage] else np.array([])
        needs = {"n": 0, "p95_s": P95_NEEDS, "p99_s": P99_NEEDS}.get(figure, 1)
        if len(values) < needs:
            return None
        match figure:
            case "n":
                return len(values)
            case "min_s":
                return float(values.min())
            case "mean_s":
                return float(values.mean())
            case "max_s":
                return float(values.max())
            case "median_s":
                return float(np.median(values))
            case _:
                return float(np.percentile(values, {"p95_s": 95, "p99_s": 99}[figure]))


def figures(names: Iterable[str], *, last: Tally | None, run: Tally, seconds: float) -> dict[str, Value | None]:
    """The figures among `names` that are measured, with their values; `last` is None before the first apply."""
    found: dict[str, Value | None] = {}
    for name in names:
        if name in MEASUREMENTS:
            scope, _, what = name.partition(".")
            tally = last if scope == "last" else run
            found[name] = seconds if name == "run.seconds" else None if tally is None else _value(tally, what)
    return found


def _value(tally: Tally, what: str) -> Value | None:
    stage, dot, figure = what.partition(".")
    if dot:
        assert figure in FIGURES
        return tally.figure(StageName(stage), figure)
    value: str | int = getattr(tally, what)
    return value


def _seconds(ended: Reconfiguration, stage: StageName) -> Iterable[float]:
    if ended.timeline is None:
        return
    if stage is StageName.CONTROL:
        for command in ended.timeline.commands:
            if command.commanded.knowledge is command.acknowledged.knowledge is Knowledge.SEEN:
                yield (command.acknowledged.at_ns - command.commanded.at_ns) / _NS_IN_S
        return
    for link in ended.timeline.links:
        seconds = None if link.kept else link.stage(stage).seconds
        if seconds is not None:
            yield seconds
