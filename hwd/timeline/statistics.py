"""Statistics of stages over many timelines. Virtual and real time are never put together."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwd.model.instant import Knowledge, Origin
from hwd.timeline.stage import Stage, StageName
from hwd.timeline.timeline import Timeline

P99_NEEDS = 100
"""Fewer values than this have no 99th percentile."""
P95_NEEDS = 20
"""Fewer values than this have no 95th percentile."""
_RESAMPLED_AT_ONCE = 1 << 20
"""Values drawn in one step of the bootstrap: bounds its memory to some 10 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One stage of one link in one reconfiguration. `group` is what a table is split by: the topology, the run, or both."""

    group: tuple[str, ...]
    stage: Stage
    virtual_time: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStatistics:
    """One row: a stage of one group in one kind of time. Figures are None where `n` values do not carry them.

    `median_low_s` and `median_high_s` bound the median with 95 % (bootstrap over the values); `error_s` is the median of the values' own
    bounds. `origin` is the weakest of all values. `unknown` and `never_left` count what has no value.
    """

    group: tuple[str, ...]
    stage: StageName
    virtual_time: bool
    n: int
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
    """All stages of all links that were not kept. `group` None: by what was asked for, the topology's name."""
    return [
        Sample(group=(timeline.what,) if group is None else tuple(group), stage=stage, virtual_time=virtual_time)
        for timeline in timelines
        for link in timeline.links
        if not link.kept
        for stage in link.stages
    ]


def summarise(taken: Iterable[Sample], *, seed: int, resamples: int = 2000) -> tuple[StageStatistics, ...]:
    """One row for each group, stage and kind of time, groups in the order of their first sample, stages in their own.

    A row depends on its own values and `seed` only, never on what other rows there are.
    """
    cells: dict[tuple[tuple[str, ...], bool, StageName], list[Stage]] = {}
    for sample in taken:
        cells.setdefault((sample.group, sample.virtual_time, sample.stage.name), []).append(sample.stage)
    groups = list(dict.fromkeys(key[:2] for key in cells))
    return tuple(
        _row(group, virtual_time, name, cells[group, virtual_time, name], seed, resamples)
        for group, virtual_time in groups
        for name in StageName
        if (group, virtual_time, name) in cells
    )


def _row(
    group: tuple[str, ...], virtual_time: bool, name: StageName, found: list[Stage], seed: int, resamples: int
) -> StageStatistics:
    seconds = np.array([stage.seconds for stage in found if stage.seconds is not None], dtype=float)
    errors = [stage.error_s for stage in found if stage.error_s is not None]
    n = len(seconds)
    origin: Origin | None = None
    for stage in found:
        if stage.origin is not None:
            origin = stage.origin if origin is None else origin.weakest(stage.origin)
    key = zlib.crc32("\n".join([*group, name, str(virtual_time)]).encode())
    low_s, high_s = _median_interval(seconds, np.random.default_rng([seed, key]), resamples) if n else (None, None)
    return StageStatistics(
        group=group,
        stage=name,
        virtual_time=virtual_time,
        n=n,
        unknown=sum(stage.knowledge is Knowledge.UNKNOWN for stage in found),
        never_left=sum(stage.knowledge is Knowledge.NEVER_LEFT for stage in found),
        origin=origin,
        median_s=float(np.median(seconds)) if n else None,
        median_low_s=low_s,
        median_high_s=high_s,
        mean_s=float(seconds.mean()) if n else None,
        p95_s=float(np.percentile(seconds, 95)) if n >= P95_NEEDS else None,
        p99_s=float(np.percentile(seconds, 99)) if n >= P99_NEEDS else None,
        max_s=float(seconds.max()) if n else None,
        error_s=float(np.median(errors)) if n else None,
    )


def _median_interval(
    seconds: NDArray[np.float64], generator: np.random.Generator, resamples: int
) -> tuple[float, float]:
    """Percentile bootstrap, 95 %."""
    at_once = max(1, _RESAMPLED_AT_ONCE // len(seconds))
    medians = np.empty(resamples)
    for start in range(0, resamples, at_once):
        stop = min(start + at_once, resamples)
        drawn = generator.integers(0, len(seconds), size=(stop - start, len(seconds)))
        medians[start:stop] = np.median(seconds[drawn], axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return float(low), float(high)
