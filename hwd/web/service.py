"""The service of the daemon: one method for each call of the HTTP API, JSON in and out, without HTTP."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from hwd.bus.gateway import Gateway
from hwd.bus.host_settings.run_settings import HostSettings
from hwd.bus.host_switches.delegations import Delegations
from hwd.bus.host_view import HostView
from hwd.bus.skew import skew
from hwd.config.playbook.step_claims import harmed
from hwd.config.testbed.ends import parse_ends
from hwd.config.testbed.wanted_state import WantedState
from hwd.model.fault import parse_fault
from hwd.model.run import RunState
from hwd.model.testbed import Testbed
from hwd.playbook.runs import Runs
from hwd.playbook.twin_faults import TwinFaults
from hwd.ports.claim import Claim
from hwd.ports.delegation import Delegation
from hwd.ports.ledger import Asker
from hwd.ports.rules import PortAction
from hwd.ports.testbed_ports import all_ports, leasable
from hwd.reconfigure.leases import Leases
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.reconfigure.route import Request
from hwd.records.recorder import RecordingSink
from hwd.records.records import Records
from hwd.records.run import Run
from hwd.web.applies import Applies, under_way
from hwd.web.linkboard import Linkboard
from hwd.web.switchboard import SwitchReport
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError, RefusedError, UnknownError
from hwd_drivers.core.values import PortOverride


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAccess:
    """The daemon's ways to its hosts: the bus, the agents behind it, NIC settings and delegated switches.

    `bus_address()`: the address of the broker, and whether the bus is connected.
    """

    bus_address: Callable[[], tuple[str, bool]]
    gateway: Gateway
    settings: HostSettings
    delegations: Delegations


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusBoards:
    """The state of switches and links for the status screen, as documents reported it last."""

    switches: Callable[[], list[SwitchReport]]
    links: Linkboard


class Service:
    """The daemon's offer to callers. All methods raise HwdError; its `exit_status` and `title` go to the caller."""

    def __init__(
        self,
        *,
        testbed: Testbed,
        version: str,
        applies: Applies,
        runs: Runs,
        faults: TwinFaults,
        reconfigurer: Reconfigurer,
        leases: Leases,
        hosts: HostAccess,
        boards: StatusBoards,
        records: Records,
        recorder: RecordingSink,
        clock: Clock,
    ) -> None:
        self.testbed = testbed
        self._version = version
        self._applies = applies
        self._runs = runs
        self._faults = faults
        self._reconfigurer = reconfigurer
        self._leases = leases
        self._hosts = hosts
        self._boards = boards
        self._records = records
        self._recorder = recorder
        self._clock = clock

    # --- state

    def status(self) -> dict[str, Json]:
        """All that the status screen shows."""
        address, connected = self._hosts.bus_address()
        failure = self._recorder.failure
        return {
            "testbed": self.testbed.name,
            "version": self._version,
            "bus": {"address": address, "connected": connected},
            "records": {"writable": failure is None, "why": None if failure is None else str(failure)},
            "journal": {"writable": not (trouble := self._reconfigurer.journal_trouble), "why": trouble or None},
            "switches": self.switches(),
            "composites": list[Json](self._boards.links.composites()),
            "hosts": self.hosts(),
            "links": list[Json](self._boards.links.links()),
            "leases": self.leases(),
            "held": self.held(),
            "reconfigurations": [under_way(one) for one in self._reconfigurer.under_way],
            "open": [one.to_data() for one in self._reconfigurer.left_open],
            "runs": [
                {**status.to_data(), **runner.progress}
                for runner in self._runs.active
                if (status := self._runs.board.get(runner.id)) is not None
            ],
            "queue": self.queue(),
        }

    def ready(self) -> dict[str, Json]:
        """{ready, why}: `why` lists what is not ready.

        Ready means: our switches answer, the broker is connected, records and journal can be written, and no entry of a
        damaged journal waits for a decision.
        """
        address, connected = self._hosts.bus_address()
        why = [] if connected else [f"broker {address} is not connected"]
        why += [
            f"switch {switch.switch} is down: {switch.cause}"
            for switch in self._boards.switches()
            if switch.up is False and switch.owner is None
        ]
        if self._recorder.failure is not None:
            why.append(str(self._recorder.failure))
        if trouble := self._reconfigurer.journal_trouble:
            why.append(trouble)
        why += [f"{one.reconfiguration} ({one.what}): {one.why}" for one in self._reconfigurer.left_open if one.is_held]
        return {"ready": not why, "why": list[Json](why)}

    def switches(self) -> list[dict[str, Json]]:
        """All switches, as a list of objects:

        {switch, owner, up, cause, vendor, model, serial, firmware, crossconnects: [{id, state}],
        power_dbm: {end: dBm or None}, blocked: [end],
        restart: {wall_ns, sign, lost, missing, uptime_s, unheard_s} of the last one, or None,
        overruns: [{wall_ns, reconfiguration, lost, window_s}],
        lease: {host, epoch, state, why} of the host that drives it, or None}
        """
        return [
            {
                **msgspec.to_builtins(one),
                "lease": None if (lease := self._hosts.delegations.get(one.switch)) is None else _delegated(lease),
            }
            for one in self._boards.switches()
        ]

    def hosts(self) -> list[dict[str, Json]]:
        """[{host, up, cause, heard_wall_ns, boot, version, skew, clock: {offset_s, error_s} or None, ports: {...}}].

        `skew`: why the agent's version does not fit ours.
        """
        return [self._host(name) for name in self.testbed.hosts]

    def leases(self) -> list[dict[str, Json]]:
        """Leases of ports (`kind` claim), and switches delegated to hosts (`kind` delegated), which do not expire."""
        delegated = [self._delegation(one) for one in self._hosts.delegations.all()]
        return [*(self._lease(lease) for lease in self._leases.all()), *delegated]

    def held(self) -> list[dict[str, Json]]:
        """Settings of ended runs still in force: [{hold, run, ports, why}]; `kick` of the hold frees the ports."""
        now = self._clock.wall_ns()
        return [
            {"hold": one.id, "run": one.run, "ports": list[Json](sorted(one.ports)), "why": one.text(now)}
            for one in self._hosts.settings.left
        ]

    # --- plan, apply, confirm, roll back: see `Applies`

    def request(
        self,
        what: str,
        *,
        mode: str = "update",
        lease: str | None = None,
        ready_within_s: float | None = None,
        confirm_within_s: float | None = None,
        wanted: WantedState | None = None,
    ) -> Request:
        """Raises ConfigError where `what` means nothing on this testbed."""
        return self._applies.request(
            what,
            mode=mode,
            lease=lease,
            ready_within_s=ready_within_s,
            confirm_within_s=confirm_within_s,
            wanted=wanted,
        )

    async def topology(self, text: str, *, file: str) -> WantedState:
        return await self._applies.topology(text, file=file)

    async def plan(self, request: Request) -> dict[str, Json]:
        return await self._applies.plan(request)

    async def apply(self, request: Request, *, id: str | None = None) -> dict[str, Json]:
        return await self._applies.apply(request, id=id)

    async def apply_hash(self, hash: str, *, id: str | None = None) -> dict[str, Json]:
        return await self._applies.apply_hash(hash, id=id)

    async def confirm(self, reconfiguration: str | None) -> dict[str, Json]:
        return await self._applies.confirm(reconfiguration)

    async def roll_back(self, reconfiguration: str | None) -> dict[str, Json]:
        return await self._applies.roll_back(reconfiguration)

    async def give_up(self, reconfiguration: str, *, by: str) -> dict[str, Json]:
        """Leave as it is what the journal holds open: {reconfiguration, run, what, why, by, left}."""
        return (await self._reconfigurer.give_up(reconfiguration, by=by)).to_data()

    # --- leases and faults

    async def take_lease(self, *, holder: str, ports: list[str], for_s: float) -> dict[str, Json]:
        known = leasable(self.testbed)
        named = all_ports(self.testbed) if ports == ["all"] else frozenset(ports)
        if unknown := sorted(named - known.keys()):
            raise ConfigError(
                f"lease: no such port: {', '.join(unknown)}. Ports are written ocs1.3 or h0.eth0; `all` takes every one"
            )
        wanted = frozenset(port for name in named for port in known[name])
        return self._lease(await self._leases.take(holder=holder, ports=wanted, for_s=for_s))

    async def renew_lease(self, id: str, *, for_s: float) -> dict[str, Json]:
        return self._lease(await self._leases.renew(id, for_s=for_s))

    async def grant_lease(self, id: str, *, by: str) -> dict[str, Json]:
        """Delegate a switch to its host again, under the next epoch. `told`: whether its agent has the grant."""
        granted = await self._hosts.delegations.grant(id, by=by)
        return {**self._delegation(granted), "told": self._hosts.delegations.has(granted)}

    async def release_lease(self, id: str, *, kick: bool = False, by: str = "") -> dict[str, Json]:
        if kick and (kicked_claim := self._hosts.settings.kick(id)) is not None:
            ports = list[Json](sorted(kicked_claim.ports))
            return {"lease": id, "holder": f"settings of run {kicked_claim.run}", "ports": ports, "left_s": 0.0}
        if (delegation := self._hosts.delegations.get(id)) is not None:
            if not kick:
                raise RefusedError(
                    f"lease {id}: it is host {delegation.host}'s; take it back with `hwd lease kick {id}`"
                )
            kicked = await self._hosts.delegations.kick(id, by=by)
            if kicked is not None:
                return {**self._delegation(kicked.delegation), "told": not kicked.why, "why": kicked.why}
        lease = self._leases.get(id)
        await self._leases.release(id, why="kicked" if kick else "released")
        return self._lease(lease)

    async def fault(self, data: Mapping[str, Json], *, lease: str | None = None) -> dict[str, Json]:
        """Set or clear a fault of a twin; returns {done}. Raises RefusedError where another lease has its ports."""
        fault = parse_fault(data)
        ports = harmed(fault, all_ports(self.testbed))
        self._leases.ledger.check(Asker(lease=lease), ports, PortAction.FAULT, now_wall_ns=self._clock.wall_ns())
        await self._faults.set(fault)
        return {"done": True}

    async def override(
        self, switch: str, ends: Sequence[str], to: str, *, lease: str | None = None, by: str
    ) -> dict[str, Json]:
        """Hold fibre ends dark, or release them; returns {switch, ends, to, blocked}, `blocked`: all dark ends."""
        found = parse_ends(switch, ends, self.testbed)
        await self._reconfigurer.overrides.set(switch, found, PortOverride(to), lease=lease, by=by)
        (now,) = [one for one in self._boards.switches() if one.switch == switch]
        return {"switch": switch, "ends": [*map(str, found)], "to": to, "blocked": now.blocked}

    # --- runs: see `Runs`

    async def start_run(
        self, *, text: str, file: str, parameters: Mapping[str, str], due_wall_ns: int | None = None
    ) -> dict[str, Json]:
        """{run, playbook, steps, state, due_wall_ns}"""
        status = await self._runs.start(text=text, file=file, parameters=parameters, due_wall_ns=due_wall_ns)
        data = status.to_data()
        return {key: data[key] for key in ("run", "playbook", "steps", "state", "due_wall_ns", "waits_for")}

    async def wait_run(self, id: str) -> None:
        """Until it has ended."""
        await self._runs.wait(id)

    async def abort_run(self, id: str, *, by: str) -> dict[str, Json]:
        """{run, outcome, why, safe_state}"""
        end = await self._runs.abort(id, by=by)
        return {"run": end.run, "outcome": end.state, "why": end.why, "safe_state": end.safe_state}

    def pause_run(self, id: str, *, by: str) -> dict[str, Json]:
        return self._runs.pause(id, by=by).to_data()

    def resume_run(self, id: str, *, by: str) -> dict[str, Json]:
        return self._runs.resume(id, by=by).to_data()

    async def run_state(self, id: str) -> dict[str, Json]:
        return (await self._runs.state(id)).to_data()

    def queue(self) -> list[dict[str, Json]]:
        """In the order in which they start."""
        return [status.to_data() for status in self._runs.queue]

    async def runs(self, *, limit: int | None = None, before: str | None = None) -> list[dict[str, Json]]:
        """Runs that began, newest first, each with its `state`, in short. `before`: only those older than this one."""
        found = await self._records.runs(limit=limit, before=before)
        return [{**run.summary(), "state": self._state(run)} for run in found]

    async def run(self, id: str) -> dict[str, Json]:
        """One run that began, by its id or the beginning of it."""
        run = await self._run(id)
        return {**run_data(run), "state": self._state(run)}

    async def run_documents(self, id: str) -> AsyncIterator[dict[str, Json]]:
        """All documents of a run, oldest first; also those that still wait for the records."""
        run = await self._run(id)
        return (document.to_data() async for document in self._recorder.documents(run.id))

    async def close(self) -> None:
        """Abort runs and roll back reconfigurations into their safe states. Nothing new begins from here on."""
        await asyncio.gather(self._runs.close(), self._applies.close())

    # --- inside

    def _host(self, name: str) -> dict[str, Json]:
        view = self._hosts.gateway.hosts().get(name)
        if view is None:
            view = HostView(host=name)
        apart = "" if view.birth is None else skew(self._version, view.birth.version)
        return {**view.to_data(), "skew": apart, "ports": self._boards.links.ports(name)}

    def _lease(self, lease: Claim) -> dict[str, Json]:
        return {
            "lease": lease.id,
            "kind": "claim",
            "holder": lease.owner,
            "ports": list[Json](sorted(lease.ports)),
            "left_s": lease.left_s(self._clock.wall_ns()),
        }

    def _delegation(self, lease: Delegation) -> dict[str, Json]:
        ends = self.testbed.ends_of(lease.switch)
        return {
            "lease": lease.switch,
            "kind": "delegated",
            "holder": f"host {lease.host}",
            "ports": list[Json](dict.fromkeys(f"{lease.switch}.{end.port}" for end in ends)),
            "left_s": None,
            **_delegated(lease),
        }

    def _state(self, run: Run) -> str:
        status = self._runs.board.get(run.id)
        return status.state if status is not None else run.outcome or RunState.RUNNING

    async def _run(self, id: str) -> Run:
        try:
            return await self._records.run(id)
        except UnknownError:
            if id and any(status.run.startswith(id) for status in self._runs.queue):
                raise UnknownError(
                    f"run {id}: is in the queue, and nothing is recorded of it. See `hwd queue`"
                ) from None
            raise


def _delegated(lease: Delegation) -> dict[str, Json]:
    return {"host": lease.host, "epoch": lease.epoch, "state": lease.state, "why": lease.why}


def run_data(run: Run) -> dict[str, Json]:
    """A run as JSON; `outcome` is null until its end."""
    return dataclasses.asdict(run)
