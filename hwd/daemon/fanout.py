"""The daemon's sink: hands each document to the sinks that take its kind."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from hwd.model.kinds import KINDS
from hwd_drivers.core.documents import Document, Fact, Sink

log = logging.getLogger(__name__)


class Subscriber(Sink, Protocol):
    """A sink that says which facts it takes."""

    @property
    def TAKES(self) -> tuple[type[Fact], ...]: ...  # noqa: N802 - a constant of its class


class Fanout:
    """Sinks in order, each with the types of facts that it takes.

    An exception of a sink is a bug: it is logged with its trace, and the other sinks still get the document. Most
    documents are events of hosts, thousands a second, and few sinks take them: the sinks of a type are looked up once.
    """

    def __init__(self, sinks: Sequence[Sink] = ()) -> None:
        self._takers: dict[type[Fact], tuple[Sink, ...]] = dict.fromkeys(KINDS.values(), ())
        for sink in sinks:
            self.add(sink)

    def add(self, sink: Sink, *takes: type[Fact]) -> None:
        """Add a sink for documents of these facts, or of all."""
        for fact in takes or KINDS.values():
            self._takers[fact] += (sink,)

    def subscribe(self, *parts: Subscriber) -> None:
        for part in parts:
            self.add(part, *part.TAKES)

    def without(self, one: Sink) -> Sink:
        """A sink that hands documents to all but one, which has them already."""
        return partial(self, but=one)

    def __call__(self, document: Document, *, but: Sink | None = None) -> None:
        for sink in self._takers[type(document.fact)]:
            if sink is but:
                continue
            try:
                sink(document)
            except Exception:  # the supervisor of sinks: metrics must not stop the records
                log.exception("a sink failed on %s", document.kind)
