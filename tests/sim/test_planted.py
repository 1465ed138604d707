"""Planted bugs are found by seeds: each is a daemon with one defect, given to the world by its constructor."""

import asyncio
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import override

from hwd.daemon.daemon import Daemon
from hwd.daemon.seams import RackAccess, Storage
from hwd.model.host import HostEvent
from hwd.model.testbed import Switch
from hwd.ports.claim import Claim
from hwd.ports.lease_record import LeaseRecord
from hwd.ports.ledger import Asker, Refusal
from hwd.ports.rules import PortAction, Reason
from hwd.reconfigure.apply.reconfiguration import Reconfiguration
from hwd.reconfigure.apply.switches import Look
from hwd.records.entry import Entry
from hwd.sim.draw import draw_plan
from hwd.sim.execution import play
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.errors import DeviceError
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, Exchange
from hwd_drivers.devices.abilities import CrossConnects, Device

APPLIES = ("prepare", "switch", "apply", "roll_back")
Make = Callable[..., Daemon]
Planted = tuple[str, str, Make, tuple[int, ...]]
BUGS: list[Planted] = []
"""Each with the rule that it breaks, and the seeds that found it when they were last looked for."""


def bug(rule: str, *seeds: int) -> Callable[[Callable[[Daemon], None]], None]:
    """A defect that is planted in a daemon when it has opened."""

    def note(plant: Callable[[Daemon], None]) -> None:
        class Planted(Daemon):
            @override
            async def open(self) -> None:
                await super().open()
                plant(self)

        BUGS.append((plant.__name__, rule, Planted, seeds))

    return note


def bug_of_parts(rule: str, *seeds: int) -> Callable[[Callable[..., Daemon]], None]:
    """A defect of what a daemon is made of."""
    return lambda make: BUGS.append((make.__name__, rule, make, seeds))


def bug_of_sessions(rule: str, *seeds: int) -> Callable[[type], None]:
    """A defect of the sessions with its switches."""

    def note(session: type) -> None:
        def make(*, rack: RackAccess, **parts: Any) -> Daemon:
            async def open_switch(switch: Switch, sink: Sink) -> Device:
                device = await rack.open_switch(switch, sink)
                assert isinstance(device, CrossConnects)
                opened: Device = session(device)
                return opened

            return Daemon(rack=replace(rack, open_switch=open_switch), **parts)

        BUGS.append((session.__name__, rule, make, seeds))

    return note


def instead_of(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """The function takes the place of a method of the owner, which it is given first."""
    real = getattr(owner, name)
    return lambda planted: setattr(owner, name, functools.partial(planted, real))


@bug_of_parts("intent-durable", 0, 5, 6)
def skipped_sync(*, storage: Storage, **parts: Any) -> Daemon:
    """Its journal is appended, and not synced."""
    return Daemon(storage=replace(storage, journal_sync=False), **parts)


class Session:
    def __init__(self, device: Any) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)


class Credulous(Session):
    """It reports what it was asked for, in place of what the switch has."""

    _asked: dict[Crossconnect, CrossconnectReading] | None = None

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        if self._asked is None:
            readings = await self._device.read_crossconnects(deadline_s=deadline_s)
            self._asked = {one.crossconnect: one for one in readings}
        return tuple(self._asked.values())

    async def change_crossconnects(
        self, *, remove: Sequence[Crossconnect], add: Sequence[Crossconnect], **more: Any
    ) -> Exchange:
        exchange = await self._change(remove=remove, add=add, **more)
        asked = self._asked or {}
        for one in remove:
            asked.pop(one, None)
        self._asked = asked | {one: CrossconnectReading(crossconnect=one, state=CrossconnectState.TUNED) for one in add}
        return exchange

    async def _change(self, **change: Any) -> Exchange:
        exchange: Exchange = await self._device.change_crossconnects(**change)
        return exchange


bug_of_sessions("success-read-back", 8, 61, 146)(Credulous)


@bug_of_sessions("success-read-back", 8, 61, 146)
class DenyIsDone(Credulous):
    """It takes a refusal for a done change, and does not look."""

    @override
    async def _change(self, **change: Any) -> Exchange:
        now_ns = round(asyncio.get_running_loop().time() * 1e9)
        try:
            return await super()._change(**change)
        except DeviceError:
            return Exchange(commanded_ns=now_ns, acknowledged_ns=now_ns, commands=1)


