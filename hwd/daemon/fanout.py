"""The daemon's sink: hands each document to everybody who makes something of it."""

import logging
from collections.abc import Sequence

from hwd.model import kinds
from hwd_drivers.kit.documents import Document, Sink

log = logging.getLogger(__name__)


class Fanout:
    """Sinks in order. One that raises is a fault of ours: it is logged with its trace, and the others still get the document."""

    def __init__(self, sinks: Sequence[Sink] = ()) -> None:
        self._sinks = list(sinks)

    def add(self, sink: Sink) -> None:
        self._sinks.append(sink)

    def without(self, one: Sink) -> Sink:
        """A sink that hands documents to all but one, which has them already."""

        def tell(document: Document) -> None:
            kinds.check(document)
            for sink in self._sinks:
                if sink is not one:
                    _hand(document, sink)

        return tell

    def __call__(self, document: Document) -> None:
        kinds.check(document)
        for sink in self._sinks:
            _hand(document, sink)


def _hand(document: Document, sink: Sink) -> None:
    try:
        sink(document)
    except Exception:  # the supervisor of sinks: metrics must not stop the records
        log.exception("a sink failed on %s", document.kind)
