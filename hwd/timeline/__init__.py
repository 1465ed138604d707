"""Instants on one time base, rolled up to links, timed by stages. Pure: no asyncio, no clock, no I/O."""

from hwd.model.rc_recovery import RcOutcome, RcRecovery
from hwd.model.stage import Stage, StageName
from hwd.model.timeline import EndTimeline, LinkTimeline, SwitchCommand, Timeline
from hwd.timeline.build import build_timeline
from hwd.timeline.difference import Difference, difference
from hwd.timeline.distribution import Distribution, distribution
from hwd.timeline.statistics import Sample, StageStatistics, samples, summarise

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
