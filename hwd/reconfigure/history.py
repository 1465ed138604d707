"""How long reconfigurations took so far, so that a plan can say what to expect. A `Sink`: it learns from timelines, those of earlier lives of the daemon too."""

import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from hwd.model.testbed import Testbed
from hwd_drivers.core.documents import Document

REMEMBERED = 200
"""Turnarounds kept; older ones say little about today's rack."""


class History:
    """The last turnarounds of links, in seconds."""

    TAKES: ClassVar = ("timeline",)

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._seconds: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def full(self) -> bool:
        """Whether anything older would be forgotten at once."""
        return len(self._seconds) == REMEMBERED

    def recall(self, document: Document) -> None:
        """A timeline that is older than all that were taken so far, of the records."""
        for seconds in reversed(list(_turnarounds(document))):
            if not self.full:
                self._seconds.appendleft(seconds)

    def __call__(self, document: Document) -> None:
        self._seconds.extend(_turnarounds(document))

    def expect(self, switches: Iterable[str], links: bool = True) -> tuple[float, str]:
        """Seconds until links are ready again, and where that figure comes from; where no `links` come up, until the switches are through."""
        if links and self._seconds:
            return statistics.median(self._seconds), f"median of the last {len(self._seconds)} turnarounds"
        stated = max((self._testbed.switches[name].capabilities.settle_s for name in switches), default=0.0)
        why = "no link has been timed yet" if links else "no link comes up by it"
        return stated, f"switching time that the switches state; {why}"


def _turnarounds(document: Document) -> Iterator[float]:
    links = document.data.get("links") if document.kind == "timeline" else None
    for link in links if isinstance(links, list | tuple) else ():
        stages = link.get("stages") if isinstance(link, Mapping) else None
        for stage in stages if isinstance(stages, list | tuple) else ():
            seconds = stage.get("seconds") if isinstance(stage, Mapping) and stage.get("name") == "turnaround" else None
            if isinstance(seconds, float):
                yield seconds
