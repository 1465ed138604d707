"""The smaller fixtures: circuits, faults, and what was measured."""

from collections.abc import Iterator
from typing import Never

from hwd.client.answers import Applied
from hwd.client.timelines import MeasuredTimeline, StageSeconds, Timelines
from hwd.testing.lab import READY_WITHIN_S, Lab
from hwd.timeline import StageName
from hwd_drivers.kit.documents import Json
from hwd_drivers.kit.errors import RefusedError


class Circuit:
    """Makes light paths for one test; all are given back at its end.

    circuit("h0.eth0 <-> h1.eth0", "h0.eth1 <-> h1.eth1")    links; it waits until they are ready
    circuit("ring rail=0")                                   whatever `hwd apply` takes
    circuit("ocs1:1A-3B", ready_within_s=None)               a crossconnect that makes no whole link
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def __call__(self, *wanted: str, mode: str = "update", ready_within_s: float | None = READY_WITHIN_S) -> Applied:
        """Raises HwdError: NotReadyError where a link is not ready in time, and then the switches are as before."""
        return self._lab.apply(*wanted, mode=mode, ready_within_s=ready_within_s)


class Fault:
    """Tells twins to misbehave for one test; at its end all is well again.

    fault("slow", switch="ocs1", seconds=0.5)
    fault("unplug", port="h0.eth0")
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._set = False

    def __call__(self, name: str, **fields: Json) -> None:
        """Skips the test where the subject is no twin."""
        try:
            self._lab.client.fault({**fields, "fault": name})
        except RefusedError as error:
            if not self._lab.glass:
                raise
            _skip(str(error))
        self._set = True

    def clear(self) -> None:
        """End all faults; safe to call any number of times."""
        if self._set:
            self._lab.client.fault({"fault": "clear"})
            self._set = False


class TimelinesOfTest:
    """What was measured in this test until now, a timeline for each reconfiguration that has ended."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    @property
    def all(self) -> Timelines:
        return self._lab.timelines()

    @property
    def last(self) -> MeasuredTimeline:
        """Raises FailedError where there is none."""
        return self.all.last

    @property
    def turnaround_s(self) -> StageSeconds:
        """Of the last one: from the command to the first transfer, of its slowest link."""
        return self.last.turnaround_s

    def seconds(self, stage: StageName | str) -> StageSeconds:
        """A stage of the last one, of its slowest link. Raises FailedError where a link's is not known."""
        return self.last.seconds(stage)

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[MeasuredTimeline]:
        return iter(self.all)

    def __repr__(self) -> str:
        return repr(self.all)


def _skip(why: str) -> Never:
    import pytest

    pytest.skip(why)
