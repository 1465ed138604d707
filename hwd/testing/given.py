"""The smaller fixtures: circuits, faults, and what was measured."""

from collections.abc import Iterator, Mapping
from typing import Never

from hwd.client.answers import Applied
from hwd.client.timelines import MeasuredTimeline, StageSeconds, Timelines
from hwd.testing.lab import READY_WITHIN_S, Lab
from hwd.timeline import StageName
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError, HwdError, RefusedError

SUBJECTS = ("switch", "port", "host")


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
    """Tells twins to misbehave for one test; at its end they are well again.

    fault("slow", switch="ocs1", seconds=0.5)
    fault("unplug", port="h0.eth0")
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._touched: list[Mapping[str, Json]] = []

    def __call__(self, name: str, **fields: Json) -> None:
        """Acts under the test's lease. Skips the test on glass where the subject is no twin, or is leased to others."""
        subject = {key: value for key, value in fields.items() if key in SUBJECTS}
        if new := subject not in self._touched:
            self._touched.append(subject)  # before it is asked: an answer that is lost says nothing of the twin
        try:
            self._tell({**fields, "fault": name})
        except (RefusedError, ConfigError) as error:  # it was not done
            if new:
                self._touched.remove(subject)
            if not (self._lab.glass and isinstance(error, RefusedError)):
                raise
            _skip(str(error))

    def clear(self) -> None:
        """End all faults of what was told to misbehave here, and of nothing else; safe to call any number of times."""
        failed: list[HwdError] = []
        for subject in list(self._touched):
            try:
                self._tell({**subject, "fault": "clear"})
            except HwdError as error:  # the others are cleared all the same
                failed.append(error)
            else:
                self._touched.remove(subject)
        if failed:
            raise failed[0]

    def _tell(self, fault: Mapping[str, Json]) -> None:
        self._lab.client.fault(fault, lease=self._lab.lease.id if self._lab.is_leased() else None)


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
