"""Basic checks of every driver: identity, crossconnects, deadlines and refusals."""

import asyncio
import re
from typing import Final

from hwd_drivers.conformance.bench import Bench
from hwd_drivers.conformance.session import (
    EXCHANGE_S,
    arrange,
    at_rest,
    change,
    expect,
    expect_error,
    expect_exactly,
    reopen,
    soon,
    switch_of,
    twin_of,
)
from hwd_drivers.core.errors import DeadlineError, DeviceError, LinkError
from hwd_drivers.devices.abilities import Device

SILENT_S: Final = 0.5
"""How long a silent device is waited for."""


async def check_identity(bench: Bench) -> None:
    """The device reports its identity, the same each time."""
    async with at_rest(bench) as device:
        first = await device.identify(deadline_s=soon())
        expect(all((first.vendor, first.model, first.serial, first.firmware)), f"identity has a gap: {first!r}")
        second = await device.identify(deadline_s=soon())
        expect(first == second, f"identity changed from {first} to {second}")


async def check_capabilities(bench: Bench) -> None:
    """The capabilities have the ends of the model, and every other field refers to those ends."""
    async with at_rest(bench) as device:
        capabilities = await device.capabilities(deadline_s=soon())
        ends = frozenset(capabilities.ends)
        expect(len(ends) == len(capabilities.ends), "an end is twice in its capabilities")
        expect(bench.arrangements.ends <= ends, f"it lacks {sorted(bench.arrangements.ends - ends)}")
        for what in ("monitored", "blockable", "attenuated"):
            expect(ends.issuperset(getattr(capabilities, what)), f"{what}: an end that is not of this switch")
        of_elements = [
            end
            for element in capabilities.elements
            for end in {end for pair in element.crossconnects for end in pair.ends}
        ]
        expect(len(set(of_elements)) == len(of_elements), "elements share an end")
        expect(ends.issuperset(of_elements), "an element has an end that is not of this switch")
        typical_db, max_db = capabilities.loss_db_typical, capabilities.loss_db_max
        expect(
            0 <= typical_db <= max_db,
            f"loss_db_typical={typical_db:g}, loss_db_max={max_db:g}: not 0 <= typical <= max",
        )
        expect(capabilities.elements == bench.capabilities.elements, "it has other elements than its model states")


async def check_connect_and_disconnect(bench: Bench) -> None:
    """Crossconnects are made in one change and removed in one change; the exchange has its times."""
    rest, full = bench.arrangements.rest, bench.arrangements.full
    async with at_rest(bench) as device:
        commanded: list[int] = []
        exchange = await change(device, rest, full, on_commanded=commanded.append)
        expect(commanded == [exchange.commanded_ns], f"commanded {commanded} ns, the exchange says {exchange}")
        expect(exchange.commanded_ns <= exchange.acknowledged_ns, f"answered before it was commanded: {exchange}")
        expect(exchange.commands >= 1, f"made in {exchange.commands} commands")
        await expect_exactly(device, bench, full)
        await arrange(device, full, rest)
        await expect_exactly(device, bench, rest)


async def check_read_by_the_next_session(bench: Bench) -> None:
    """The next session reads what one session made."""
    async with at_rest(bench) as device:
        await arrange(device, bench.arrangements.rest, bench.arrangements.one)
        async with reopen(bench, device) as later:
            await expect_exactly(later, bench, bench.arrangements.one)


async def check_denial(bench: Bench) -> str | None:
    """A refusal is a DeviceError with the device's code and text; nothing was done, and the session continues."""
    if bench.denial is None:
        return "the device has no way to refuse"
    rest = bench.arrangements.rest
    async with at_rest(bench) as device:
        twin_of(bench).faults.deny_next = bench.denial
        denied = change(device, rest, bench.arrangements.one)
        error = await expect_error(denied, DeviceError, otherwise="a denied change was reported as done")
        same = error.code == bench.denial.code and bench.denial.text in error.text
        expect(same, f"the device's own words {bench.denial} are lost: {error!r} {error.code!r} {error.text!r}")
        expect(error.device == device.name and bool(error.command), f"device or command is lost: {error!r}")
        expect(device.name in str(error) and error.code in str(error), f"its text names neither: {error}")
        await expect_exactly(device, bench, rest)
    return None


async def check_deadline(bench: Bench) -> None:
    """A silent device is a DeadlineError at the deadline, not later, that names the limit.

    The limit is the time that was left when the exchange began: at most `SILENT_S`, a little less on a busy machine.
    """
    loop = asyncio.get_running_loop()
    async with at_rest(bench) as device:
        twin_of(bench).faults.silent = True
        started_s = loop.time()
        asked = ask(device, bench, started_s + SILENT_S)
        error = await expect_error(asked, DeadlineError, otherwise="a silent device was read")
        named_s = [float(number) for number in re.findall(r"(\d*\.?\d+) s\b", str(error))]
        expect(
            any(SILENT_S - bench.grace_s <= one_s <= SILENT_S for one_s in named_s), f"the limit is not named: {error}"
        )
        took_s = loop.time() - started_s
        expect(took_s < SILENT_S + bench.grace_s, f"waited {took_s:.3f} s, allowed {SILENT_S} s")


async def ask(device: Device, bench: Bench, deadline_s: float) -> None:
    """Read the crossconnects. One whose state cannot be read is asked for its identity, and changed."""
    if bench.blind:
        await device.identify(deadline_s=deadline_s)
        await change(device, bench.arrangements.rest, bench.arrangements.one, deadline_s=deadline_s)
    else:
        await switch_of(device).read_crossconnects(deadline_s=deadline_s)


async def check_past_deadline_sends_nothing(bench: Bench) -> None:
    """A command whose deadline is over is never sent."""
    rest, one = bench.arrangements.rest, bench.arrangements.one
    async with at_rest(bench) as device:
        late = change(device, rest, one, deadline_s=asyncio.get_running_loop().time() - 1)
        await expect_error(late, DeadlineError, otherwise="a command was sent after its deadline")
        await expect_exactly(device, bench, rest)


async def check_close_is_repeatable(bench: Bench) -> None:
    """Closing twice is no error; afterwards every exchange is a LinkError, and `lost` returns."""
    device = await bench.open()
    await device.close()
    await device.close()
    expect(isinstance(await asyncio.wait_for(device.lost(), EXCHANGE_S), Exception), "lost has no cause")
    await expect_error(device.identify(deadline_s=soon()), LinkError, otherwise="a closed session was answered")