@bug_of_sessions("success-read-back", 8, 61, 146)
class PartIsAll(Credulous):
    """It takes a batch of which the switch did a part for a whole one, and does not look at the rest."""

    @override
    async def _change(self, **change: Any) -> Exchange:
        now_ns = round(asyncio.get_running_loop().time() * 1e9)
        try:
            return await super()._change(**change)
        except DeviceError:
            there = {one.crossconnect for one in await self._device.read_crossconnects(deadline_s=change["deadline_s"])}
            if there.isdisjoint(change["add"]):
                self._asked = None  # it did nothing
                raise
            return Exchange(commanded_ns=now_ns, acknowledged_ns=now_ns, commands=1)


@bug_of_sessions("no-failure-without-cause", 24, 25, 41)
class ConnectThenFree(Session):
    """It makes the new crossconnects first, and frees the old ones after that."""

    async def change_crossconnects(
        self, *, remove: Sequence[Crossconnect], add: Sequence[Crossconnect], deadline_s: float, **more: Any
    ) -> Exchange:
        change = self._device.change_crossconnects
        if not (remove and add):
            made: Exchange = await change(remove=remove, add=add, deadline_s=deadline_s, **more)
            return made
        first: Exchange = await change(remove=(), add=add, deadline_s=deadline_s, **more)
        last: Exchange = await change(remove=remove, add=(), deadline_s=deadline_s)
        return replace(first, acknowledged_ns=last.acknowledged_ns, commands=first.commands + last.commands)


@bug("plan-of-now", 8, 10, 13)
def stale_state(daemon: Daemon) -> None:
    """It plans from what its switches reported some seconds ago."""
    looks: dict[tuple[str, ...], tuple[float, Look]] = {}

    @instead_of(daemon.reconfigurer._switches, "read")
    async def reuse(read: Any, names: Iterable[str]) -> Look:
        key, now_s = tuple(names), asyncio.get_running_loop().time()
        if key not in looks or now_s - looks[key][0] > 5:
            looks[key] = now_s, await read(key)
        return looks[key][1]


@bug("one-writer", 92, 142, 149)
def second_writer(daemon: Daemon) -> None:
    """Who takes a switch back from its host is told that it is so, and the host's agent is not."""

    @instead_of(daemon.service.leases._delegations, "_take_back")
    async def keep(take_back: Any, host: str, switch: str, epoch: int, why: str) -> None:
        pass


@bug("lease-kept", 2, 10, 22)
def dropped_lease_check(daemon: Daemon) -> None:
    """Its ledger asks nobody for a lease."""

    @instead_of(daemon.service.leases._leases.ledger, "check")
    def lax(check: Any, asker: Asker, ports: Iterable[str], action: PortAction, *, now_wall_ns: int) -> None:
        if action is not PortAction.CHANGE:
            check(asker, ports, action, now_wall_ns=now_wall_ns)


@bug("confirm-in-time", 19, 28, 73)
def confirm_of_itself(daemon: Daemon) -> None:
    """Without a confirm in time it confirms."""

    @instead_of(daemon.reconfigurer.completion, "roll_back")
    async def confirm(roll_back: Any, reconfiguration: Reconfiguration, why: str) -> None:
        if why.startswith("not confirmed within"):
            await daemon.reconfigurer.confirm(reconfiguration)
        else:
            await roll_back(reconfiguration, why)


@bug_of_parts("no-event-lost", 0, 2, 3)
def lost_event(*, storage: Storage, **parts: Any) -> Daemon:
    """It does not record one event, and acknowledges it."""

    @instead_of(storage.records, "add")
    async def forget(add: Any, entries: Sequence[Entry]) -> None:
        await add([one for one in entries if (one.kind, one.seq) != (HostEvent.KIND, 3)])

    return Daemon(storage=storage, **parts)


@bug_of_parts("lease-given", 11, 12, 35)
def lost_lease(*, storage: Storage, **parts: Any) -> Daemon:
    """It answers a lease that its records do not have."""

    @instead_of(storage.records.leases, "save")
    async def forget(save: Any, record: LeaseRecord, *, follows: str | None = None) -> None:
        pass

    return Daemon(storage=storage, **parts)


@bug("lease-given", 48, 50, 56)
def ignored_reservation(daemon: Daemon) -> None:
    """It gives leases into the reserved time of others."""

    @instead_of(daemon.service.leases._leases.ledger, "refusals")
    def lax(refusals: Any, *asked: Any, now_wall_ns: int) -> Iterator[Refusal]:
        for one in refusals(*asked, now_wall_ns=now_wall_ns):
            if one.claim is None or one.claim.reason is not Reason.RESERVATION:
                yield one


