"""What the daemon offers to the outside: one method for each call of the HTTP API. No HTTP in here."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Mapping

from hwd.bus.gateway import Gateway
from hwd.config.playbook import ApplyStep, load_playbook_text
from hwd.config.wanted import Wanted, parse_what
from hwd.fabric.claims import all_ports
from hwd.model.lease import Lease
from hwd.model.plan import ApplyMode
from hwd.model.testbed import Testbed
from hwd.playbook.runner import Runner, SafeState
from hwd.reconfigure.history import History
from hwd.reconfigure.leases import Leases
from hwd.reconfigure.planner import Request
from hwd.reconfigure.reconfiguration import Reconfiguration, State
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.records.recorder import RecordingSink
from hwd.records.records import Records
from hwd.records.run import Run, RunOutcome
from hwd.web.hub import Hub
from hwd.web.linkboard import Linkboard
from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.documents import Document, Json, Sink
from hwd_drivers.kit.errors import ConfigError, FailedError, HwdError, RefusedError
from hwd_drivers.kit.ids import Ids

PLANS_KEPT = 256
"""Plans that can be applied by their hash; nobody comes back to older ones."""

log = logging.getLogger(__name__)


class Service:
    """The daemon from the outside. All methods raise HwdError; its `exit_status` and `title` become the problem document."""

    def __init__(
        self,
        *,
        testbed: Testbed,
        testbed_text: str,
        version: str,
        reconfigurer: Reconfigurer,
        leases: Leases,
        history: History,
        records: Records,
        gateway: Gateway,
        switches: Callable[[], list[dict[str, Json]]],
        links: Linkboard,
        bus_address: Callable[[], tuple[str, bool]],
        recorder: RecordingSink,
        hub: Hub,
        clock: Clock,
        ids: Ids,
        sink: Sink,
        virtual_time: bool,
    ) -> None:
        self.testbed = testbed
        self.hub = hub
        self._testbed_text = testbed_text
        self._version = version
        self._reconfigurer = reconfigurer
        self._leases = leases
        self._history = history
        self._records = records
        self._gateway = gateway
        self._switches = switches
        self._links = links
        self._bus_address = bus_address
        self._recorder = recorder
        self._clock = clock
        self._ids = ids
        self._sink = sink
        self._virtual_time = virtual_time
        self._planned: dict[str, Request] = {}
        self._runs: dict[str, tuple[Runner, asyncio.Task[None]]] = {}
        self._starting = asyncio.Lock()
        self._applies: dict[str, asyncio.Task[dict[str, Json]]] = {}
        self._closing = False

    # --- what is

    def status(self) -> dict[str, Json]:
        """Everything of one screen."""
        address, connected = self._bus_address()
        return {
            "testbed": self.testbed.name,
            "version": self._version,
            "bus": {"address": address, "connected": connected},
            "switches": self.switches(),
            "hosts": self.hosts(),
            "links": list[Json](self._links.links()),
            "leases": self.leases(),
            "reconfigurations": [_under_way(one) for one in self._reconfigurer.under_way],
            "runs": [{"run": run.id, "playbook": run.playbook.name, **run.progress} for run, _ in self._runs.values()],
        }

    def ready(self) -> dict[str, Json]:
        """`ready` is true when every switch that is ours answers and the broker is there; `why` lists what is not."""
        address, connected = self._bus_address()
        why = [] if connected else [f"broker {address} is not connected"]
        why += [
            f"switch {switch['switch']} is down: {switch['cause']}"
            for switch in self.switches()
            if switch["up"] is False
        ]
        return {"ready": not why, "why": list[Json](why)}

    def switches(self) -> list[dict[str, Json]]:
        """[{switch, owner, up, cause, vendor, model, serial, firmware, crossconnects: [{id, state}], power_dbm: {end: dBm or None}}]"""
        return self._switches()

    def hosts(self) -> list[dict[str, Json]]:
        """[{host, up, boot, version, clock: {offset_s, error_s} or None, ports: {...}}]"""
        return [self._host(name) for name in self.testbed.hosts]

    def leases(self) -> list[dict[str, Json]]:
        return [self._lease(lease) for lease in self._leases.all()]

    # --- plan, apply, confirm, roll back

    def request(
        self,
        what: str,
        *,
        mode: str = "update",
        lease: str | None = None,
        ready_within_s: float | None = None,
        confirm_within_s: float | None = None,
        wanted: Wanted | None = None,
    ) -> Request:
        """Raises ConfigError where `what` means nothing on this testbed."""
        wanted = wanted or parse_what(what, self.testbed)
        return Request(
            what=wanted.name,
            links=wanted.links,
            crossconnects=wanted.crossconnects,
            emptied=wanted.emptied,
            mode=_mode(mode),
            lease=lease,
            ready_within_s=ready_within_s,
            confirm_within_s=confirm_within_s,
        )

    async def plan(self, request: Request) -> dict[str, Json]:
        plan = await self._reconfigurer.plan(request)
        self._planned.pop(plan.hash, None)
        self._planned[plan.hash] = request
        if len(self._planned) > PLANS_KEPT:
            del self._planned[next(iter(self._planned))]
        return plan.to_data()

    async def apply(self, request: Request, *, expect_hash: str | None = None) -> dict[str, Json]:
        """Drive, read back, wait for ready where asked, then confirm, or start the confirm timer; returns {reconfiguration, state, outcome, ...}.

        It goes on when its caller goes away. `roll_back` and `close` stop it, into the state before it.
        """
        self._check_open()
        id = self._ids.token(length=8)
        task = asyncio.create_task(self._apply(id, request, expect_hash), name=f"hwd:apply/{id}")
        self._applies[id] = task
        task.add_done_callback(lambda done: self._applied(id, done))
        await asyncio.wait([task])
        if task.cancelled():
            raise FailedError(f"apply {id} ({request.what}): stopped and rolled back before it was done")
        return task.result()

    async def apply_hash(self, hash: str) -> dict[str, Json]:
        """Apply a plan that `plan` made, one of the last `PLANS_KEPT`; refused when the switches differ by now."""
        request = self._planned.get(hash)
        if request is None:
            raise RefusedError(
                f"plan {hash}: not known to this daemon, which keeps the last {PLANS_KEPT} since its start. Make it again with `hwd plan`, and apply its hash"
            )
        return await self.apply(request, expect_hash=hash)

    async def confirm(self, reconfiguration: str | None) -> dict[str, Json]:
        one = self._reconfigurer.get(reconfiguration)
        if one.run is not None:
            raise RefusedError(f"reconfiguration {one.id}: belongs to run {one.run}, which confirms it itself")
        if one.state is not State.AWAITING_CONFIRM:
            raise RefusedError(f"reconfiguration {one.id}: is {one.state}, not awaiting a confirm")
        await self._reconfigurer.confirm(one)
        return _under_way(one)

    async def roll_back(self, reconfiguration: str | None) -> dict[str, Json]:
        one = self._reconfigurer.get(reconfiguration)
        if one.run is not None:
            raise RefusedError(f"reconfiguration {one.id}: belongs to run {one.run}; `hwd abort {one.run}` ends both")
        if (task := self._applies.get(one.id)) is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._reconfigurer.roll_back(one, "asked for")
        return _under_way(one)

    # --- leases

    async def take_lease(self, *, holder: str, ports: list[str], for_s: float) -> dict[str, Json]:
        known = all_ports(self.testbed)
        wanted = known if ports == ["all"] else frozenset(ports)
        if unknown := sorted(wanted - known):
            raise ConfigError(
                f"lease: no such port: {', '.join(unknown)}. Ports are written ocs1.3 or h0.eth0; `all` takes every one"
            )
        return self._lease(await self._leases.take(holder=holder, ports=wanted, for_s=for_s))

    async def renew_lease(self, id: str, *, for_s: float) -> dict[str, Json]:
        return self._lease(await self._leases.renew(id, for_s=for_s))

    async def release_lease(self, id: str, *, kick: bool = False) -> dict[str, Json]:
        lease = self._leases.get(id)
        await self._leases.release(id, why="kicked" if kick else "released")
        return self._lease(lease)

    # --- runs

    async def start_run(self, *, text: str, file: str, parameters: Mapping[str, str]) -> dict[str, Json]:
        """Check the playbook, start it, and return {run, steps}; raises ConfigError with every problem, before anything moves."""
        async with self._starting:  # `close` waits for it
            self._check_open()
            return await self._start_run(text, file, parameters)

    async def _start_run(self, text: str, file: str, parameters: Mapping[str, str]) -> dict[str, Json]:
        playbook = load_playbook_text(text, file=file, overrides=parameters, testbed=self.testbed)
        run = Runner(
            self._ids.token(length=8),
            playbook,
            reconfigurer=self._reconfigurer,
            leases=self._leases,
            request=self._step_request,
            all_ports=all_ports(self.testbed),
            history=self._history,
            clock=self._clock,
            sink=self._sink,
        )
        await self._records.start_run(
            Run(
                id=run.id,
                playbook=playbook.name,
                playbook_text=text,
                parameters=dict(playbook.parameters),
                testbed=self.testbed.name,
                testbed_text=self._testbed_text,
                inventory={"switches": self.switches(), "hosts": self.hosts(), "version": self._version},
                version=self._version,
                virtual_time=self._virtual_time,
                started_wall_ns=self._clock.wall_ns(),
            )
        )
        if self._closing:
            why = "the daemon ended before its first step"
            await self._records.end_run(
                run.id,
                outcome=RunOutcome.ABORTED,
                why=why,
                safe_state=SafeState.AS_APPLIED,
                ended_wall_ns=self._clock.wall_ns(),
            )
            raise RefusedError(f"run {run.id}: {why}; nothing was moved")
        self._tell(
            "run.started",
            run=run.id,
            playbook=playbook.name,
            parameters=dict(playbook.parameters),
            steps=run.total_steps,
            virtual_time=self._virtual_time,
        )
        self._runs[run.id] = run, asyncio.create_task(self._go(run), name=f"hwd:run/{run.id}/main")
        return {"run": run.id, "playbook": playbook.name, "steps": run.total_steps}

    async def wait_run(self, id: str) -> None:
        """Until it has ended."""
        if id in self._runs:
            await asyncio.shield(self._runs[id][1])

    async def abort_run(self, id: str, *, by: str) -> dict[str, Json]:
        """End a run, named by its id or the beginning of it, in its safe state; returns {run, outcome, why, safe_state} within 5 s."""
        match [id] if id in self._runs else [name for name in self._runs if name.startswith(id)]:
            case [name]:
                run, task = self._runs[name]
            case []:
                raise RefusedError(f"run {id}: not under way. Under way: {', '.join(self._runs) or 'none'}")
            case several:
                raise RefusedError(f"run {id}: several under way start so ({', '.join(several)}). Write more of it")
        run.abort(by)
        await asyncio.shield(task)
        assert run.end is not None
        return {"run": run.id, "outcome": run.end.outcome, "why": run.end.why, "safe_state": run.end.safe_state}

    async def runs(self) -> list[dict[str, Json]]:
        """Newest first."""
        return [run_data(run) for run in await self._records.runs()]

    async def run(self, id: str) -> dict[str, Json]:
        """One run by its id, or the beginning of it."""
        return run_data(await self._records.run(id))

    async def run_documents(self, id: str) -> list[dict[str, Json]]:
        """All documents of a run, oldest first."""
        await self._recorder.flush()
        record = await self._records.run(id)
        return [document_data(stored.document) for stored in await self._records.documents(run=record.id)]

    async def close(self) -> None:
        """Abort the runs and roll back what is under way, each into its safe state. Nothing new begins from here on."""
        self._closing = True
        under_way = [task for _, task in self._runs.values()] + [*self._applies.values()]
        for run, _ in self._runs.values():
            run.abort("the end of the daemon")
        for apply in self._applies.values():
            apply.cancel()
        ended = await asyncio.gather(*under_way, self._reconfigurer.close(), return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                log.error("on the way to the end: %s", error)
        async with self._starting:
            pass  # one that was about to begin has ended its record

    # --- inside

    def _check_open(self) -> None:
        if self._closing:
            raise RefusedError("the daemon is ending; nothing new begins")

    async def _apply(self, id: str, request: Request, expect_hash: str | None) -> dict[str, Json]:
        reconfiguration = await self._reconfigurer.begin(request, expect_hash=expect_hash, id=id)
        try:
            if request.ready_within_s is not None:
                await self._reconfigurer.wait_ready(reconfiguration, within_s=request.ready_within_s)
            if request.confirm_within_s is not None:
                await self._reconfigurer.await_confirm(reconfiguration, within_s=request.confirm_within_s)
            else:
                await self._reconfigurer.confirm(reconfiguration)
        except asyncio.CancelledError:
            await asyncio.shield(self._reconfigurer.roll_back(reconfiguration, "stopped"))
            raise
        return _under_way(reconfiguration)

    def _applied(self, id: str, task: asyncio.Task[dict[str, Json]]) -> None:
        del self._applies[id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("apply %s: %s", id, error)

    def _step_request(self, step: ApplyStep, lease: str | None) -> Request:
        return self.request(step.what, mode=step.mode, lease=lease, wanted=step.wanted)

    async def _go(self, run: Runner) -> None:
        end = await run.go()
        self._tell(
            "run.ended",
            run=run.id,
            outcome=end.outcome,
            why=end.why,
            safe_state=end.safe_state,
            exit_status=end.fault.exit_status if end.fault else None,
        )
        try:
            await self._recorder.end_run(
                run.id, outcome=end.outcome, why=end.why, safe_state=end.safe_state, ended_wall_ns=self._clock.wall_ns()
            )
        except HwdError as error:
            log.error("run %s: ended as %s, but the records could not take it: %s", run.id, end.outcome, error)
        self._runs.pop(run.id, None)

    def _host(self, name: str) -> dict[str, Json]:
        view = self._gateway.hosts().get(name)
        if view is None:
            return {"host": name, "up": False, "boot": None, "version": None, "clock": None, "ports": {}}
        return {**view.to_data(), "ports": self._links.ports(name)}

    def _lease(self, lease: Lease) -> dict[str, Json]:
        return {
            "lease": lease.id,
            "holder": lease.holder,
            "ports": list[Json](sorted(lease.ports)),
            "left_s": (lease.expires_wall_ns - self._clock.wall_ns()) / 1e9,
        }

    def _tell(self, kind: str, **data: Json) -> None:
        self._sink(Document(kind=kind, at_ns=self._clock.monotonic_ns(), wall_ns=self._clock.wall_ns(), data=data))


def document_data(document: Document) -> dict[str, Json]:
    """A document as JSON, for the event stream and exports."""
    return {"kind": document.kind, "at_ns": document.at_ns, "wall_ns": document.wall_ns, "data": document.data}


def run_data(run: Run) -> dict[str, Json]:
    """A run as JSON; `outcome` is null while it goes on."""
    return dataclasses.asdict(run)


def _mode(text: str) -> ApplyMode:
    try:
        return ApplyMode(text)
    except ValueError:
        raise ConfigError(f"mode {text!r}: not a mode; use {', '.join(ApplyMode)}") from None


def _under_way(one: Reconfiguration) -> dict[str, Json]:
    confirm_in_s = None if one.confirm_by_s is None else one.confirm_by_s - asyncio.get_running_loop().time()
    return {
        "reconfiguration": one.id,
        "run": one.run,
        "what": one.plan.what,
        "hash": one.plan.hash,
        "state": one.state,
        "outcome": one.outcome,
        "why": one.why,
        "confirm_in_s": confirm_in_s,
        "links": [str(link) for link in one.links],
        "not_ready": [str(link) for link in one.not_ready],
    }
