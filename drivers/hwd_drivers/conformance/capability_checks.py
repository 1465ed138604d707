"""Checks of the stated capabilities against the behaviour of the twin."""

from hwd_drivers.conformance.bench import Bench
from hwd_drivers.conformance.session import (
    arrange,
    at_rest,
    expect,
    ordered,
    read_arrangement,
    soon,
    switch_of,
    texts,
    truth,
)
from hwd_drivers.core.errors import ConfigError, DeviceError, RefusedError
from hwd_drivers.core.values import Crossconnect, PortSide


async def check_moves_in_use(bench: Bench) -> str | None:
    """`moves_in_use`: connecting an end in use removes its old crossconnect; where it is not stated, that is an error.

    In the latter case nothing moves.
    """
    if bench.capabilities.elements:
        return "its elements define which ends are joined"
    one = bench.arrangements.one
    [pair] = one
    taking = frozenset(each for each in bench.arrangements.moved if pair.a in each.ends)
    async with at_rest(bench) as device:
        states = (await device.capabilities(deadline_s=soon())).moves_in_use
        await arrange(device, bench.arrangements.rest, one)
        case = f"moves_in_use={states}; {texts(one)} was there and {texts(taking)} was added"
        try:
            await switch_of(device).change_crossconnects(remove=(), add=ordered(taking), deadline_s=soon())
        except (DeviceError, RefusedError) as error:
            expect(not states, f"{case}, which was refused: {error}")
        there = truth(bench)
        wanted = taking if states else one
        expect(there == wanted, f"{case}: there is {texts(there)}, wanted {texts(wanted)}")
    return None


async def check_atomic_batches(bench: Bench) -> str | None:
    """`atomic_batches`: of a list with an impossible crossconnect nothing is made."""
    rest, full = bench.arrangements.rest, bench.arrangements.full
    bad = _past_the_last(bench)
    async with at_rest(bench) as device:
        if not (await device.capabilities(deadline_s=soon())).atomic_batches:
            return "it states that a list may be done in part"
        wanted = full - rest
        for add in ((*ordered(wanted), bad), (bad, *ordered(wanted))):
            try:
                await switch_of(device).change_crossconnects(remove=ordered(rest - full), add=add, deadline_s=soon())
            except (DeviceError, RefusedError, ConfigError):
                case = f"atomic_batches=True; of {texts(list(add))}, where {bad} is not of this switch,"
                expect(truth(bench) == rest, f"{case} it made {texts(truth(bench) - rest)}")
            else:
                expect(False, f"{bad} is not of this switch, and counted as made")
        if not bench.blind:
            expect(await read_arrangement(device, bench) == rest, "refused crossconnects are read as made")
    return None


def _past_the_last(bench: Bench) -> Crossconnect:
    """A crossconnect with ends beyond the last; a port whose name is not a number stays."""
    one = next(iter(bench.arrangements.full))
    last = max(int(end.port) for end in bench.capabilities.ends if end.port.isdecimal())
    beyond = [
        PortSide(port=str(last + place), side=end.side) if end.port.isdecimal() else end
        for place, end in enumerate(one.ends, 1)
    ]
    return Crossconnect.of(*beyond)
