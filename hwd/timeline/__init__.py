"""Instants on one time base, rolled up to links, timed by stages. Pure: no asyncio, no clock, no I/O."""

from hwd.timeline.build import build
from hwd.timeline.document import from_data, to_data
from hwd.timeline.stage import Stage, StageName
from hwd.timeline.statistics import Sample, StageStatistics, samples, summarise
from hwd.timeline.timeline import EndTimeline, LinkTimeline, SwitchCommand, Timeline

__all__ = [
    "EndTimeline",
    "LinkTimeline",
    "Sample",
    "Stage",
    "StageName",
    "StageStatistics",
    "SwitchCommand",
    "Timeline",
    "build",
    "from_data",
    "samples",
    "summarise",
    "to_data",
]