@bug_of_parts("desired-kept", 0, 30, 50)
def lost_desired(*, storage: Storage, **parts: Any) -> Daemon:
    """It does not record what a confirmed reconfiguration wanted."""

    @instead_of(storage.records, "add")
    async def forget(add: Any, entries: Sequence[Entry]) -> None:
        await add([one._replace(wanted=()) for one in entries])

    return Daemon(storage=storage, **parts)


@bug("confirm-in-time", 4, 6, 9)
def late_back(daemon: Daemon) -> None:
    """What nobody confirmed goes back a minute after its time."""
    wait_with_the_way_back(daemon, "not confirmed within")


@bug("abort-bounded", 6, 8, 19)
def endless_abort(daemon: Daemon) -> None:
    """Its way back waits for a minute."""
    wait_with_the_way_back(daemon, "")


def wait_with_the_way_back(daemon: Daemon, begins: str) -> None:
    """`begins`: how the reasons of the ways back begin that wait."""

    @instead_of(daemon.reconfigurer.completion, "roll_back")
    async def wait(roll_back: Any, reconfiguration: Reconfiguration, why: str) -> None:
        if why.startswith(begins):
            await asyncio.sleep(60)
        await roll_back(reconfiguration, why)


@bug("dark-as-planned", 38, 40, 71)
def steps_at_once(daemon: Daemon) -> None:
    """It drives the switches of all steps at once, whatever the order of its plan."""

    @instead_of(daemon.reconfigurer._drive, "run")
    async def at_once(run: Any, reconfiguration: Reconfiguration) -> None:
        reconfiguration.plan = replace(reconfiguration.plan, order=None)
        await run(reconfiguration)


@bug("recovered", 30, 133, 148)
def no_recovery(daemon: Daemon) -> None:
    """It does not undo what a crash cut off."""
    daemon._tasks["journal/recover"] = asyncio.Event().wait  # type: ignore[assignment]


@bug("transfer-kept", 22, 37, 42)
def forgotten_transfers(daemon: Daemon) -> None:
    """It grants transfers, and its ledger forgets them."""

    @instead_of(daemon.service.leases._leases.ledger, "claim")
    def forget(put: Any, claim: Claim) -> None:
        if claim.reason is not Reason.TRANSFER:
            put(claim)


@bug("transfer-kept", 42, 74, 110)
def transfers_let_on(daemon: Daemon) -> None:
    """It lets transfers onto ports that are being moved."""

    @instead_of(daemon.service.leases._leases.ledger, "may")
    def lax(may: Any, asker: Asker, ports: Iterable[str], action: PortAction, *, now_wall_ns: int) -> Refusal | None:
        return None if action is PortAction.TRANSFER else may(asker, ports, action, now_wall_ns=now_wall_ns)


@bug("transfer-kept", 42, 74, 161)
def silent_cut(daemon: Daemon) -> None:
    """Its ways back cut transfers and tell nobody."""

    @instead_of(daemon.service.rack._transfers, "drain")
    async def keep(drain: Any, ports: frozenset[str], *, by: str, what: str) -> list[str]:
        return []


@bug("job-kept", 5, 12, 26)
def kept_by_jobs(daemon: Daemon) -> None:
    """Its jobs end, and keep their leases."""

    @instead_of(daemon.service.leases._leases, "release")
    async def keep(release: Any, id: str, *, why: str = "", **more: Any) -> Any:
        return None if "job " in why else await release(id, why=why, **more)


@bug("job-kept", 26, 37, 43)
def hasty_jobs(daemon: Daemon) -> None:
    """Its jobs do not wait for their light."""
    jobs = daemon.service.jobs._jobs
    applies = jobs._new_light.keywords["applies"]
    switch, switching = applies.switch, set[asyncio.Task[Any]]()

    async def begin(*given: Any, **more: Any) -> Any:
        switching.add(asyncio.create_task(switch(*given, **more)))

    hasty = SimpleNamespace(**{name: getattr(applies, name) for name in APPLIES} | {"switch": begin})
    jobs._new_light = functools.partial(jobs._new_light, applies=hasty)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("rule", "make", "seeds"), [one[1:] for one in BUGS], ids=[one[0] for one in BUGS])
def test_planted_bug_is_found_by_three_seeds(rule: str, make: Make, seeds: tuple[int, ...]) -> None:
    """Those that found it before are played first: where plans are drawn otherwise now, others may have to."""
    found: list[int] = []
    for seed in dict.fromkeys(itertools.chain(seeds, range(300))):
        if any(violation.rule == rule for violation in play(draw_plan(seed), make_daemon=make).violations):
            found.append(seed)
        if len(found) == 3:
            return
    pytest.fail(f"of the first 300 seeds, only {found} break {rule}")
