"""Checks of changes, of simultaneous and cancelled exchanges, of garbage, and of connections that lose bytes."""

import asyncio
from typing import Final

from hwd_drivers.conformance.arrangements import Arrangement
from hwd_drivers.conformance.basics import ask
from hwd_drivers.conformance.bench import Bench
from hwd_drivers.conformance.session import (
    GLASS,
    arrange,
    at_rest,
    change,
    expect,
    expect_error,
    expect_exactly,
    read_arrangement,
    reopen,
    soon,
    switch_of,
    texts,
    truth,
    twin_of,
)
from hwd_drivers.core.errors import LinkError, ProtocolError, RefusedError
from hwd_drivers.devices.abilities import Device
from hwd_drivers.transports.rough import Way

SETTLED_S: Final = 0.5
"""After this time all sent bytes were received."""
ROUNDS: Final = 20
"""Least number of exchanges on a lossy or dying connection; more until some succeeded and some failed."""
ROUNDS_MAX: Final = 200
ENOUGH: Final = 5
"""Least number of exchanges that succeeded, and on an impaired connection of those that failed."""


async def check_move(bench: Bench) -> None:
    """One change can exchange the ends of crossconnects; the others stay."""
    full, moved = bench.arrangements.full, bench.arrangements.moved
    async with at_rest(bench) as device:
        await arrange(device, bench.arrangements.rest, full)
        await arrange(device, full, moved)
        await expect_exactly(device, bench, moved)
        await arrange(device, moved, full)
        await expect_exactly(device, bench, full)


async def check_remove_one_add_another(bench: Bench) -> None:
    """One change removes one crossconnect and adds another that shares no end with it."""
    async with at_rest(bench) as device:
        await arrange(device, bench.arrangements.rest, bench.arrangements.one)
        await arrange(device, bench.arrangements.one, bench.arrangements.other)
        await expect_exactly(device, bench, bench.arrangements.other)


async def check_impossible_state_is_refused(bench: Bench) -> str | None:
    """A change that leaves an element in none of its states is a RefusedError, and nothing moves."""
    rest, impossible = bench.arrangements.rest, bench.arrangements.impossible
    if impossible is None:
        return "every choice of crossconnects is a state"
    async with at_rest(bench) as device:
        kept = frozenset(pair for pair in rest if pair in impossible)
        missing = frozenset(_of_first_element(bench, rest)) - kept
        error = await expect_error(
            change(device, missing, frozenset()),
            RefusedError,
            otherwise=f"{texts(missing)} was taken away, which leaves no state of its element",
        )
        expect(device.name in str(error), f"the refusal does not name the switch: {error}")
        await expect_exactly(device, bench, rest)
    return None


async def check_concurrent_reads(bench: Bench) -> None:
    """Simultaneous exchanges each get their own answer."""
    full = bench.arrangements.full
    async with at_rest(bench) as device:
        await arrange(device, bench.arrangements.rest, full)
        reads = [switch_of(device).read_crossconnects(deadline_s=soon()) for _ in range(8)]
        identities = [device.identify(deadline_s=soon()) for _ in range(2)]
        *all_readings, first, second = await asyncio.gather(*reads, *identities)
        expect(first == second, f"two identities at once differ: {first} and {second}")
        for readings in all_readings:
            assert isinstance(readings, tuple)
            pairs = frozenset(reading.crossconnect for reading in readings)
            expect(pairs >= full, f"one of eight reads lacks a crossconnect: {texts(pairs)}")


async def check_cancelled_exchange(bench: Bench) -> None:
    """A cancelled read does not spoil the next exchange, or ends the session; it never causes a wrong answer."""
    one = bench.arrangements.one
    async with at_rest(bench) as device:
        await arrange(device, bench.arrangements.rest, one)
        for turns in range(4):
            given_up = asyncio.create_task(read_later(device), name="hwd:bench/given-up")
            for _ in range(turns):
                await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.wait((given_up,))
            try:
                await expect_exactly(device, bench, one)
            except LinkError:
                await device.lost()
                return


