"""Planted bugs are found by seeds: each is a daemon with one defect, given to the world by its constructor."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import override

from hwd.daemon.daemon import Daemon
from hwd.daemon.seams import RackAccess, Storage
from hwd.model.documents.hosts import HostEvent
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

SEEDS = range(1000)
APPLIES = ("prepare", "switch", "apply", "roll_back")


class SkippedSync(Daemon):
    """Its journal is appended, and not synced."""

    def __init__(self, *, storage: Storage, **parts: Any) -> None:
        super().__init__(storage=replace(storage, journal_sync=False), **parts)


class Credulous:
    """A session that reports what it was asked for, in place of what the switch has."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._asked: dict[Crossconnect, CrossconnectReading] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        if self._asked is None:
            readings = await self._device.read_crossconnects(deadline_s=deadline_s)
            self._asked = {one.crossconnect: one for one in readings}
        return tuple(self._asked.values())

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        exchange: Exchange = await self._change(
            remove=remove, add=add, deadline_s=deadline_s, on_commanded=on_commanded
        )
        asked = self._asked or {}
        for one in remove:
            asked.pop(one, None)
        self._asked = asked | {one: CrossconnectReading(crossconnect=one, state=CrossconnectState.TUNED) for one in add}
        return exchange

    async def _change(self, **change: Any) -> Exchange:
        exchange: Exchange = await self._device.change_crossconnects(**change)
        return exchange


class DenyIsDone(Credulous):
    """It takes a refusal for a done change, and does not look."""

    @override
    async def _change(self, **change: Any) -> Exchange:
        now_ns = round(asyncio.get_running_loop().time() * 1e9)
        try:
            return await super()._change(**change)
        except DeviceError:
            return Exchange(commanded_ns=now_ns, acknowledged_ns=now_ns, commands=1)


class ForgottenReadBack(Daemon):
    """Its switches are not read back."""

    SESSION: Callable[[Device], Any] = Credulous

    def __init__(self, *, rack: RackAccess, **parts: Any) -> None:
        async def open_switch(switch: Switch, sink: Sink) -> Device:
            device = await rack.open_switch(switch, sink)
            assert isinstance(device, CrossConnects)
            session: Any = self.SESSION(device)
            opened: Device = session
            return opened

        super().__init__(rack=replace(rack, open_switch=open_switch), **parts)


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


class IgnoredPart(ForgottenReadBack):
    """It ignores that a batch was done in part."""

    SESSION = PartIsAll


class ConnectThenFree:
    """A session that makes the new crossconnects first, and frees the old ones after that."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        change = self._device.change_crossconnects
        if not (remove and add):
            made: Exchange = await change(remove=remove, add=add, deadline_s=deadline_s, on_commanded=on_commanded)
            return made
        first: Exchange = await change(remove=(), add=add, deadline_s=deadline_s, on_commanded=on_commanded)
        last: Exchange = await change(remove=remove, add=(), deadline_s=deadline_s)
        return replace(first, acknowledged_ns=last.acknowledged_ns, commands=first.commands + last.commands)


class SwappedOrder(ForgottenReadBack):
    """It connects before it frees."""

    SESSION = ConnectThenFree


class StaleState(Daemon):
    """It plans from what its switches reported some seconds ago."""

    @override
    async def open(self) -> None:
        await super().open()
        switches = self.reconfigurer._switches
        read = switches.read
        looks: dict[tuple[str, ...], tuple[float, Look]] = {}

        async def reuse(names: Iterable[str]) -> Look:
            key, now_s = tuple(names), asyncio.get_running_loop().time()
            if key not in looks or now_s - looks[key][0] > 5:
                looks[key] = now_s, await read(key)
            return looks[key][1]

        switches.read = reuse  # type: ignore[method-assign]


class SecondWriter(Daemon):
    """Who takes a switch back from its host is told that it is so, and the host's agent is not."""

    @override
    async def open(self) -> None:
        await super().open()

        async def keep(host: str, switch: str, epoch: int, why: str) -> None:
            pass

        self.service._delegations._take_back = keep  # type: ignore[method-assign]


