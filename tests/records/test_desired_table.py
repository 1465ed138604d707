"""The desired state is written with the documents that change it, and outlasts these."""

from collections.abc import Awaitable, Callable

from hwd.model.documents.reconfigurations import ReconfigurationEnded, WantedSwitch
from hwd.model.documents.switches import SwitchAdopted
from hwd.records.entry import entry
from hwd.records.records import Records
from hwd_drivers.core.documents import Document, Fact

Restart = Callable[..., Awaitable[Records]]


def confirmed(id: str, crossconnects: str, free: str = "", *, switch: str = "ocs1") -> Fact:
    wanted = [WantedSwitch(switch=switch, crossconnects=crossconnects.split(), free=free.split())]
    return ReconfigurationEnded(reconfiguration=id, run=None, outcome="confirmed", why="", seconds=1.0, wanted=wanted)


async def add(records: Records, *facts: Fact) -> None:
    await records.add([entry(Document(at_ns=1, wall_ns=1, fact=fact), run=None) for fact in facts])


async def desired(records: Records) -> dict[str, dict[str, str]]:
    return {
        switch: {str(end): f"{one.crossconnect or 'free'} {one.by}" for end, one in ends.items()}
        for switch, ends in (await records.desired.all()).items()
    }


async def test_last_document_of_an_end_counts_over_batches_and_restarts(restart: Restart) -> None:
    records = await restart()
    await add(records, confirmed("a", "1A-2B"), confirmed("b", "1A-4B", "5A"), confirmed("c", "1A-1B", switch="x"))
    again = await restart()
    await add(again, SwitchAdopted(switch="ocs1", crossconnects=["5A-6B"], free=[], by="found at the switch"))
    assert await desired(again) == {
        "ocs1": {
            "1A": "1A-4B b",
            "4B": "1A-4B b",
            "2B": "free b",
            "5A": "5A-6B found at the switch",
            "6B": "5A-6B found at the switch",
        },
        "x": {"1A": "1A-1B c", "1B": "1A-1B c"},
    }


async def test_desired_state_stays_when_its_documents_are_pruned(restart: Restart) -> None:
    records = await restart(unowned_kept=5)
    await add(records, confirmed("a", "1A-2B"))
    for _ in range(50):
        await add(records, ReconfigurationEnded(reconfiguration="b", run=None, outcome="failed", why="", seconds=1.0))
    assert len(await records.documents()) < 10
    assert await desired(records) == {"ocs1": {"1A": "1A-2B a", "2B": "1A-2B a"}}