async def check_cancelled_change(bench: Bench) -> None:
    """A cancelled change was done or not; the next reading shows which, in this session or the next."""
    rest, full = bench.arrangements.rest, bench.arrangements.full
    for turns in range(6):
        async with at_rest(bench) as device:
            given_up = asyncio.create_task(arrange(device, rest, full), name="hwd:bench/given-up")
            for _ in range(turns):
                await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.wait((given_up,))
            await asyncio.sleep(SETTLED_S)
            try:
                read = await read_arrangement(device, bench)
            except LinkError:
                async with reopen(bench, device) as fresh:
                    read = await read_arrangement(fresh, bench)
            expect(read == truth(bench), f"read {texts(read)}, there is {texts(truth(bench))}")


async def check_garbage(bench: Bench) -> None:
    """Garbage ends the exchange with an error, and the session; the next session reads the true state."""
    one = bench.arrangements.one
    async with at_rest(bench) as device:
        await arrange(device, bench.arrangements.rest, one)
        twin_of(bench).faults.garble_next = True
        asked = ask(device, bench, soon())
        await expect_error(asked, LinkError, ProtocolError, otherwise="garbage was read")
        expect(not twin_of(bench).faults.garble_next, "its twin ignored garble_next")
        twin_of(bench).faults.clear()
        if not bench.blind:
            async with reopen(bench, device) as fresh:
                await expect_exactly(fresh, bench, one)


async def check_trouble_is_an_error_never_a_wrong_answer(bench: Bench) -> None:
    """Each exchange is right or raises an error.

    Sessions are reopened until some exchanges succeeded and, on an impaired connection, some failed.
    """
    states = (bench.arrangements.one, bench.arrangements.other)
    rough = bench.way in (Way.LOSSY, Way.DYING)
    wanted: Arrangement | None = None  # None: a change was lost, either state may be
    device: Device | None = None
    right = wrong = turn = 0
    try:
        while turn < ROUNDS or (turn < ROUNDS_MAX and (right < ENOUGH or (rough and wrong < ENOUGH))):
            turn += 1
            try:
                if device is None:
                    device = await bench.open()
                read = await read_arrangement(device, bench)
                expect(wanted is None or read == wanted, f"read {texts(read)}, wanted {texts(wanted or frozenset())}")
                target, wanted = states[turn % 2], None
                await arrange(device, read, target)
                wanted = target
                right += 1
            except (LinkError, ProtocolError):
                wrong += 1
                if device is not None:
                    await device.close()
                device = None
    finally:
        if device is not None:
            await device.close()
    expect(right >= ENOUGH, f"{right} of {turn} exchanges came through")
    expect(rough or wrong == 0, f"{wrong} of {turn} exchanges failed on a connection that loses nothing")
    expect(not rough or wrong >= ENOUGH, f"{wrong} of {turn} exchanges failed on a {bench.way} connection")


async def check_reports_before(bench: Bench) -> str | None:
    """A change reports the state just before it, including changes by other clients since our last read."""
    capabilities, arrangements = bench.capabilities, bench.arrangements
    if not capabilities.reports_before:
        return "it cannot report the state before a change"
    if bench.twin is None:
        return GLASS
    async with at_rest(bench) as device:
        await arrange(device, arrangements.rest, arrangements.one)
        twin_of(bench).faults.panel(arrangements.one - arrangements.other, arrangements.other - arrangements.one)
        exchange = await change(device, arrangements.other, arrangements.full)
        before = frozenset(exchange.before or ())
        expect(exchange.before is not None, "it reported no state before the change")
        expect(arrangements.other <= before, f"it had {texts(arrangements.other)} and reported {texts(before)}")
        gone = arrangements.one - arrangements.other
        expect(before.isdisjoint(gone), f"it reported {texts(gone)}, which another client had removed")
    return None


async def read_later(device: Device) -> None:
    await switch_of(device).read_crossconnects(deadline_s=soon())


def _of_first_element(bench: Bench, state: Arrangement) -> Arrangement:
    """The part of `state` on the element that can be asked for an impossible state."""
    stuck = frozenset(bench.arrangements.stuck)
    return frozenset(pair for pair in state if not stuck.isdisjoint(pair.ends))
