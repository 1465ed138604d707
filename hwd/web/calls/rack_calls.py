"""RackCalls: what is known of the rack now."""

from typing import Final

from msgspec.structs import asdict
from starlette.responses import RedirectResponse, Response

from hwd.fabric.in_use import InUse
from hwd.jobs.jobs import Jobs
from hwd.jobs.programs import Programs
from hwd.model.host import HostStatus
from hwd.model.run import RunProgress
from hwd.model.status import Liveness, Readiness, Status
from hwd.model.switch import SwitchStatus
from hwd.playbook.runs import Runs
from hwd.reconfigure.applies import under_way
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.reconfigure.transfers import Transfers
from hwd.web.bodies import encoded
from hwd.web.calls.call import Call, Calls
from hwd.web.calls.lease_calls import LeaseCalls
from hwd.web.rack_status import RackStatus
from hwd_agents.wire.access import ANYONE
from hwd_drivers.core.clock import Clock


class RackCalls:
    """The calls about the rack as it is now."""

    def __init__(
        self,
        rack: RackStatus,
        *,
        in_use: InUse,
        leases: LeaseCalls,
        reconfigurer: Reconfigurer,
        transfers: Transfers,
        programs: Programs,
        jobs: Jobs,
        runs: Runs,
        clock: Clock,
    ) -> None:
        self._rack = rack
        self._in_use = in_use
        self._leases = leases
        self._reconfigurer = reconfigurer
        self._transfers = transfers
        self._programs = programs
        self._jobs = jobs
        self._runs = runs
        self._clock = clock

    async def status(self) -> Status:
        """Everything of one screen: bus, switches, hosts, leases, reconfigurations and runs under way."""
        # A large rack is looked at in turns of the event loop: what is under way before or after that is named, so that
        # nothing moves that is not said to.
        moving = {one.id: under_way(one) for one in self._reconfigurer.under_way}
        switches, hosts = await self.switches(), await self.hosts()
        links, desired = await self._rack.links(), await self._rack.desired()
        unlit, orphans = self._rack.unlit(), await self._rack.orphans()
        moving |= {one.id: under_way(one) for one in self._reconfigurer.under_way}
        return Status(
            testbed=self._in_use.testbed.name,
            version=self._rack.version,
            wall_ns=self._clock.wall_ns(),
            alerts=self._rack.alerts(),
            bus=self._rack.bus(),
            disk=self._rack.disk(),
            records=self._rack.records(),
            journal=self._rack.journal(),
            leases=self._leases.leases(),
            lease_requests=self._leases.requests(),
            transfers=self._transfers.status(),
            programs=self._programs.status(),
            jobs=self._jobs.under_way(),
            sets=[*self._reconfigurer.sets.all()],
            ended_sets=[*self._reconfigurer.sets.ends.unasked(self._clock.wall_ns())],
            held=self._leases.held_settings(),
            reconfigurations=[*moving.values()],
            open=[*self._reconfigurer.recovery.left_open()],
            runs=[
                RunProgress(**{**asdict(status), **runner.progress})
                for runner in self._runs.active
                if (status := self._runs.board.get(runner.id)) is not None
            ],
            queue=[*self._runs.queue],
            switches=switches,
            composites=self._rack.composites(),
            hosts=hosts,
            lit=links,
            desired=desired,
            unlit=unlit,
            orphans=orphans,
        )

    async def switches(self) -> list[SwitchStatus]:
        """Switches, what they report, and their power readings."""
        return await self._rack.switches()

    async def hosts(self) -> list[HostStatus]:
        """Hosts, their agents and the alignment of their clocks."""
        return await self._rack.hosts()

    def start(self) -> Response:
        """Redirect a browser to the status."""
        return RedirectResponse("/api/v1/status")

    def healthz(self) -> Liveness:
        """200 where the process runs and its event loop answers."""
        return Liveness(alive=True)

    def readyz(self) -> Response:
        """200 when every switch answers and the broker is connected; 503 with `why` when not."""
        found = self.ready()
        return encoded(found, 200 if found.ready else 503)

    def ready(self) -> Readiness:
        """See `RackStatus.ready`."""
        return self._rack.ready()


RACK: Final = Calls(
    part="rack",
    tag="what is",
    rows=(
        Call(method="GET", path="/status", handler=RackCalls.status, access=ANYONE, in_turns=True),
        Call(method="GET", path="/switches", handler=RackCalls.switches, access=ANYONE),
        Call(method="GET", path="/hosts", handler=RackCalls.hosts, access=ANYONE),
    ),
)
PROBES: Final = Calls(
    part="rack",
    tag="probes",
    prefix="",
    rows=(
        Call(method="GET", path="/", handler=RackCalls.start, access=ANYONE, is_listed=False),
        Call(method="GET", path="/healthz", handler=RackCalls.healthz, access=ANYONE),
        Call(method="GET", path="/readyz", handler=RackCalls.readyz, access=ANYONE, answer=Readiness),
    ),
)
