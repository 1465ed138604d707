"""The operators of a simulated world, and its jobs: each deed is a call of the daemon's service, as over HTTP."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from typing_extensions import override

from hwd.model.bodies import (
    ActBody,
    ByBody,
    EpochBody,
    JobBody,
    KickBody,
    LeaseBody,
    PlanBody,
    PrepareBody,
    ReconfigurationBody,
    ReleaseSetBody,
    RenewBody,
    RunBody,
    SwitchBody,
    TargetBody,
)
from hwd.model.job_status import JobStatus
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationState
from hwd.reconfigure.apply.reconfiguration import State
from hwd.sim import plan
from hwd.sim.racks import JOB, Rack
from hwd.sim.rank import Rank
from hwd.sim.watches.set_watch import SetPromise
from hwd.sim.watches.transfer_watch import InFlight
from hwd.sim.watches.witness import Witness
from hwd.sim.world import DAEMON, World, select_address
from hwd.web.service import Service
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.twins.nodes import NodeKilled

T = TypeVar("T")

ABORT_BOUND_S: Final = 5.0
BACK_WITHIN_S: Final = 1.0
"""From the end of the time for a confirm, or the start of a daemon after it, to the begin of the way back."""
SLACK_S: Final = 0.5
"""For the way of the answer, and for reads before the way back begins."""
ANSWER_WITHIN_S: Final = 120.0
"""Longer than any deadline of a call."""


class Operators:
    """Does the deeds of a plan, and remembers what was answered."""

    def __init__(self, world: World, rack: Rack, witness: Witness, tell: Callable[[str], None]) -> None:
        self._world = world
        self._rack = rack
        self._witness = witness
        self._tell = tell
        self._leases: dict[int, str] = {}
        self._runs: dict[int, str] = {}
        self._latest_select: dict[str, int] = {}
        self._sets: dict[int, str] = {}
        self._within_s: dict[str, float] = {}
        self._confirm_by_s: dict[str, float] = {}
        self._asked_s: dict[str, float] = {}
        self.jobs: dict[int, str] = {}
        """By step: jobs whose start was answered."""
        self._ranks: dict[int, tuple[Rank, str]] = {}
        """By step: a rank with its transfer."""
        witness.on_document.append(self._note_document)

    async def do(self, step: plan.Step) -> None:
        """One deed, with its answer or refusal."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._do(step)
        except HwdError as error:
            self._tell(f"to {step.number}: {error.title}: {error}")
        except NodeKilled:
            self._tell(f"to {step.number}: no answer, the daemon died")
        except TimeoutError:
            self._witness.breach("answer-given", f"step {step.number} ({step.act}) has no answer")
        except Exception as error:  # noqa: BLE001 - what a supervisor is for: each is a breach
            self._witness.breach("no-bug", f"step {step.number} ({step.act}) raised {error!r}")

    async def _do(self, step: plan.Step) -> None:
        match step.act:
            case plan.Claim():
                await self._claim(step.number, step.act)
                return
            case plan.EndTransfer(of=of, dies=dies):
                await self._end_transfer(step.number, of, dies=dies)
                return
        service = self._service()
        if service is None:
            self._tell(f"to {step.number}: the daemon is down")
            return
        match step.act:
            case plan.Apply():
                await self._apply(service, step.number, step.act)
            case plan.Confirm(of=of):
                await self._confirm(service, step.number, id_of(of))
            case plan.RollBack(of=of):
                await self._bounded(step, service.light.roll_back(id_of(of)))
            case plan.GiveUp(of=of):
                await self._call(step.number, service.light.give_up(id_of(of), ActBody(by="somebody")))
            case plan.Restore():
                await self._restore(service, step.number, step.act)
            case plan.TakeLease():
                await self._take_lease(service, step.number, step.act)
            case plan.ReleaseLease(of=of) if of in self._leases:
                self._witness.leases.ends(self._leases[of])
                await self._call(step.number, service.leases.release(self._leases[of], EpochBody()))
            case plan.KickLease(of=of) if of in self._leases:
                self._witness.leases.ends(self._leases[of])
                await self._call(step.number, service.leases.kick(self._leases[of], KickBody(by="somebody")))
            case plan.RenewLease(of=of, for_s=for_s) if of in self._leases:
                await self._call(step.number, service.leases.renew(self._leases[of], RenewBody(for_s=for_s)))
            case plan.HearLease(of=of) if of in self._leases:
                await self._call(step.number, service.leases.heartbeat(self._leases[of], EpochBody()))
            case plan.PrepareSet(lease=of) if of in self._leases:
                await self._prepare(service, step.number, step.act, self._leases[of])
            case plan.SwitchSet(of=of, target=target) if of in self._sets:
                await self._switch(service, step.number, self._sets[of], target)
            case plan.ReleaseSet(of=of) if of in self._sets:
                self._witness.sets.promises[self._sets[of]].released = True
                await self._call(step.number, service.sets.release(self._sets[of], ReleaseSetBody()))
            case plan.RunPlaybook():
                text = playbook_text(step.act)
                run = await self._call(
                    step.number, service.runs.start(RunBody(text=text, file="playbook.yaml", parameters={}))
                )
                self._runs[step.number] = run.run
            case plan.AbortRun(of=of) if of in self._runs:
                await self._bounded(step, service.runs.abort(self._runs[of], ActBody(by="somebody")))
            case plan.RunJob(collectives=collectives, seconds=seconds):
                body = JobBody(name=JOB, words=[str(collectives), str(seconds)])
                self.jobs[step.number] = (await self._call(step.number, service.jobs.start(body, None))).id
            case plan.StopJob(of=of) if of in self.jobs:
                await self._call(step.number, _stop(service, self.jobs[of]))
            case plan.KillPlane(of=of) if of in self.jobs:
                self._world.planes.kill(self.jobs[of])
            case plan.Select():
                await self._select(step.number, step.act)
            case plan.TakeBackSwitch(switch=switch):
                taken = await self._call(step.number, service.leases.kick(switch, KickBody(by="somebody")))
                if taken.told is True:
                    self._witness.taken_back.add(switch)
            case plan.GrantSwitch(switch=switch):
                self._witness.taken_back.discard(switch)
                await self._call(step.number, service.leases.grant(switch, ByBody(by="somebody")))

    async def _apply(self, service: Service, number: int, act: plan.Apply) -> None:
        asked = {name: getattr(act, name) for name in act.__struct_fields__ if name in PlanBody.__struct_fields__}
        asked["lease"] = None if act.lease is None else self._leases.get(act.lease)
        await self._drive(service, number, ReconfigurationBody(**asked, id=id_of(number)))

    async def _restore(self, service: Service, number: int, act: plan.Restore) -> None:
        body = ReconfigurationBody(
            restore=[*act.ports],
            lease=None if act.lease is None else self._leases.get(act.lease),
            confirm_within_s=act.confirm_within_s,
            id=id_of(number),
        )
        await self._drive(service, number, body)

    async def _drive(self, service: Service, number: int, body: ReconfigurationBody) -> None:
        id = id_of(number)
        self._witness.lease_of[id] = body.lease
        if body.confirm_within_s is not None:
            self._within_s[id] = body.confirm_within_s
        status = await self._call(number, service.light.apply(body))
        if status.outcome is not None and status.outcome != "failed":
            self._witness.end(id, status.outcome, "who asked for it")

    async def _take_lease(self, service: Service, number: int, act: plan.TakeLease) -> None:
        at_ns = None if act.in_s is None else self._world.clock.wall_ns() + round(act.in_s * 1e9)
        lease = await self._call(
            number,
            service.leases.take(
                LeaseBody(
                    holder=f"holder {number}",
                    ports=[*act.ports],
                    for_s=act.for_s,
                    queue=act.queue,
                    priority=act.priority,
                    at_wall_ns=at_ns,
                    heartbeat_s=act.heartbeat_s,
                )
            ),
        )
        self._leases[number] = lease.lease

    async def _prepare(self, service: Service, number: int, act: plan.PrepareSet, lease: str) -> None:
        targets = {f"t{place}": TargetBody(what=what) for place, what in enumerate(act.wanted)}
        body = PrepareBody(
            targets=targets, lease=lease, after_crash=act.rule, for_s=act.for_s, ready_within_s=act.ready_within_s
        )
        made = await self._call(number, service.sets.prepare(body))
        self._sets[number] = made.id
        until_ns = None if act.for_s is None else self._world.clock.wall_ns() + round(act.for_s * 1e9)
        self._witness.sets.promises[made.id] = SetPromise(lease=lease, expires_wall_ns=until_ns)

    async def _switch(self, service: Service, number: int, prepared_set: str, target: str) -> None:
        id = id_of(number)
        self._witness.lease_of[id] = self._witness.sets.promises[prepared_set].lease
        status = await self._call(number, service.sets.switch(prepared_set, SwitchBody(target=target, id=id)))
        if status.outcome is not None and status.outcome != "failed":
            self._witness.end(id, status.outcome, "who asked for it")

    async def _confirm(self, service: Service, number: int, id: str) -> None:
        self._asked_s.setdefault(id, self._witness.now_s)
        asked_s = self._witness.now_s
        status = await self._call(number, service.light.confirm(id))
        by_s = self._confirm_by_s.get(id)
        if status.outcome == "confirmed" and by_s is not None and min(asked_s, self._asked_s[id]) > by_s + 0.001:
            self._witness.breach(
                "confirm-in-time", f"{id} was confirmed at {asked_s:.3f} s, its time ended {by_s:.3f} s"
            )

    async def _claim(self, number: int, act: plan.Claim) -> None:
        asked_s = self._witness.now_s
        try:
            rank = await Rank.connect(self._world, act.host)
        except OSError as error:
            self._tell(f"to {number}: its agent is down: {reason_of(error)}")
            return
        answer = await rank.claim(act.port, within_s=act.within_s, wait_s=act.wait_s, phase=f"step {number}")
        self._tell(f"to {number}: {answer['outcome']} {answer['why']}")
        if answer["outcome"] == "go":
            id = answer["transfer"]
            self._ranks[number] = rank, id
            self._witness.transfers.in_flight[number] = InFlight(
                name=f"{act.host}/{id}",
                port=f"{act.host}.{act.port}",
                until_s=asked_s + act.within_s,
                is_over=lambda: id in rank.over or rank.gone.is_set(),
            )

    async def _end_transfer(self, number: int, of: int, *, dies: bool) -> None:
        self._witness.transfers.in_flight.pop(of, None)
        if of not in self._ranks:
            return
        rank, id = self._ranks.pop(of)
        if dies:
            rank.leave()
            return
        answer = await rank.end(id)
        self._tell(f"to {number}: {answer['outcome']} {answer['why']}")

    async def _select(self, number: int, act: plan.Select) -> None:
        try:
            _, job = await self._world.net.connect(Job, select_address(act.host))
        except OSError as error:
            self._tell(f"to {number}: its agent is down: {reason_of(error)}")
            return
        self._witness.job_began(act.host)
        self._latest_select[act.host] = number
        wanted = dict.fromkeys(self._rack.owned[act.host], f"in-{act.output}")
        answer = await job.ask({"set": wanted, "within_s": act.within_s})
        self._tell(f"to {number}: {answer.get('outcome')} {answer.get('why', '')}")
        if answer.get("outcome") not in ("up", "not-up") or self._latest_select[act.host] != number:
            return  # a later job of its host may have set them again before the answer came
        for switch, one in answer["switches"].items():
            there = list(self._world.rack.switches[switch].mirror.crossconnects())
            if one["now"] != there:
                self._witness.breach(
                    "success-read-back", f"{switch} carries {there}, and job {number} was told {one['now']}"
                )

    async def _bounded(self, step: plan.Step, call: Coroutine[Any, Any, object]) -> None:
        began_s = self._witness.now_s
        try:
            await self._call(step.number, call)
        finally:
            took_s = self._witness.now_s - began_s
            drain_s = self._rack.testbed.transfers.drain_s if self._ranks else 0.0
            if took_s > ABORT_BOUND_S + drain_s + SLACK_S:
                self._witness.breach("abort-bounded", f"step {step.number} ({step.act}) took {took_s:.3f} s")

    async def _call(self, number: int, call: Coroutine[Any, Any, T]) -> T:
        answer = await self._world.nodes.run_in_node(DAEMON, call)
        self._tell(f"to {number}: {answer}")
        return answer

    def _service(self) -> Service | None:
        daemon = self._world.daemon
        return None if daemon is None or not self._world.nodes.alive(DAEMON) else daemon.service

    def _note_document(self, document: Document) -> None:
        match document.fact:
            case ReconfigurationState(reconfiguration=id, state=State.AWAITING_CONFIRM) if id in self._within_s:
                self._confirm_by_s.setdefault(id, self._witness.now_s + self._within_s[id])
            case ReconfigurationState(reconfiguration=id, state=State.ROLLING_BACK) if id in self._confirm_by_s:
                late_s = self._witness.now_s - max(self._confirm_by_s[id], self._witness.up_s)
                if late_s > BACK_WITHIN_S and id not in self._asked_s:
                    self._witness.breach("confirm-in-time", f"{id} begins to go back {late_s:.3f} s after its time")
            case ReconfigurationEnded(reconfiguration=id, outcome="confirmed") if id in self._within_s:
                if id not in self._asked_s:
                    self._witness.breach("confirm-in-time", f"{id} was confirmed, and nobody had asked for that")


class Job(asyncio.Protocol):
    """A training job: asks the agent of its host over a socket, and waits."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._buffer = b""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if b"\n" in self._buffer and not self._answer.done():
            self._answer.set_result(json.loads(self._buffer.partition(b"\n")[0]))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_result({"outcome": "no answer", "why": "its agent died"})

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._transport is not None
        self._transport.write(json.dumps(request).encode() + b"\n")
        try:
            return await self._answer
        finally:
            self._transport.abort()


async def _stop(service: Service, job: str) -> JobStatus:
    return service.jobs.stop(job, ActBody(by="somebody"), None)


def id_of(number: int) -> str:
    """The reconfiguration of this step."""
    return f"step{number:04d}"


def playbook_text(act: plan.RunPlaybook) -> str:
    lines = ["playbook: simulated", "shows: what a seed draws", "steps:", "  - lease: {ports: all, for_s: 60}"]
    if act.mtu is not None:
        lines.append(f"  - host: {{ports: all, set: {{mtu: {act.mtu}}}}}")
    steps = ", steps: true" if act.steps else ""
    lines += [f'  - apply: {{pairs: "{wanted}"{steps}}}' for wanted in act.wanted]
    return "\n".join(lines) + "\n"
