"""Recovery of a journal with many open entries, until all are rolled back, against the same bytes and syncs alone."""

import contextlib
import itertools
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.child import child
from bench.measure import Bar, Summary, alternate, ratios
from bench.progress import Progress
from bench.switches.driven_rack import DrivenRack
from bench.switches.exchange import BareExchange, Tap, Turn
from hwd.daemon.installed_drivers import load_text
from hwd.model.desired_state import wanted_of
from hwd.reconfigure.journal.entries import OpenEntry
from hwd.reconfigure.journal.journal import Journal
from hwd_drivers.core.disk import FileDisk
from hwd_drivers.core.errors import FailedError
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.switching.drive import change
from hwd_drivers.switching.moves import SwitchMoves

SWITCHES: Final = 8
ENTRIES: Final = (10, 100, 1000)
LIMITED, LIMIT_S = 1000, 1.0
SIZE: Final = "192x192"
NAMES: Final = [f"ocs{number}" for number in range(SWITCHES)]
TESTBED: Final = "testbed: bench\nswitches:\n" + "".join(
    f"  {name}: {{driver: polatis-tl1, model: polatis-6000, size: {SIZE}, twin: {{timing: ideal}}}}\n" for name in NAMES
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """The bytes of a recovery. `turns`: of each entry, with the number of its switch; `end_bytes`: of its end."""

    turns: Sequence[tuple[int, Sequence[Turn]]]
    end_bytes: int


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds = 2 if quick else 10
    bars = []
    for entries in ENTRIES[:2] if quick else ENTRIES:
        progress.say(f"recovery: {entries} open entries, {rounds} turns")
        bars.append(await _measure(folder / str(entries), entries, rounds))
    return bars


async def _measure(folder: Path, entries: int, rounds: int) -> Bar:
    folder.mkdir()
    moves = [_move(number) for number in range(entries)]
    _write(folder / "written", moves)
    async with child("bench.processes.twins", SIZE, str(2 * SWITCHES)) as twins:
        addresses = (await twins.hear()).split()
        mine, bare = addresses[:SWITCHES], addresses[SWITCHES:]
        recorded = await _record(moves, bare, folder)
        async with _connected(mine) as rack, _connected(bare) as floor_rack, contextlib.AsyncExitStack() as stack:
            floor = [await stack.enter_async_context(BareExchange.open(address)) for address in bare]

            async def recover() -> float:
                await _make(rack, moves)
                return await _recover(rack, moves, folder)

            async def replay() -> float:
                await _make(floor_rack, moves)
                return await _replay(floor, recorded, folder / "bare")

            ours_s, floor_s = await alternate(rounds, recover, replay)
    ours, floored, factor = Summary.of(ours_s), Summary.of(floor_s), ratios(ours_s, floor_s)
    return Bar(
        name=f"recovery of a journal with {entries} open entries",
        value=ours.median,
        limit=LIMIT_S if entries == LIMITED else None,
        unit="s",
        spread=(
            f"quartiles {ours.p25:.3f}-{ours.p75:.3f}; {factor.median:.2f} times the floor of {floored.median:.3f} s "
            f"({floored.p25:.3f}-{floored.p75:.3f})"
        ),
        n=ours.n,
        detail={"ours_s": ours.to_data(), "floor_s": floored.to_data(), "ratio": factor.to_data()},
    )


def _move(number: int) -> SwitchMoves:
    """Each entry made one pair on ports of its own, its switch being the next one in turn."""
    port = number // SWITCHES + 1
    pair = Crossconnect.parse(f"{port}A-{port}B")
    return SwitchMoves(switch=NAMES[number % SWITCHES], remove=(), add=(pair,), keep=(), before=())


def _write(path: Path, moves: Sequence[SwitchMoves]) -> None:
    """A journal in which each of the moves is a reconfiguration that has not ended."""
    disk = FileDisk(path)
    journal = Journal(disk, sync=False)
    journal.load()
    for number, move in enumerate(moves):
        id, wanted = f"r{number:07d}", (*wanted_of((move,)),)
        journal.begin(OpenEntry(reconfiguration=id, run=None, what=str(move), hash="", moves=(move,), wanted=wanted))
    disk.close()


def _connected(addresses: Sequence[str]) -> contextlib.AbstractAsyncContextManager[DrivenRack]:
    testbed = load_text(TESTBED, file="testbed.yaml").require()
    return DrivenRack.connected(testbed, dict(zip(NAMES, addresses, strict=True)))


async def _make(rack: DrivenRack, moves: Sequence[SwitchMoves]) -> None:
    """Bring the switches to the state in which all moves are done."""
    for name, switch in rack.supervisors.items():
        add = tuple(one for move in moves if move.switch == name for one in move.add)
        if add:
            await change(switch, SwitchMoves(switch=name, remove=(), add=add, keep=(), before=()))


async def _recover(rack: DrivenRack, moves: Sequence[SwitchMoves], folder: Path) -> float:
    """Seconds in which a fresh copy of the journal is read, and all of it is rolled back."""
    shutil.copy(folder / "written", folder / "journal")
    disk = FileDisk(folder / "journal")
    disk.sync()
    began_s = time.perf_counter()
    journal = Journal(disk)
    journal.load()
    await rack.reconfigurer(journal).recover()
    took_s = time.perf_counter() - began_s
    disk.close()
    if journal.open:
        raise FailedError(f"recovery of the bench: {len(journal.open)} of {len(moves)} entries are left open")
    return took_s


async def _record(moves: Sequence[SwitchMoves], addresses: Sequence[str], folder: Path) -> _Recorded:
    """The bytes of a recovery at these switches."""
    async with contextlib.AsyncExitStack() as stack:
        tapped = [await stack.enter_async_context(Tap.open(address)) for address in addresses]
        rack = await stack.enter_async_context(_connected([address for _, address in tapped]))
        await _make(rack, moves)
        for tap, _ in tapped:
            tap.turns.clear()
        began_bytes = _content_bytes(folder / "written")
        await _recover(rack, moves, folder)
        ended_bytes = _content_bytes(folder / "journal") - began_bytes
        of_switch = [len(moves[number::SWITCHES]) for number in range(SWITCHES)]
        turns = [_turns_by_entry(tap.turns, entries) for (tap, _), entries in zip(tapped, of_switch, strict=True)]
    return _Recorded(
        turns=[(number % SWITCHES, turns[number % SWITCHES][number // SWITCHES]) for number in range(len(moves))],
        end_bytes=ended_bytes // len(moves),
    )


def _turns_by_entry(turns: Sequence[Turn], entries: int) -> list[Sequence[Turn]]:
    """The turns at one switch in as many parts; nearly all entries take as many."""
    cuts = [len(turns) * entry // max(1, entries) for entry in range(entries + 1)]
    return [turns[start:end] for start, end in itertools.pairwise(cuts)]


def _content_bytes(path: Path) -> int:
    return len(path.read_bytes().rstrip(b"\0"))


async def _replay(switches: Sequence[BareExchange], recorded: _Recorded, path: Path) -> float:
    """Seconds in which a bare loop sends the same bytes, entry by entry, and syncs as many bytes after each."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.posix_fallocate(file, 0, recorded.end_bytes * len(recorded.turns))
        os.fsync(file)
        end = bytes(recorded.end_bytes)
        began_s = time.perf_counter()
        for switch, turns in recorded.turns:
            await switches[switch].exchange(turns)
            os.write(file, end)
            os.fdatasync(file)
        return time.perf_counter() - began_s
    finally:
        os.close(file)