class DeniedIsDone(ForgottenReadBack):
    """It treats DENY as done."""

    SESSION = DenyIsDone


class DroppedLeaseCheck(Daemon):
    """Its ledger asks nobody for a lease."""

    @override
    async def open(self) -> None:
        await super().open()
        ledger = self.service._leases.ledger
        check = ledger.check

        def lax(asker: Asker, ports: Iterable[str], action: PortAction, *, now_wall_ns: int) -> None:
            if action is not PortAction.CHANGE:
                check(asker, ports, action, now_wall_ns=now_wall_ns)

        ledger.check = lax  # type: ignore[method-assign]


class ConfirmOfItself(Daemon):
    """Without a confirm in time it confirms."""

    @override
    async def open(self) -> None:
        await super().open()
        reconfigurer = self.reconfigurer
        roll_back = reconfigurer._completion.roll_back

        async def confirm(reconfiguration: Reconfiguration, why: str) -> None:
            if why.startswith("not confirmed within"):
                await reconfigurer.confirm(reconfiguration)
            else:
                await roll_back(reconfiguration, why)

        reconfigurer._completion.roll_back = confirm  # type: ignore[method-assign]


class LostEvent(Daemon):
    """It does not record one event, and acknowledges it."""

    def __init__(self, *, storage: Storage, **parts: Any) -> None:
        records = storage.records
        add = records.add

        async def forget(entries: Sequence[Entry]) -> None:
            await add([one for one in entries if (one.kind, one.seq) != (HostEvent.KIND, 3)])

        records.add = forget  # type: ignore[method-assign]
        super().__init__(storage=storage, **parts)


class LostLease(Daemon):
    """It answers a lease that its records do not have."""

    def __init__(self, *, storage: Storage, **parts: Any) -> None:
        async def forget(record: LeaseRecord, *, follows: str | None = None) -> None:
            pass

        storage.records.leases.save = forget  # type: ignore[method-assign]
        super().__init__(storage=storage, **parts)


class IgnoredReservation(Daemon):
    """It gives leases into the reserved time of others."""

    @override
    async def open(self) -> None:
        await super().open()
        ledger = self.service._leases.ledger
        refusals = ledger.refusals

        def lax(asker: Asker, ports: Iterable[str], action: PortAction, *, now_wall_ns: int) -> Iterator[Refusal]:
            for one in refusals(asker, ports, action, now_wall_ns=now_wall_ns):
                if one.claim is None or one.claim.reason is not Reason.RESERVATION:
                    yield one

        ledger.refusals = lax  # type: ignore[method-assign]


class LostDesired(Daemon):
    """It does not record what a confirmed reconfiguration wanted."""

    def __init__(self, *, storage: Storage, **parts: Any) -> None:
        records = storage.records
        add = records.add

        async def forget(entries: Sequence[Entry]) -> None:
            await add([one._replace(wanted=()) for one in entries])

        records.add = forget  # type: ignore[method-assign]
        super().__init__(storage=storage, **parts)


class EndlessAbort(Daemon):
    """Its way back waits for a minute."""

    WHY = ""
    """How the reasons of the ways back begin that wait."""

    @override
    async def open(self) -> None:
        await super().open()
        completion = self.reconfigurer._completion
        roll_back = completion.roll_back

        async def wait(reconfiguration: Reconfiguration, why: str) -> None:
            if why.startswith(self.WHY):
                await asyncio.sleep(60)
            await roll_back(reconfiguration, why)

        completion.roll_back = wait  # type: ignore[method-assign]


class LateBack(EndlessAbort):
    """What nobody confirmed goes back a minute after its time."""

    WHY = "not confirmed within"


class StepsAtOnce(Daemon):
    """It drives the switches of all steps at once, whatever the order of its plan."""

    @override
    async def open(self) -> None:
        await super().open()
        drive = self.reconfigurer._drive
        run = drive.run

        async def at_once(reconfiguration: Reconfiguration) -> None:
            reconfiguration.plan = replace(reconfiguration.plan, order=None)
            await run(reconfiguration)

        drive.run = at_once  # type: ignore[method-assign]


