"""Parts of all checks: a session at rest, changes between arrangements, and readings compared with the wanted state."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol, TypeVar

from hwd_drivers.conformance.arrangements import Arrangement
from hwd_drivers.conformance.bench import Bench
from hwd_drivers.core.errors import BugError, DeviceError, FailedError, LinkError, ProtocolError
from hwd_drivers.core.values import Crossconnect, CrossconnectState, Exchange
from hwd_drivers.devices.abilities import CrossConnects, Device
from hwd_drivers.twins.registry import Twin

ErrorT = TypeVar("ErrorT", bound=Exception)

GLASS: Final = "faults cannot be caused on glass"
EXCHANGE_S: Final = 2.0
"""Limit for one exchange of the checks."""


class ConformanceError(FailedError):
    """The finding of a check that failed."""

    title = "not conforming"


class Check(Protocol):
    """Returns None where the driver passed, or the reason why the check does not apply.

    Raises ConformanceError with the finding.
    """

    @property
    def __name__(self) -> str: ...

    def __call__(self, bench: Bench, /) -> Awaitable[str | None]: ...


@asynccontextmanager
async def at_rest(bench: Bench) -> AsyncIterator[Device]:
    """A session on a switch whose ends are at rest, before and after; faults are cleared at the end."""
    device = await bench.open()
    try:
        await arrange(device, await read_arrangement(device, bench, failed=True), bench.arrangements.rest)
        yield device
    finally:
        if bench.twin is not None:
            bench.twin.faults.clear()
        await device.close()
        last = await bench.open()
        try:
            await arrange(last, await read_arrangement(last, bench, failed=True), bench.arrangements.rest)
        finally:
            await last.close()


async def read_arrangement(device: Device, bench: Bench, *, failed: bool = False) -> Arrangement:
    """The crossconnects at the bench's ends as the driver reads them; other ends are ignored.

    Failed crossconnects are included where `failed`: they are not made, but occupy their ends.
    """
    readings = await switch_of(device).read_crossconnects(deadline_s=soon())
    pairs = [reading.crossconnect for reading in readings]
    expect(len(set(pairs)) == len(pairs), f"a crossconnect was read twice: {texts(pairs)}")
    made = [each.crossconnect for each in readings if failed or each.state is not CrossconnectState.FAILED]
    return at_ends(made, bench)


def truth(bench: Bench) -> Arrangement:
    """The true state of the twin's mirrors at these ends."""
    return at_ends(twin_of(bench).mirror.crossconnects(), bench)


def at_ends(pairs: list[Crossconnect], bench: Bench) -> Arrangement:
    return frozenset(pair for pair in pairs if not bench.arrangements.ends.isdisjoint(pair.ends))


async def expect_exactly(device: Device, bench: Bench, wanted: Arrangement) -> None:
    read = await read_arrangement(device, bench)
    expect(read == wanted, f"read {texts(read)}; wanted {texts(wanted)}")


async def arrange(device: Device, before: Arrangement, after: Arrangement) -> Exchange | None:
    """Change one arrangement to another; None where they are equal."""
    return None if before == after else await change(device, before, after)


async def change(
    device: Device,
    before: Arrangement,
    after: Arrangement,
    *,
    deadline_s: float | None = None,
    on_commanded: Callable[[int], None] | None = None,
) -> Exchange:
    """Change one arrangement to another, which differs from it."""
    return await switch_of(device).change_crossconnects(
        remove=ordered(before - after),
        add=ordered(after - before),
        deadline_s=soon() if deadline_s is None else deadline_s,
        on_commanded=on_commanded,
    )


async def expect_error(work: Awaitable[object], *kinds: type[ErrorT], otherwise: str) -> ErrorT:
    """The error of one of these kinds that the driver raised. `otherwise`: the finding where it raised none."""
    try:
        await work
    except kinds as error:
        return error
    raise ConformanceError(f"conformance: {otherwise}")


async def error_of(work: Awaitable[object]) -> DeviceError | FailedError | LinkError | ProtocolError | None:
    """The permitted error that the driver raised, None for none."""
    try:
        await work
    except ConformanceError:
        raise
    except (DeviceError, FailedError, LinkError, ProtocolError) as error:
        return error
    return None


@asynccontextmanager
async def reopen(bench: Bench, device: Device) -> AsyncIterator[Device]:
    """A new session; `device` is closed."""
    await device.close()
    fresh = await bench.open()
    try:
        yield fresh
    finally:
        await fresh.close()


def ordered(pairs: Arrangement) -> tuple[Crossconnect, ...]:
    return tuple(sorted(pairs, key=Crossconnect.sort_key))


def switch_of(device: Device) -> CrossConnects:
    if not isinstance(device, CrossConnects):
        raise ConformanceError(f"conformance: {device!r} has no crossconnects")
    return device


def twin_of(bench: Bench) -> Twin:
    """Raises BugError on glass, where `why_not` names the checks that cannot be done."""
    if bench.twin is None:
        raise BugError("conformance: this check needs a twin")
    return bench.twin


def soon() -> float:
    return asyncio.get_running_loop().time() + EXCHANGE_S


def expect(right: bool, finding: str) -> None:
    if not right:
        raise ConformanceError(f"conformance: {finding}")


def texts(pairs: Arrangement | list[Crossconnect]) -> str:
    return ", ".join(map(str, sorted(pairs, key=Crossconnect.sort_key))) or "none"
