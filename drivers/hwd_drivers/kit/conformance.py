"""The conformance suite: public `check_*` coroutines that every driver of a switch passes, on its twin and on glass.

    async with twin_bench(find("polatis-tl1"), model="polatis-6000", size="8x8", way=Way.BYTEWISE, dialer=dialer, clock=clock, draws=Draws(1)) as bench:
        for check in CHECKS:
            await check(bench)

A check that fails raises FailedError and says what it found. Each leaves the switch without the bench's crossconnects, and the faults cleared.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from hwd_drivers.kit.abilities import CrossConnects, Device, PowerReadings
from hwd_drivers.kit.bench import Bench
from hwd_drivers.kit.errors import DeadlineError, DeviceError, FailedError, LinkError, ProtocolError
from hwd_drivers.kit.rough import Way
from hwd_drivers.kit.server import Denial
from hwd_drivers.kit.values import Crossconnect, Exchange

EXCHANGE_S: Final = 2.0
"""Limit for one exchange of the checks."""
ROUNDS: Final = 20
"""Exchanges on a lossy or dying way."""


Check = Callable[[Bench], Awaitable[None]]


async def check_identity(bench: Bench) -> None:
    """It says what it is, and the same each time."""
    async with _session(bench) as device:
        first = await device.identify(deadline_s=_soon())
        _expect(all((first.vendor, first.model, first.serial, first.firmware)), f"identity has a gap: {first!r}")
        second = await device.identify(deadline_s=_soon())
        _expect(first == second, f"identity changed from {first} to {second}")


async def check_capabilities(bench: Bench) -> None:
    """It has the ends of the crossconnects that it is to make."""
    async with _session(bench) as device:
        capabilities = await device.capabilities(deadline_s=_soon())
        for pair in bench.crossconnects:
            _expect(all(end in capabilities.ends for end in pair.ends), f"{pair} is not of this switch")
        _expect(
            all(end in capabilities.ends for end in capabilities.monitored), "a monitor is at no port of this switch"
        )


async def check_connect_and_disconnect(bench: Bench) -> None:
    """All in one change are there, and in one change gone; the exchange has its times, told before the first byte."""
    async with _session(bench) as device:
        commanded: list[int] = []
        exchange = await _switch(device).change_crossconnects(
            remove=(), add=bench.crossconnects, deadline_s=_soon(), on_commanded=commanded.append
        )
        _expect(commanded == [exchange.commanded_ns], f"commanded {commanded} ns, the exchange says {exchange}")
        _expect(exchange.commanded_ns <= exchange.acknowledged_ns, f"answered before it was commanded: {exchange}")
        _expect(exchange.commands >= 1, f"made in {exchange.commands} commands")
        await _expect_exactly(device, bench, bench.crossconnects)
        await _change(device, remove=bench.crossconnects)
        await _expect_exactly(device, bench, ())


async def check_move(bench: Bench) -> None:
    """Two that swap their ends in one change are afterwards only where they are wanted."""
    one, other = bench.crossconnects[:2]
    swapped = (Crossconnect.of(one.a, other.b), Crossconnect.of(other.a, one.b))
    async with _session(bench) as device:
        await _change(device, add=(one, other))
        await _change(device, remove=(one, other), add=swapped)
        await _expect_exactly(device, bench, swapped)
        await _change(device, remove=swapped)


async def check_remove_one_add_another(bench: Bench) -> None:
    """One change that removes and adds what has nothing in common."""
    one, other = bench.crossconnects[:2]
    async with _session(bench) as device:
        await _change(device, add=(one,))
        await _change(device, remove=(one,), add=(other,))
        await _expect_exactly(device, bench, (other,))


async def check_sessions_see_the_same(bench: Bench) -> None:
    """What one session made, the next one reads."""
    async with _session(bench) as device:
        await _change(device, add=bench.crossconnects[:1])
        again = await bench.open()
        try:
            await _expect_exactly(again, bench, bench.crossconnects[:1])
        finally:
            await again.close()


async def check_concurrent_reads(bench: Bench) -> None:
    """Exchanges at the same time each get their own answer."""
    async with _session(bench) as device:
        await _change(device, add=bench.crossconnects)
        reads = [_switch(device).read_crossconnects(deadline_s=_soon()) for _ in range(8)]
        for readings in await asyncio.gather(*reads):
            found = {reading.crossconnect for reading in readings}
            _expect(found.issuperset(bench.crossconnects), f"one of eight reads lacks a crossconnect: {found}")


async def check_cancelled_exchange(bench: Bench) -> None:
    """A read that was given up does not spoil the next exchange, or ends the session; never a wrong answer."""
    async with _session(bench) as device:
        await _change(device, add=bench.crossconnects[:1])
        given_up = asyncio.create_task(_read_later(device), name="hwd:bench/given-up")
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait((given_up,))
        try:
            await _expect_exactly(device, bench, bench.crossconnects[:1])
        except LinkError:
            await device.lost()


async def check_power(bench: Bench) -> None:
    """Monitors read the light that passes, and None where none does."""
    async with _session(bench) as device:
        capabilities = await device.capabilities(deadline_s=_soon())
        if not capabilities.monitored or not isinstance(device, PowerReadings):
            return
        pair = next((each for each in bench.crossconnects if each.b in capabilities.monitored), None)
        if pair is None or bench.twin is None:
            await device.read_power(capabilities.monitored, deadline_s=_soon())
            return
        bench.twin.mirror.set_input(pair.a, 1.0)
        try:
            (dark,) = await device.read_power([pair.b], deadline_s=_soon())
            _expect(dark.end == pair.b and dark.power_dbm is None, f"light without a crossconnect: {dark}")
            await _change(device, add=(pair,))
            await asyncio.sleep(2 * capabilities.settle_s + 0.1)
            (lit,) = await device.read_power([pair.b], deadline_s=_soon())
            wanted_dbm = 1.0 - bench.twin.mirror.loss_db(pair)
            near = lit.power_dbm is not None and abs(lit.power_dbm - wanted_dbm) < 0.2
            _expect(near, f"{lit}, the model has {wanted_dbm:.2f} dBm")
        finally:
            bench.twin.mirror.set_input(pair.a, None)


async def check_denial(bench: Bench) -> None:
    """A no of the device is a DeviceError with its code, nothing was done, and the session goes on."""
    if bench.twin is None:
        return
    async with _session(bench) as device:
        bench.twin.faults.deny_next = Denial(code="SROF", text="told to say no")
        try:
            await _change(device, add=bench.crossconnects[:1])
        except DeviceError as error:
            _expect(
                error.code == "SROF" and "told to say no" in error.text, f"the device's own words are lost: {error!r}"
            )
            _expect(error.device == device.name and bool(error.command), f"device or command is lost: {error!r}")
        else:
            raise FailedError("conformance: a denied change was taken for done")
        await _expect_exactly(device, bench, ())


async def check_deadline(bench: Bench) -> None:
    """A silent device is a DeadlineError at the deadline, not later, that says how long it was."""
    if bench.twin is None:
        return
    async with _session(bench) as device:
        bench.twin.faults.silent = True
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        try:
            await _switch(device).read_crossconnects(deadline_s=started_s + 0.5)
        except DeadlineError as error:
            _expect("0.5 s" in str(error), f"the limit is not named: {error}")
        else:
            raise FailedError("conformance: a silent device was read")
        _expect(loop.time() - started_s < 0.7, f"waited {loop.time() - started_s:.3f} s, allowed 0.5 s")


async def check_past_deadline_sends_nothing(bench: Bench) -> None:
    """A command whose deadline is over never fires."""
    async with _session(bench) as device:
        try:
            await _switch(device).change_crossconnects(
                remove=(), add=bench.crossconnects[:1], deadline_s=asyncio.get_running_loop().time() - 1
            )
        except DeadlineError:
            await _expect_exactly(device, bench, ())
        else:
            raise FailedError("conformance: a command was sent after its deadline")


async def check_reset_fails_every_waiter(bench: Bench) -> None:
    """When the connection dies all exchanges fail with it, at once, and `lost` says why."""
    if bench.twin is None:
        return
    async with _session(bench) as device:
        bench.twin.faults.silent = True
        waiters = [asyncio.create_task(_read_later(device), name=f"hwd:bench/waiter-{n}") for n in range(3)]
        await asyncio.sleep(0.1)
        bench.twin.faults.reset()
        for waiter in waiters:
            await asyncio.wait((waiter,))
            error = waiter.exception()
            right = isinstance(error, LinkError) and not isinstance(error, DeadlineError)
            _expect(right, f"a waiter got {error!r}, not the loss of the connection")
        cause = await asyncio.wait_for(device.lost(), EXCHANGE_S)
        _expect(isinstance(cause, LinkError), f"lost for {cause!r}")


async def check_half_an_answer(bench: Bench) -> None:
    """Half an answer is never taken for a whole one, also when the next one follows it."""
    if bench.twin is None:
        return
    async with _session(bench) as device:
        await _change(device, add=bench.crossconnects)
        bench.twin.faults.half_next = True
        for _ in range(2):
            try:
                await _expect_exactly(device, bench, bench.crossconnects)
            except (LinkError, ProtocolError):
                continue


async def check_garbage(bench: Bench) -> None:
    """Garbage ends the exchange with an error and the session with it."""
    if bench.twin is None:
        return
    async with _session(bench) as device:
        bench.twin.faults.garble_next = True
        try:
            await _switch(device).read_crossconnects(deadline_s=_soon())
        except (LinkError, ProtocolError):
            await device.close()
        else:
            raise FailedError("conformance: garbage was read")


async def check_stuck_mirror_is_seen_by_reading_back(bench: Bench) -> None:
    """A change that is answered and not done does not show in the next reading."""
    if bench.twin is None:
        return
    async with _session(bench) as device:
        bench.twin.faults.stick([bench.crossconnects[0].a])
        await _change(device, add=bench.crossconnects[:2])
        await _expect_exactly(device, bench, bench.crossconnects[1:2])


async def check_close_is_repeatable(bench: Bench) -> None:
    """Closing twice is no error; afterwards every exchange is a LinkError, and `lost` returns."""
    device = await bench.open()
    await device.close()
    await device.close()
    _expect(isinstance(await asyncio.wait_for(device.lost(), EXCHANGE_S), Exception), "lost has no cause")
    try:
        await device.identify(deadline_s=_soon())
    except LinkError:
        return
    raise FailedError("conformance: a closed session was answered")


async def check_trouble_is_an_error_never_a_wrong_answer(bench: Bench) -> None:
    """On a lossy or dying way each exchange is right or raises; sessions are opened again until all rounds are through."""
    wanted: frozenset[Crossconnect] | None = None  # None: a change was lost, either state may be
    states = (frozenset(bench.crossconnects[:1]), frozenset(bench.crossconnects[1:2]))
    device: Device | None = None
    for turn in range(ROUNDS):
        try:
            if device is None:
                device = await bench.open()
            found = await _found(device, bench)
            _expect(wanted is None or found == wanted, f"read {sorted(map(str, found))}, wanted {wanted}")
            target = states[turn % 2]
            wanted = None
            await _change(device, remove=tuple(found - target), add=tuple(target - found))
            wanted = target
        except (LinkError, ProtocolError):
            if device is not None:
                await device.close()
            device = None
    if device is not None:
        await device.close()


CHECKS: Final[tuple[Check, ...]] = (
    check_identity,
    check_capabilities,
    check_connect_and_disconnect,
    check_move,
    check_remove_one_add_another,
    check_sessions_see_the_same,
    check_concurrent_reads,
    check_cancelled_exchange,
    check_power,
    check_denial,
    check_deadline,
    check_past_deadline_sends_nothing,
    check_reset_fails_every_waiter,
    check_half_an_answer,
    check_garbage,
    check_stuck_mirror_is_seen_by_reading_back,
    check_close_is_repeatable,
)
"""For ways that lose nothing: whole, bytewise, slow."""

ROUGH_CHECKS: Final[tuple[Check, ...]] = (check_trouble_is_an_error_never_a_wrong_answer,)
"""For all ways; the only ones for lossy and dying."""


def checks_for(way: Way) -> tuple[Check, ...]:
    return ROUGH_CHECKS if way in (Way.LOSSY, Way.DYING) else CHECKS + ROUGH_CHECKS


@asynccontextmanager
async def _session(bench: Bench) -> AsyncIterator[Device]:
    """A session on a switch without the bench's crossconnects; they are gone again at the end."""
    device = await bench.open()
    try:
        await _remove_all(device, bench)
        yield device
    finally:
        if bench.twin is not None:
            bench.twin.faults.clear()
        await device.close()
        last = await bench.open()
        try:
            await _remove_all(last, bench)
        finally:
            await last.close()


