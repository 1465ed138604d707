"""read_back: reads a switch after its moves and compares. The same difference has the same words everywhere."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from hwd_drivers.core.errors import FailedError
from hwd_drivers.core.values import Crossconnect, CrossconnectState
from hwd_drivers.switching.drive import SwitchDriver
from hwd_drivers.switching.moves import SwitchMoves

TUNED_WITHIN_S: Final = 10.0
"""For reported crossconnects to leave `tuning`."""
REREAD_S: Final = 0.02
"""Between two reads of a switch that is tuning."""


async def read_back(
    driver: SwitchDriver,
    moves: SwitchMoves,
    *,
    alone: bool = False,
    allowed: Collection[CrossconnectState] = (),
    may_fail: Collection[Crossconnect] = (),
    until_s: float | None = None,
    on_read: Callable[[Collection[Crossconnect]], None] | None = None,
    on_settled: Callable[[Collection[Crossconnect]], None] | None = None,
) -> Mapping[Crossconnect, CrossconnectState]:
    """Read a switch until nothing wanted is tuning, compare, and return what it reports. Wanted: `add` and `keep`.

    `alone`: nothing else may be there. `allowed`: states that are no failure: `tuning` at `until_s` of the loop's clock
    (by default `TUNED_WITHIN_S` from now), `blocked` for a new one. `may_fail`: those that may be reported as failed.
    `on_read` gets what each reading has, `on_settled` what the last one has before it is compared: a switch that is
    tuning may still report what it is about to lose. Raises FailedError naming every difference.
    """
    loop = asyncio.get_running_loop()
    if until_s is None:
        until_s = loop.time() + TUNED_WITHIN_S
    wanted = frozenset(moves.add).union(moves.keep)
    while True:
        states = {reading.crossconnect: reading.state for reading in await driver.read()}
        if on_read is not None:
            on_read(states.keys())
        tuning = [one for one in wanted if states.get(one) is CrossconnectState.TUNING]
        if not tuning or loop.time() >= until_s:
            break
        await asyncio.sleep(REREAD_S)
    if on_settled is not None:
        on_settled(states.keys())
    to_remove = states.keys() if alone else states.keys() & moves.remove
    failed = [one for one in wanted if states.get(one) is CrossconnectState.FAILED and one not in may_fail]
    findings: list[tuple[Iterable[Crossconnect], str]] = [
        (wanted - states.keys(), "is not there"),
        (to_remove - wanted, "is still there"),  # a failed one is made again
        (() if CrossconnectState.TUNING in allowed else tuning, f"is still tuning after {TUNED_WITHIN_S:.0f} s"),
        (failed, "is reported as failed"),
    ]
    differences = [f"{one} {how}" for some, how in findings for one in sorted(some, key=Crossconnect.sort_key)]
    if CrossconnectState.BLOCKED not in allowed:
        differences += [
            f"{one} is set, and held dark by a shutter or an override (`hwd unblock {moves.switch}:{one.a},{one.b}`)"
            for one in moves.add
            if states.get(one) is CrossconnectState.BLOCKED
        ]
    if differences:
        raise FailedError(
            f"{moves.switch}: it answered, but does not report what was asked for: {'; '.join(differences)}"
        )
    return states
