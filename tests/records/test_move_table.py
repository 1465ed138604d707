"""Moves are counted with the documents that tell of them, and outlast these."""

from collections.abc import Awaitable, Callable

from hwd.records.entry import entry
from hwd.records.records import Records
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchCommand

Restart = Callable[..., Awaitable[Records]]


def command(*moved: str, switch: str = "ocs1") -> Document:
    fact = SwitchCommand(switch=switch, verb="connect", outcome="done", seconds=0.1, code="", text="", moved=[*moved])
    return Document(at_ns=1, wall_ns=1, fact=fact)


async def test_moves_add_up_over_documents_batches_and_restarts(restart: Restart) -> None:
    records = await restart()
    await records.add([entry(one, run=None) for one in (command("1A", "2B"), command("1A"), command("1A", switch="x"))])
    await records.add([entry(command("2B", "3A"), run=None)])
    again = await restart()
    assert await again.moves.all() == {("ocs1", "1A"): 2, ("ocs1", "2B"): 2, ("ocs1", "3A"): 1, ("x", "1A"): 1}


async def test_moves_stay_when_their_documents_are_pruned(restart: Restart) -> None:
    records = await restart(unowned_kept=5)
    for _ in range(50):
        await records.add([entry(command("1A"), run=None)])
    assert len(await records.documents()) < 10
    assert await records.moves.all() == {("ocs1", "1A"): 50}
