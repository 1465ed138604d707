"""Documents as the records store them, also those of other versions of hwd."""

import logging
from typing import NamedTuple

from hwd.model.desired_state import wanted_by
from hwd.model.host import ClockAligned, HostEvent
from hwd.model.kinds import UnreadFact, read_fact
from hwd.model.reconfiguration import EndFact, ReconfigurationEnded, WantedSwitch
from hwd.model.switch import SwitchAdopted
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.structs import to_json
from hwd_drivers.devices.facts import SwitchCommand

log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """A document to be recorded, its fact already encoded. `boot`: host and boot of the agent that it came from; `seq`:
    of its event. `moved`: switches and elements that it says have moved. `end`: its fact, where that tells an end.
    `wanted`: what it says is desired from here on, and by whom.

    A tuple, made in a third of the time of a frozen dataclass: there is one for every document.
    """

    run: str | None
    kind: str
    at_ns: int
    wall_ns: int
    data: str
    boot: tuple[str, str] | None = None
    seq: int = 0
    moved: tuple[tuple[str, str], ...] = ()
    end: EndFact | None = None
    wanted: tuple[tuple[WantedSwitch, str], ...] = ()

    def document(self) -> Document:
        return Document(at_ns=self.at_ns, wall_ns=self.wall_ns, fact=read_fact(self.kind, self.data))


def entry(document: Document, *, run: str | None) -> Entry:
    """Raises TypeError for a fact that is no JSON. Numbers that JSON lacks (infinite, not a number) become null."""
    fact = document.fact
    return Entry(
        run=run,
        kind=fact.document_kind,
        at_ns=document.at_ns,
        wall_ns=document.wall_ns,
        data=to_json(fact.fields if isinstance(fact, UnreadFact) else fact).decode(),
        boot=(fact.host, fact.boot) if isinstance(fact, HostEvent | ClockAligned) else None,
        seq=fact.seq if isinstance(fact, HostEvent) else 0,
        moved=tuple((fact.switch, one) for one in fact.moved or ()) if isinstance(fact, SwitchCommand) else (),
        end=fact if isinstance(fact, EndFact) else None,
        wanted=wanted_by(fact) if isinstance(fact, ReconfigurationEnded | SwitchAdopted) else (),
    )


class FactReader:
    """Reads the facts of one database, and logs once for each kind that it has facts of another version."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._logged: set[str] = set()

    def __call__(self, kind: str, data: str) -> Fact:
        """An UnreadFact where another version wrote it. Raises ProtocolError where it is no JSON object."""
        fact = read_fact(kind, data)
        if isinstance(fact, UnreadFact) and kind not in self._logged:
            self._logged.add(kind)
            why = fact.why or "no such kind here"
            log.warning("records %s: %s: written by another version of hwd, left unread: %s", self._name, kind, why)
        return fact
