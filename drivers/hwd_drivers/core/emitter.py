"""Emitter: makes documents of facts."""

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Fact, Sink


class Emitter:
    """Hands facts to a sink as documents, with the time of this process."""

    def __init__(self, clock: Clock, sink: Sink) -> None:
        self._clock = clock
        self._sink = sink

    def __call__(self, fact: Fact) -> None:
        self._sink(Document(at_ns=self._clock.monotonic_ns(), wall_ns=self._clock.wall_ns(), fact=fact))
