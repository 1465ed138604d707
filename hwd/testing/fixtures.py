"""The fixtures `circuit`, `fault`, `job` and `timeline`."""

import threading
from collections.abc import Iterator, Mapping
from typing import Never

from hwd.client.timelines import MeasuredTimeline, StageSeconds, Timelines
from hwd.model.job_status import JobEfficiency, JobStatus, JobVerification
from hwd.model.reconfiguration import ReconfigurationStatus
from hwd.testing.lab import READY_WITHIN_S, Lab
from hwd.testing.running_lab import POLL_S
from hwd.timeline import StageName
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError, FailedError, HwdError, RefusedError

SUBJECTS = ("switch", "port", "host")


class Circuit:
    """Makes light paths for one test; all are removed at its end.

    circuit("h0.eth0 <-> h1.eth0", "h0.eth1 <-> h1.eth1")    links; it waits until they are ready
    circuit("ring rail=0")                                   whatever `hwd apply` takes
    circuit("ocs1:1A-3B", ready_within_s=None)               a crossconnect that makes no whole link
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def __call__(
        self, *wanted: str, mode: str = "update", ready_within_s: float | None = READY_WITHIN_S
    ) -> ReconfigurationStatus:
        """Raises HwdError: NotReadyError where a link is not ready in time; the switches are then as before."""
        return self._lab.apply(*wanted, mode=mode, ready_within_s=ready_within_s)


class Fault:
    """Injects faults into twins for one test; they are cleared at its end.

    fault("slow", switch="ocs1", seconds=0.5)
    fault("unplug", port="h0.eth0")
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._touched: list[Mapping[str, Json]] = []

    def __call__(self, name: str, **fields: Json) -> None:
        """Inject a fault under the test's lease. Skips the test on real hardware where the subject is no twin, or is
        leased to others.
        """
        subject = {key: value for key, value in fields.items() if key in SUBJECTS}
        if new := subject not in self._touched:
            self._touched.append(subject)  # before the call: if its answer is lost, the twin may have the fault
        try:
            self._tell({**fields, "fault": name})
        except (RefusedError, ConfigError) as error:  # the fault was not injected
            if new:
                self._touched.remove(subject)
            if not (self._lab.glass and isinstance(error, RefusedError)):
                raise
            _skip(str(error))

    def clear(self) -> None:
        """Clear the faults that were injected here, and no others; safe to call any number of times."""
        failed: list[HwdError] = []
        for subject in list(self._touched):
            try:
                self._tell({**subject, "fault": "clear"})
            except HwdError as error:  # the other subjects are cleared all the same
                failed.append(error)
            else:
                self._touched.remove(subject)
        if failed:
            raise failed[0]

    def _tell(self, fault: Mapping[str, Json]) -> None:
        self._lab.client.fault(fault, lease=self._lab.lease.id if self._lab.is_leased() else None)


class JobOfTest:
    """Runs jobs of the testbed file for one test, each to its end; it takes a lease of its own, to which the test's is
    handed over.

    done = job("train", "--steps", "10")        raises FailedError where it did not succeed
    job.output(done.id, rank=2)                 what a rank wrote
    assert job.verify(done.id).holds            each operation over light that was there
    job.efficiency(done.id).whole.gamma         how much of what arrived was of use
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def __call__(self, name: str, *words: str) -> JobStatus:
        """`words`: further arguments of its command. It is stopped where the test is interrupted."""
        client = self._lab.client
        with self._lab.handed_over():
            status = client.start_job(name, *words, by=self._lab.holder)
            try:
                status = self._ended(status)
            except BaseException:
                self._ended(client.stop_job(status.id, by=self._lab.holder))
                raise
        if status.state != "succeeded":
            raise FailedError(f"job {status.id}: {status.state}: {status.why}")
        return status

    def output(self, id: str, rank: int = 0) -> str:
        """What a rank of a job has written, both streams as they came."""
        pieces: list[bytes] = []
        while (piece := self._lab.client.job_output(id, rank, first=sum(map(len, pieces)))).data:
            pieces.append(piece.data)
        return b"".join(pieces).decode(errors="replace")

    def verify(self, id: str) -> JobVerification:
        """Whether a job kept its promises, from the records alone."""
        (found,) = self._lab.client.verify_job(id)
        return found

    def efficiency(self, id: str) -> JobEfficiency:
        """How much of the capacity of its network became data that its ranks go on with."""
        (found,) = self._lab.client.job_efficiency(id)
        return found

    def _ended(self, status: JobStatus) -> JobStatus:
        while not status.ended:
            threading.Event().wait(POLL_S)
            status = self._lab.client.job(status.id)
        return status


class TimelinesOfTest:
    """The timelines of this test so far, one for each reconfiguration that has ended."""

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
        """The turnaround of the last reconfiguration's slowest link: from the command to the first transfer."""
        return self.last.turnaround_s

    def seconds(self, stage: StageName | str) -> StageSeconds:
        """A stage of the last reconfiguration's slowest link. Raises FailedError where a link's is unknown."""
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
