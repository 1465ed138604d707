"""The daemon's sink: hands each document to the sinks that take its kind."""

import logging
from collections.abc import Sequence

from hwd.model import kinds
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.errors import BugError

log = logging.getLogger(__name__)


class Fanout:
    """Sinks in order, each with the kinds of documents that it takes.

    An exception of a sink is a bug: it is logged with its trace, and the other sinks still get the document. Most
    documents are events of hosts, thousands a second, and few sinks take them: the sinks of a kind are looked up once.
    """

    def __init__(self, sinks: Sequence[Sink] = ()) -> None:
        self._sinks: list[tuple[Sink, frozenset[str]]] = []
        self._takers: dict[str, tuple[Sink, ...]] = {}
        for sink in sinks:
            self.add(sink)

    def add(self, sink: Sink, *takes: str) -> None:
        """Add a sink for these kinds of documents, or for all. Raises BugError for an unknown kind."""
        if unknown := set(takes) - kinds.KINDS.keys():
            raise BugError(f"sink {sink!r}: takes {', '.join(sorted(unknown))}, which no document is")
        self._sinks.append((sink, frozenset(takes or kinds.KINDS)))
        self._takers = {kind: tuple(sink for sink, taken in self._sinks if kind in taken) for kind in kinds.KINDS}

    def without(self, one: Sink) -> Sink:
        """A sink that hands documents to all but one, which has them already."""

        def tell(document: Document) -> None:
            kinds.check(document)
            _hand(document, [sink for sink in self._takers[document.kind] if sink is not one])

        return tell

    def __call__(self, document: Document) -> None:
        kinds.check(document)
        _hand(document, self._takers[document.kind])


def _hand(document: Document, sinks: Sequence[Sink]) -> None:
    for sink in sinks:
        try:
            sink(document)
        except Exception:  # the supervisor of sinks: metrics must not stop the records
            log.exception("a sink failed on %s", document.kind)
