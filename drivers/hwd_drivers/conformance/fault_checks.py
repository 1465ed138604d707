"""Checks of device faults: slow, cut, half, wrong and partial answers, stuck mirrors, reboots and foreign changes."""

import asyncio

from hwd_drivers.conformance.bench import Bench
from hwd_drivers.conformance.exchanges import read_later
from hwd_drivers.conformance.session import (
    EXCHANGE_S,
    ConformanceError,
    arrange,
    at_rest,
    error_of,
    expect,
    expect_error,
    expect_exactly,
    read_arrangement,
    reopen,
    soon,
    texts,
    truth,
    twin_of,
)
from hwd_drivers.core.errors import DeadlineError, LinkError, ProtocolError
from hwd_drivers.devices.abilities import Device

REBOOT_S = 1.0
OPENING_S = 20.0
"""Longest time in which a driver may notice that the device does not answer."""
LATE_S = 0.2
"""A device that takes one crossconnect a command and waits for each answer needs ten of them for one change."""


async def check_slow_device(bench: Bench) -> None:
    """Late answers are read correctly."""
    rest, one = bench.arrangements.rest, bench.arrangements.one
    async with at_rest(bench) as device:
        twin_of(bench).faults.slow_s = LATE_S
        exchange = await arrange(device, rest, one)
        assert exchange is not None
        await expect_exactly(device, bench, one)
        if not bench.blind:
            took_s = (exchange.acknowledged_ns - exchange.commanded_ns) / 1e9
            expect(took_s >= 0.98 * LATE_S, f"done after {took_s:.3f} s, the answer came after {LATE_S} s")


async def check_silence_at_opening(bench: Bench) -> str | None:
    """A device that accepts the connection and stays silent is an error within the limit for opening."""
    twin_of(bench).faults.silent = True
    try:
        async with asyncio.timeout(OPENING_S):
            device = await bench.open()
    except LinkError:
        return None
    except TimeoutError:
        raise ConformanceError(f"conformance: still opening after {OPENING_S:g} s") from None
    finally:
        twin_of(bench).faults.clear()
    await device.close()
    return "it asks nothing of the device when it opens"


async def check_refused_session(bench: Bench) -> None:
    """Sessions that the device ends at once raise LinkError, at opening or at the first exchange; a later one opens."""
    twin_of(bench).faults.refusing = True
    try:
        device = await bench.open()
    except (LinkError, ProtocolError):
        device = None
    if device is not None:
        error = await error_of(device.identify(deadline_s=soon()))
        expect(error is None or isinstance(error, LinkError), f"a session that the device ended gave {error!r}")
        cause = await asyncio.wait_for(device.lost(), EXCHANGE_S)
        expect(isinstance(cause, LinkError), f"lost for {cause!r}")
        await device.close()
    twin_of(bench).faults.clear()
    async with at_rest(bench) as later:
        await expect_exactly(later, bench, bench.arrangements.rest)


async def check_reset_fails_every_waiter(bench: Bench) -> None:
    """When the connection is lost all exchanges fail at once, and `lost` returns the cause."""
    async with at_rest(bench) as device:
        twin_of(bench).faults.silent = True
        waiters = [asyncio.create_task(read_later(device), name=f"hwd:bench/waiter-{n}") for n in range(3)]
        await asyncio.sleep(0.1)
        twin_of(bench).faults.reset()
        for waiter in waiters:
            await asyncio.wait((waiter,))
            error = waiter.exception()
            right = isinstance(error, LinkError) and not isinstance(error, DeadlineError)
            expect(right, f"a waiter got {error!r}, not the loss of the connection")
        cause = await asyncio.wait_for(device.lost(), EXCHANGE_S)
        expect(isinstance(cause, LinkError), f"lost for {cause!r}")


async def check_half_an_answer(bench: Bench) -> None:
    """Half an answer is never read as a complete one, also when the next answer follows."""
    full = bench.arrangements.full
    async with at_rest(bench) as device:
        await arrange(device, bench.arrangements.rest, full)
        twin_of(bench).faults.half_next = True
        errors = [await error_of(_read_as_it_is(device, bench)) for _ in range(2)]
        expect(not twin_of(bench).faults.half_next, "its twin ignored half_next")
        expect(errors[0] is not None, "half an answer was read as a complete one")