class NoRecovery(Daemon):
    """It does not undo what a crash cut off."""

    @override
    async def open(self) -> None:
        await super().open()
        self._tasks["journal/recover"] = asyncio.Event().wait  # type: ignore[assignment]


class ForgottenTransfers(Daemon):
    """It grants transfers, and its ledger forgets them."""

    @override
    async def open(self) -> None:
        await super().open()
        ledger = self.service._leases.ledger
        put = ledger.claim

        def forget(claim: Claim) -> None:
            if claim.reason is not Reason.TRANSFER:
                put(claim)

        ledger.claim = forget  # type: ignore[method-assign]


class TransfersLetOn(Daemon):
    """It lets transfers onto ports that are being moved."""

    @override
    async def open(self) -> None:
        await super().open()
        ledger = self.service._leases.ledger
        may = ledger.may

        def lax(asker: Asker, ports: Iterable[str], action: PortAction, *, now_wall_ns: int) -> Refusal | None:
            return None if action is PortAction.TRANSFER else may(asker, ports, action, now_wall_ns=now_wall_ns)

        ledger.may = lax  # type: ignore[method-assign]


class SilentCut(Daemon):
    """Its ways back cut transfers and tell nobody."""

    @override
    async def open(self) -> None:
        await super().open()

        async def drain(ports: frozenset[str], *, by: str, what: str) -> list[str]:
            return []

        self.service._transfers.drain = drain  # type: ignore[method-assign]


class KeptByJobs(Daemon):
    """Its jobs end, and keep their leases."""

    @override
    async def open(self) -> None:
        await super().open()
        leases = self.service._leases
        release = leases.release

        async def keep(id: str, *, why: str = "", **more: Any) -> Any:
            return None if "job " in why else await release(id, why=why, **more)

        leases.release = keep  # type: ignore[method-assign]


class HastyJobs(Daemon):
    """Its jobs do not wait for their light."""

    @override
    async def open(self) -> None:
        await super().open()
        jobs = self.service._jobs
        switch, switching = jobs._applies.switch, set[asyncio.Task[Any]]()

        async def begin(*given: Any, **more: Any) -> Any:
            switching.add(asyncio.create_task(switch(*given, **more)))

        jobs._applies = SimpleNamespace(**{name: getattr(jobs._applies, name) for name in APPLIES} | {"switch": begin})


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("planted", "rule"),
    [
        (SkippedSync, "intent-durable"),
        (ForgottenReadBack, "success-read-back"),
        (DeniedIsDone, "success-read-back"),
        (DroppedLeaseCheck, "lease-kept"),
        (ConfirmOfItself, "confirm-in-time"),
        (LostEvent, "no-event-lost"),
        (LostLease, "lease-given"),
        (IgnoredReservation, "lease-given"),
        (LostDesired, "desired-kept"),
        (LateBack, "confirm-in-time"),
        (EndlessAbort, "abort-bounded"),
        (NoRecovery, "recovered"),
        (IgnoredPart, "success-read-back"),
        (SwappedOrder, "no-failure-without-cause"),
        (StaleState, "plan-of-now"),
        (SecondWriter, "one-writer"),
        (StepsAtOnce, "dark-as-planned"),
        (ForgottenTransfers, "transfer-kept"),
        (TransfersLetOn, "transfer-kept"),
        (SilentCut, "transfer-kept"),
        (KeptByJobs, "job-kept"),
        (HastyJobs, "job-kept"),
    ],
)
def test_planted_bug_is_found_by_three_seeds(planted: type[Daemon], rule: str) -> None:
    found: list[int] = []
    for seed in SEEDS:
        if any(violation.rule == rule for violation in play(draw_plan(seed), make_daemon=planted).violations):
            found.append(seed)
        if len(found) == 3:
            return
    pytest.fail(f"{planted.__name__}: of the seeds {SEEDS}, only {found} break {rule}")
