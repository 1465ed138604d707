"""Instants on one time base, rolled up to links, timed by stages. Pure: no asyncio, no clock, no I/O."""

from hwd.timeline.build import build_timeline
from hwd.timeline.difference import Difference, difference
from hwd.timeline.distribution import Distribution, distribution
from hwd.timeline.rc_recovery import RcOutcome, RcRecovery
from hwd.timeline.stage import Stage, StageName
from hwd.timeline.statistics import Sample, StageStatistics, samples, summarise
from hwd.timeline.timeline import EndTimeline, LinkTimeline, SwitchCommand, Timeline

__all__ = [
    "Difference",
    "Distribution",
    "EndTimeline",
    "LinkTimeline",
    "RcOutcome",
    "RcRecovery",
    "Sample",
    "Stage",
    "StageName",
    "StageStatistics",
    "SwitchCommand",
    "Timeline",
    "build_timeline",
    "difference",
    "distribution",
    "samples",
    "summarise",
]