async def check_wrong_answer(bench: Bench) -> None:
    """A well-formed answer to another command is an error, or right by chance.

    The next session reads the true state.
    """
    async with at_rest(bench) as device:
        await arrange(device, bench.arrangements.rest, bench.arrangements.full)
        twin_of(bench).faults.wrong_next = True
        await error_of(_read_as_it_is(device, bench))
        expect(not twin_of(bench).faults.wrong_next, "its twin ignored wrong_next")
        twin_of(bench).faults.clear()
        async with reopen(bench, device) as fresh:
            await expect_exactly(fresh, bench, bench.arrangements.full)


async def check_partial_batch(bench: Bench) -> None:
    """A partial change is never read back as complete, whatever the device answered."""
    for done in (1, 0):  # with one crossconnect a command a device does all of it or nothing
        async with at_rest(bench) as device:
            twin_of(bench).faults.partial_next = done
            error = await error_of(arrange(device, bench.arrangements.rest, bench.arrangements.full))
            expect(twin_of(bench).faults.partial_next is None, "its twin ignored partial_next")
            twin_of(bench).faults.clear()
            await error_of(_read_as_it_is(device, bench))
            async with reopen(bench, device) as fresh:
                read = await read_arrangement(fresh, bench)
                expect(read == truth(bench), f"read {texts(read)}, there is {texts(truth(bench))}")
                if error is not None or read != bench.arrangements.full:
                    return
    raise ConformanceError("conformance: the missing part of the change was not noticed")


async def check_stuck_mirror_is_seen_by_reading_back(bench: Bench) -> None:
    """A change that was acknowledged and not done does not appear in the next reading."""
    arrangements = bench.arrangements
    async with at_rest(bench) as device:
        twin_of(bench).faults.stick(arrangements.stuck)
        error = await error_of(arrange(device, arrangements.rest, arrangements.full))
        await error_of(_read_as_it_is(device, bench))
        async with reopen(bench, device) as fresh:
            read = await read_arrangement(fresh, bench)
            expect(read == truth(bench), f"read {texts(read)}, there is {texts(truth(bench))}")
            expect(error is not None or read == arrangements.stuck_full, f"read {texts(read)}, which was acknowledged")
            expect(read != arrangements.full, "the stuck mirror was not noticed")


async def check_change_behind_our_back(bench: Bench) -> None:
    """The next reading shows a change at the front panel: new crossconnects are read, removed ones are not.

    New ones may be read as failed: a switch can have them in its optics and not in its configuration, so that they must
    be made again to last.
    """
    one, other = bench.arrangements.one, bench.arrangements.other
    async with at_rest(bench) as device:
        await arrange(device, bench.arrangements.rest, one)
        await expect_exactly(device, bench, one)
        twin_of(bench).faults.panel(one - other, other - one)
        made, with_failed = await read_arrangement(device, bench), await read_arrangement(device, bench, failed=True)
        expect(
            made <= other <= with_failed,
            f"read {texts(made)} as made, {texts(with_failed - made)} as failed; wanted {texts(other)}",
        )


async def check_reboot(bench: Bench) -> None:
    """A reboot ends the session; during it no session opens; afterwards the true state is read."""
    async with at_rest(bench) as device:
        await arrange(device, bench.arrangements.rest, bench.arrangements.one)
        twin_of(bench).faults.reboot(REBOOT_S)
        cause = await asyncio.wait_for(device.lost(), EXCHANGE_S)
        expect(isinstance(cause, LinkError), f"lost for {cause!r}")
        early = bench.open()
        await expect_error(
            early, LinkError, ProtocolError, otherwise="a session was opened on a device that was starting"
        )
        await asyncio.sleep(REBOOT_S + bench.grace_s)
        async with reopen(bench, device) as fresh:
            if bench.blind:
                return
            read = await read_arrangement(fresh, bench)
            expect(read == truth(bench), f"read {texts(read)}, there is {texts(truth(bench))}")


async def _read_as_it_is(device: Device, bench: Bench) -> None:
    """A reading must show the true state; errors are raised as usual."""
    await expect_exactly(device, bench, truth(bench))
