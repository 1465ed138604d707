"""Dwells between which durations differ: many NICs are slower when a link was last reconfigured a short time ago.

Where short and long dwells give two humps, a median of both is the time of neither.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from hwd.model.stage import StageName
from hwd.timeline.difference import cliffs_delta
from hwd.timeline.resampling import Floats
from hwd.timeline.statistics import Sample

APART = 0.9
"""Cliff's delta from which two sets of durations are two humps: 95 % of all pairs have the same order."""
FURTHER = 1.1
"""The least ratio of their medians: humps that lie closer mislead nobody."""
GAP = math.log(1.2)
"""The logarithm of the least ratio of two dwells that are neighbours and not alike."""
_STAGES = (StageName.TURNAROUND, StageName.ACTIVATION, StageName.FIRMWARE)
"""The stages that a dwell can change; the first one that was seen decides."""

Moved = tuple[str, str]
"""A link that moved in a reconfiguration: the id of that, and the link."""


def by_dwell(taken: Sequence[Sample]) -> Mapping[Moved, int]:
    """The class of dwell of each link that moved, the shortest dwells first, from 0; all 0 where durations are alike.

    Unknown dwells are the last class where their durations differ from those of another, or there are several.
    """
    dwells_s: dict[Moved, float | None] = {(one.reconfiguration, one.link): one.dwell_s for one in taken}
    seconds = _durations(taken)
    points = np.array(
        sorted((dwell_s, seconds[moved]) for moved in seconds if (dwell_s := dwells_s[moved]) is not None), dtype=float
    )
    if not len(points):
        return dict.fromkeys(dwells_s, 0)
    parts = [*_parts(points)]
    lows_s = [float(part[0, 0]) for part in parts[1:]]
    unknown = np.array([seconds[moved] for moved in seconds if dwells_s[moved] is None], dtype=float)
    alike = len(parts) == 1 and not (len(unknown) and two_humps(unknown, points[:, 1]))
    return {
        moved: bisect_right(lows_s, dwell_s) if dwell_s is not None else 0 if alike else len(parts)
        for moved, dwell_s in dwells_s.items()
    }


def two_humps(first: Floats, second: Floats) -> bool:
    """Whether a median of both together would be the duration of neither."""
    low_s, high_s = sorted((float(np.median(first)), float(np.median(second))))
    return high_s >= FURTHER * low_s and abs(cliffs_delta(first, second)) >= APART


def _durations(taken: Iterable[Sample]) -> dict[Moved, float]:
    """Of the first stage that was seen of any link."""
    found: dict[StageName, dict[Moved, float]] = {stage: {} for stage in _STAGES}
    for one in taken:
        if one.stage.name in found and one.stage.seconds is not None:
            found[one.stage.name][one.reconfiguration, one.link] = one.stage.seconds
    return next((of_stage for of_stage in found.values() if of_stage), {})


def _parts(points: Floats) -> Iterator[Floats]:
    """Rows of dwell and duration, ascending, cut wherever both differ: at the clearest place first."""
    logarithms = [math.log(dwell_s) if dwell_s > 0 else -math.inf for dwell_s in points[:, 0]]
    gaps = [
        (after - before, index)
        for index, (before, after) in enumerate(pairwise(logarithms), start=1)
        if after > before and after - before >= GAP
    ]
    found = [
        (abs(cliffs_delta(points[:at, 1], points[at:, 1])), gap, at)
        for gap, at in gaps
        if two_humps(points[:at, 1], points[at:, 1])
    ]
    if not found:
        yield points
        return
    _, _, at = max(found)
    yield from _parts(points[:at])
    yield from _parts(points[at:])