async def _remove_all(device: Device, bench: Bench) -> None:
    if found := await _found(device, bench):
        await _change(device, remove=sorted(found, key=Crossconnect.sort_key))


async def _found(device: Device, bench: Bench) -> frozenset[Crossconnect]:
    """Crossconnects at the bench's ends; others of the switch are not the suite's business."""
    ends = {end for pair in bench.crossconnects for end in pair.ends}
    readings = await _switch(device).read_crossconnects(deadline_s=_soon())
    return frozenset(each.crossconnect for each in readings if not ends.isdisjoint(each.crossconnect.ends))


async def _expect_exactly(device: Device, bench: Bench, wanted: Sequence[Crossconnect]) -> None:
    found = await _found(device, bench)
    texts = ", ".join(sorted(map(str, found))) or "none"
    _expect(found == frozenset(wanted), f"read {texts}; wanted {', '.join(sorted(map(str, wanted))) or 'none'}")


async def _change(
    device: Device, *, remove: Sequence[Crossconnect] = (), add: Sequence[Crossconnect] = ()
) -> Exchange | None:
    if not remove and not add:
        return None
    return await _switch(device).change_crossconnects(remove=remove, add=add, deadline_s=_soon())


async def _read_later(device: Device) -> None:
    await _switch(device).read_crossconnects(deadline_s=_soon())


def _switch(device: Device) -> CrossConnects:
    if not isinstance(device, CrossConnects):
        raise FailedError(f"conformance: {device!r} has no crossconnects")
    return device


def _soon() -> float:
    return asyncio.get_running_loop().time() + EXCHANGE_S


def _expect(right: bool, finding: str) -> None:
    if not right:
        raise FailedError(f"conformance: {finding}")
