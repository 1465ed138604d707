"""FactReader: reads recorded facts, also those of other versions of hwd."""

import logging

from hwd.model.kinds import UnreadFact, read_fact
from hwd_drivers.core.documents import Fact

log = logging.getLogger(__name__)


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
