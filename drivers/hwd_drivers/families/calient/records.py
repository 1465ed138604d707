"""Records of a Calient unit: the steps of a change, and waiting until connections carry light.

A unit refuses ports in use, so old connections are deleted before new ones are entered. A 2WAY connection is two of our
crossconnects, which come and go together.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hwd_drivers.core.errors import DeadlineError, DeviceError, RefusedError
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState
from hwd_drivers.families.calient.record import Record

ALIVE: Final = frozenset({CrossconnectState.TUNED, CrossconnectState.TUNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A change in the unit's terms, in this order."""

    delete: tuple[Record, ...]
    enter: tuple[Crossconnect, ...]


def readings(records: Sequence[Record]) -> tuple[CrossconnectReading, ...]:
    """Readings in the order of their ports."""
    found = [
        CrossconnectReading(crossconnect=pair, state=record.state)
        for record in records
        for pair in record.crossconnects
    ]
    return tuple(sorted(found, key=lambda reading: reading.crossconnect.sort_key()))


def crossconnects(records: Sequence[Record]) -> tuple[Crossconnect, ...]:
    return tuple(reading.crossconnect for reading in readings(records))


def plan(records: Sequence[Record], *, remove: Sequence[Crossconnect], add: Sequence[Crossconnect], name: str) -> Steps:
    """Plan a change. Existing wanted connections stay; dark or failed ones are made again.

    Raises RefusedError for one half of a 2WAY connection: the other half would go dark with it.
    """
    going, wanted = set(remove), set(add)
    delete, kept = [], set[Crossconnect]()
    for record in records:
        halves = set(record.crossconnects)
        is_replaced = not halves.isdisjoint(wanted) and record.state not in ALIVE
        if halves.isdisjoint(going) and not is_replaced:
            kept |= halves
            continue
        if left := sorted(halves - going - wanted, key=Crossconnect.sort_key):
            both = ", ".join(record.crossconnects)
            raise RefusedError(
                f"{name}: {left[0]} would go dark: it is one half of the 2WAY connection {record.name}. "
                f"Change both, {both}, at once"
            )
        delete.append(record)
    return Steps(delete=tuple(delete), enter=tuple(pair for pair in add if pair not in kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How a driver waits for light: it reads every `poll_s`, and takes OC=FAIL as final after `fail_after_s`."""

    poll_s: float
    fail_after_s: float


async def in_service(
    read: Callable[[], Awaitable[tuple[Sequence[Record], int]]],
    wanted: Sequence[Crossconnect],
    *,
    name: str,
    command: str,
    patience: Patience,
    deadline_s: float,
    activate: Callable[[Sequence[Record]], Awaitable[None]] | None = None,
) -> int:
    """Read until all of `wanted` carry light; returns when the reading that shows it was received, in ns.

    `activate` is called once with the connections that the first reading shows as entered only. Raises DeviceError
    where the unit reports that one failed, or drops it; DeadlineError where one is not in service in time.
    """
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    bad_since_s: float | None = None
    while True:
        records, received_ns = await read()
        found = {pair: record for record in records for pair in record.crossconnects}
        dark = [pair for pair in wanted if pair not in found or found[pair].state is not CrossconnectState.TUNED]
        if not dark:
            return received_ns
        if activate is not None:
            goal, todo, activate = set(wanted), activate, None
            if entered := [each for each in records if not each.active and not goal.isdisjoint(each.crossconnects)]:
                await todo(entered)
                continue
        now_s = loop.time()
        bad = [pair for pair in dark if pair not in found or found[pair].broken]
        bad_since_s = None if not bad else now_s if bad_since_s is None else bad_since_s
        texts = ", ".join(f"{pair} {found[pair].words if pair in found else 'gone'}" for pair in bad or dark)
        if bad_since_s is not None and now_s - bad_since_s >= patience.fail_after_s:
            raise DeviceError(
                f"{name}: {command}: the device accepted it and did not do it: {texts}. Check its alarms and the light",
                device=name,
                command=command,
                code="OC=FAIL" if bad[0] in found else "gone",
                text=texts,
            )
        if now_s + patience.poll_s >= deadline_s:
            raise DeadlineError(f"{name}: {command}: not in service within {deadline_s - started_s:.3g} s: {texts}")
        await asyncio.sleep(patience.poll_s)
