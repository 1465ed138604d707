"""Which documents of single reconfigurations the records have."""

from collections.abc import Awaitable, Callable

from hwd.model.documents.daemon import DaemonStopped
from hwd.model.documents.reconfigurations import ReconfigurationEnded
from hwd.records import Records
from hwd_drivers.core.documents import Document, Fact

Restart = Callable[..., Awaitable[Records]]


def ended(id: str, outcome: str, what: str = "ring") -> ReconfigurationEnded:
    return ReconfigurationEnded(reconfiguration=id, run=None, what=what, outcome=outcome, why="", seconds=0.1)


def at(wall_ns: int, fact: Fact) -> Document:
    return Document(at_ns=0, wall_ns=wall_ns, fact=fact)


async def test_documents_of_one_reconfiguration_are_found_by_its_id_and_kind(restart: Restart) -> None:
    records = await restart()
    facts = [
        ended("r1", "failed"),
        ended("r_", "confirmed"),
        ended("R1", "confirmed"),
        ended("r2", "confirmed", what='"reconfiguration":"r1"'),
        ended("r1", "rolled-back"),
    ]
    await records.add_documents([at(1, fact) for fact in facts])
    assert await records.reconfigurations.of("r1", ReconfigurationEnded.KIND) == (facts[4], facts[0])
    assert await records.reconfigurations.of("r_", ReconfigurationEnded.KIND) == (facts[1],)
    assert await records.reconfigurations.of("r1", "reconfiguration.started") == ()
    assert await records.reconfigurations.of("r%", ReconfigurationEnded.KIND) == ()


async def test_age_of_the_oldest_document_of_no_run_is_known(restart: Restart) -> None:
    records = await restart()
    assert await records.reconfigurations.unowned_since_wall_ns() is None
    await records.add_documents([at(3, DaemonStopped(reason="of a run"))], run="run1")
    assert await records.reconfigurations.unowned_since_wall_ns() is None
    await records.add_documents([at(7, DaemonStopped(reason="first")), at(9, DaemonStopped(reason="second"))])
    assert await records.reconfigurations.unowned_since_wall_ns() == 7
