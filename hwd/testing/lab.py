"""The fixture `lab`: the daemon under a lease of the test, and crossconnects restored when the test is over."""

import socket
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path

from hwd.client import AsyncClient, Client
from hwd.client.timelines import RunResult, Timelines
from hwd.model.document_list import DocumentList
from hwd.model.lease import HeldLease
from hwd.model.reconfiguration import ReconfigurationStatus
from hwd.model.status import Status
from hwd.model.switch import SwitchStatus
from hwd.testing.running_lab import POLL_S, RunningLab
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError, LinkError, RefusedError
from hwd_drivers.core.user import user_name

LEASE_S = 600.0
"""A longer test says so: @pytest.mark.hwd_lease(for_s=3600)."""
READY_WITHIN_S = 20.0
"""The slowest known NICs take some 10 s."""
BACK_WITHIN_S = 15.0
"""For a switch to reconnect whose sessions were cut: attempts are at most some seconds apart."""

_clock = SystemClock()


class Lab:
    """The rack as one test uses it.

    `client` is for everything that has no fixture; pass `lab.lease.id` where a call takes a lease. `glass`: the rack
    was named by --hwd-lab, the plugin did not start it.
    """

    def __init__(
        self, running: RunningLab, *, test: str, ports: Iterable[str] = ("all",), for_s: float = LEASE_S
    ) -> None:
        self.client: Client = running.connect()
        self.glass = running.glass
        self.running = running
        self.test = test
        self._for_s = for_s
        self._asked = tuple(ports)
        try:
            self.since = self.client.documents().last
            self.lease: HeldLease = self._take()
            self._before = {switch.name: switch.crossconnects for switch in self.client.switches() if switch.up}
        except BaseException:
            self.client.close()
            raise

    @property
    def holder(self) -> str:
        """The holder of the test's lease, as others see it."""
        return f"{user_name()}@{socket.gethostname()}, pytest {self.test}"[:200]

    def aclient(self) -> AsyncClient:
        """A client for coroutines: `async with lab.aclient() as hwd: ...`."""
        return self.running.aconnect()

    def status(self) -> Status:
        return self.client.status()

    def documents(self, *kinds: str) -> DocumentList:
        """Documents since the beginning of the test, of these kinds; a kind that ends with a dot selects
        all that begin so.
        """
        return self.client.documents(after=self.since, kinds=kinds)

    def timelines(self) -> Timelines:
        """Timelines since the beginning of the test. Where the lease covers a part of the rack, those of other people's
        reconfigurations are among them.
        """
        return Timelines.of_documents(self.documents("timeline").documents)

    def apply(
        self,
        *wanted: str,
        mode: str = "update",
        ready_within_s: float | None = READY_WITHIN_S,
        confirm_within_s: float | None = None,
    ) -> ReconfigurationStatus:
        """Apply links (`h0.eth0 <-> h1.eth0`, any number), or one text as `hwd apply` takes it, under the test's lease.

        `ready_within_s` None: do not wait for ready links, only for the switches' read-back.
        """
        text = ", ".join(wanted)
        links = all("<->" in one for one in wanted)
        if not wanted or (len(wanted) > 1 and not links):
            raise ConfigError(
                f"{text or 'nothing'}: write links (h0.eth0 <-> h1.eth0), "
                "or one text such as `ring rail=0` or `ocs1:1A-2B`"
            )
        file = (text, _topology(wanted)) if links else None
        return self.client.apply(
            what="" if links else text,
            file=file,
            mode=mode,
            lease=self.lease.id,
            ready_within_s=ready_within_s,
            confirm_within_s=confirm_within_s,
        )

    def run(self, playbook: str | Path, **parameters: object) -> RunResult:
        """Run a playbook to its end: a file, or a playbook that is part of hwd, by name. The run's own lease replaces
        the test's.
        """
        with self.handed_over():
            started = self.client.start_playbook(playbook, parameters=parameters)
            self._follow(started.id)
        return self.client.result(started.id)

    @contextmanager
    def handed_over(self) -> Generator[None]:
        """Release the test's lease for runs that take their own; it is taken again at the end."""
        self.client.release_lease(self.lease.id)
        try:
            yield
        finally:
            self.lease = self._take()

    def close(self) -> None:
        self.client.close()

    def is_leased(self) -> bool:
        """Whether the test's lease is in force."""
        return any(lease.id == self.lease.id for lease in self.client.leases())

    def end(self) -> None:
        """Restore the crossconnects that the lease covers, and release the lease."""
        if not self.is_leased():
            raise RefusedError(
                f"lease {self.lease.id}: not in force at the end of the test, so that its crossconnects were not "
                f"restored. It expired after {self._for_s:g} s, or was revoked; "
                "@pytest.mark.hwd_lease(for_s=3600) extends it"
            )
        try:
            for one in self.client.reconfigurations():
                if one.lease == self.lease.id:
                    self.client.roll_back(one.id)
            self._put_back(self._switches())
        finally:
            self.client.release_lease(self.lease.id)

    def _follow(self, run: str) -> None:
        """Follow a run to its end; where the test is interrupted, abort the run."""
        try:
            for _ in self.client.follow(run):
                pass
        except BaseException:
            self.client.abort(run, by=self.holder)
            raise

    def _switches(self) -> list[SwitchStatus]:
        """The switches that were connected at the beginning; raises LinkError where one does not reconnect."""
        due_ns = _clock.monotonic_ns() + round(BACK_WITHIN_S * 1e9)
        while True:
            switches = [switch for switch in self.client.switches() if switch.name in self._before]
            away = ", ".join(str(switch) for switch in switches if not switch.up)
            if not away:
                return switches
            if _clock.monotonic_ns() > due_ns:
                raise LinkError(
                    f"{away}: not connected again within {BACK_WITHIN_S:g} s; "
                    "the crossconnects of the test were not restored"
                )
            threading.Event().wait(POLL_S)

    def _put_back(self, switches: Iterable[SwitchStatus]) -> None:
        for switch in switches:
            if (wanted := self._as_before(switch)) is not None:
                self.client.apply(what=wanted, lease=self.lease.id)

    def _as_before(self, switch: SwitchStatus) -> str | None:
        """The topology to apply to restore our ports without touching those of others; None where nothing
        has to change.
        """
        now, before = (
            {one for one in some if self._is_ours(switch.name, one)}
            for some in (switch.crossconnects, self._before[switch.name])
        )
        if now == before:
            return None
        used = {end for one in before for end in one.split("-")}
        freed = {end for one in now - before if used.isdisjoint(one.split("-")) for end in one.split("-")[:1]}
        wanted = sorted(before - now) + sorted(f"{end}-none" for end in freed)
        return f"{switch.name}:{','.join(wanted)}"

    def _is_ours(self, switch: str, crossconnect: str) -> bool:
        ports = [f"{switch}.{end.rstrip('AB')}" for end in crossconnect.split("-")]
        return set(ports) <= set(self.lease.ports)

    def _take(self) -> HeldLease:
        return self.client.take_lease(holder=self.holder, ports=self._asked, for_s=self._for_s)


def _topology(links: Iterable[str]) -> str:
    return "\n".join(["topology: of-a-test", "links:", *(f"  - {link}" for link in links), ""])


def counts(status: Status) -> Mapping[str, int]:
    """Count what is up, by the names that @pytest.mark.hwd_needs takes."""
    ports = [port for host in status.hosts if host.up for port in host.ports]
    return {
        "switches": sum(switch.up is not False for switch in status.switches),
        "hosts": sum(host.up and host.aligned for host in status.hosts),
        "ports": len(ports),
    }
