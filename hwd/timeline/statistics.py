"""Statistics of stages over many timelines. Virtual and real time are never mixed."""

import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from hwd.model.instant import Instant, Knowledge, Origin
from hwd.model.stage import Stage, StageName, limits, within_s
from hwd.model.timeline import Timeline
from hwd.timeline.resampling import RESAMPLES, median_interval, numbered

P99_NEEDS = 100
"""With fewer measurements there is no 99th percentile."""
P95_NEEDS = 20
"""With fewer measurements there is no 95th percentile."""


class Sample(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One stage of one link in one reconfiguration. `group` is what a table is split by: the topology, the run, or
    both.

    Links of one reconfiguration are not independent of each other: whole reconfigurations are. `limits`: the instants
    between which it lies; None: its value is exact. `dwell_s`: since the link's last reconfiguration; None where that
    is unknown.
    """

    group: tuple[str, ...]
    stage: Stage
    virtual_time: bool
    reconfiguration: str
    link: str = ""
    limits: tuple[Instant, Instant] | None = None
    dwell_s: float | None = None

    @property
    def within_s(self) -> tuple[float, float] | None:
        """The shortest and the longest possible duration."""
        return None if self.limits is None else within_s(*self.limits)

    @property
    def measurement(self) -> tuple[str, int, int] | None:
        """What the sample was read from; links that wait for one answer of a switch share one, which is one value
        measured once. None: its own, as each link has an end of its own in all other stages.
        """
        if self.limits is None or self.stage.name is not StageName.CONTROL:
            return None
        start, end = self.limits
        return self.reconfiguration, start.at_ns, end.at_ns


class StageStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """One row: a stage of one group in one kind of time. Figures are None where `n` values are too few for them.

    `measured` counts measurements: fewer than `n` where links share some; `reconfigurations` counts their sources.
    `median_low_s` and `median_high_s` bound the median with 95 % (bootstrap over whole reconfigurations; None below six
    of them); `error_s` is the median of the values' own bounds. `origin` is the weakest of all values. `unknown` and
    `never_left` count stages without a value.
    """

    group: tuple[str, ...]
    stage: StageName
    virtual_time: bool
    n: int
    measured: int
    reconfigurations: int
    unknown: int
    never_left: int
    origin: Origin | None
    median_s: float | None
    median_low_s: float | None
    median_high_s: float | None
    mean_s: float | None
    p95_s: float | None
    p99_s: float | None
    max_s: float | None
    error_s: float | None


def samples(timelines: Iterable[Timeline], *, virtual_time: bool, group: Sequence[str] | None = None) -> list[Sample]:
    """All stages of all links that moved. `group` None: the topology's name."""
    found = []
    for timeline in timelines:
        words = (timeline.what,) if group is None else tuple(group)
        for link in timeline.links:
            if link.kept:
                continue
            instants = {instant.name: instant for instant in link.instants}
            for stage in link.stages:
                found.append(
                    Sample(
                        group=words,
                        stage=stage,
                        virtual_time=virtual_time,
                        reconfiguration=timeline.reconfiguration,
                        link=link.link,
                        limits=limits(stage.name, instants),
                        dwell_s=link.dwell_s,
                    )
                )
    return found


def measurements(taken: Iterable[Sample]) -> tuple[int, ...]:
    """The number of the measurement of each sample, from 0 on."""
    return numbered(index if sample.measurement is None else sample.measurement for index, sample in enumerate(taken))


def summarise(taken: Iterable[Sample], *, resamples: int = RESAMPLES) -> tuple[StageStatistics, ...]:
    """One row for each group, stage and kind of time, groups in the order of their first sample, stages in their own.

    A row depends on its own values only: not on the other rows, its own name, or the order of the values.
    """
    cells: dict[tuple[tuple[str, ...], bool, StageName], list[Sample]] = {}
    for sample in taken:
        cells.setdefault((sample.group, sample.virtual_time, sample.stage.name), []).append(sample)
    groups = list(dict.fromkeys(key[:2] for key in cells))
    return tuple(
        _row(group, virtual_time, name, cells[group, virtual_time, name], resamples)
        for group, virtual_time in groups
        for name in StageName
        if (group, virtual_time, name) in cells
    )


def _row(
    group: tuple[str, ...], virtual_time: bool, name: StageName, cell: list[Sample], resamples: int
) -> StageStatistics:
    found = [sample.stage for sample in cell]
    seen = [sample for sample in cell if sample.stage.seconds is not None]
    measured = len(set(measurements(seen)))
    clusters = [sample.reconfiguration for sample in seen]
    seconds = np.array([sample.stage.seconds for sample in seen], dtype=float)
    errors = [stage.error_s for stage in found if stage.error_s is not None]
    n = len(seconds)
    origin: Origin | None = None
    for stage in found:
        if stage.origin is not None:
            origin = stage.origin if origin is None else origin.weakest(stage.origin)
    low_s, high_s = median_interval(seconds, clusters, resamples=resamples) or (None, None)
    return StageStatistics(
        group=group,
        stage=name,
        virtual_time=virtual_time,
        n=n,
        measured=measured,
        reconfigurations=len(set(clusters)),
        unknown=sum(stage.knowledge is Knowledge.UNKNOWN for stage in found),
        never_left=sum(stage.knowledge is Knowledge.NEVER_LEFT for stage in found),
        origin=origin,
        median_s=float(np.median(seconds)) if n else None,
        median_low_s=low_s,
        median_high_s=high_s,
        mean_s=math.fsum(seconds) / n if n else None,
        p95_s=float(np.percentile(seconds, 95)) if measured >= P95_NEEDS else None,
        p99_s=float(np.percentile(seconds, 99)) if measured >= P99_NEEDS else None,
        max_s=float(seconds.max()) if n else None,
        error_s=float(np.median(errors)) if n else None,
    )
