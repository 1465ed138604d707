"""Dwells between which durations differ: many NICs are slower when a link was last reconfigured a short time ago.

Where short and long dwells give two humps, a median of both is the time of neither.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from hwd.model.stage import StageName
from hwd.timeline.resampling import Floats
from hwd.timeline.statistics import Sample

FURTHER = 1.1
"""The least ratio of the medians of two humps: those that lie closer mislead nobody."""
EACH = 2
"""The fewest durations of a hump."""
UNLIKE = 1.2
"""The least ratio of two dwells that are neighbours and not alike."""
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
    alike = len(parts) == 1 and not (len(unknown) and two_humps(unknown, points[:, 1]) > 0)
    return {
        moved: bisect_right(lows_s, dwell_s) if dwell_s is not None else 0 if alike else len(parts)
        for moved, dwell_s in dwells_s.items()
    }


def two_humps(first: Floats, second: Floats) -> float:
    """How clear two humps of durations are: the valley between them against the wider of them; 0 where there are none.

    A hump reaches from its 5th to its 95th percentile. From 1 on a median of both together is the duration of neither.
    Noise seldom looks so: the valley has to be wider than all that lies on either side of it.
    """
    if min(len(first), len(second)) < EACH:
        return 0.0
    low, high = sorted((first, second), key=np.median)
    (low_start, low_end), (high_start, high_end) = (np.percentile(side, [5, 95]) for side in (low, high))
    valley_s, width_s = high_start - low_end, max(low_end - low_start, high_end - high_start)
    if valley_s <= 0 or valley_s < width_s or np.median(high) < FURTHER * np.median(low):
        return 0.0
    return float(valley_s / width_s) if width_s > 0 else math.inf


def _durations(taken: Iterable[Sample]) -> dict[Moved, float]:
    """The durations of the first stage that was seen of any link."""
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
        if after > before and after - before >= math.log(UNLIKE)
    ]
    clear = [(two_humps(points[:at, 1], points[at:, 1]), gap, at) for gap, at in gaps]
    found = [one for one in clear if one[0] > 0]
    if not found:
        yield points
        return
    _, _, at = max(found)
    yield from _parts(points[:at])
    yield from _parts(points[at:])
