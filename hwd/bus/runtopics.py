"""The state of each run on the bus: one retained topic a run, `hwd/1/<testbed>/runs/<run>`."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from hwd_agents.bus.protocol import Bus, Incoming
from hwd_agents.wire import topic
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.core.errors import LinkError

PLACE: Final = "runs"
"""Stands where other topics have a host; no host can be called so."""

log = logging.getLogger(__name__)


class RunTopics:
    """A `Sink`: publishes the data of each `run.state`, retained.

    `kept()` is the present state of all runs that shall have a topic, by run.

    What the broker retains of other runs is cleared, from earlier lives of the daemon too. While the bus is away only
    the last state of each run waits.
    """

    TAKES: ClassVar = ("run.state",)

    def __init__(self, bus: Bus, testbed: str, kept: Callable[[], Mapping[str, Mapping[str, Json]]]) -> None:
        self._bus = bus
        self._testbed = testbed
        self._kept = kept
        self._due: dict[str, None] = {}
        self._retained: set[str] = set()
        self._changed = asyncio.Event()
        self._done = asyncio.Event()
        bus.subscribe(topic(testbed, PLACE, "+"), self._found)
        bus.on_up(self._bus_up)

    def __call__(self, document: Document) -> None:
        if document.kind == "run.state":
            self._wake(str(document.data["run"]))

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._publish_due()
            except LinkError as error:
                log.debug("%s", error)  # all is published again when the bus is up

    async def flush(self) -> None:
        """Until nothing is due, or the bus is away."""
        while self._due and self._bus.connected:
            self._done.clear()
            await self._done.wait()

    async def _publish_due(self) -> None:
        try:
            while self._due:
                kept = self._kept()
                for run in self._retained.difference(kept, self._due):
                    self._due[run] = None
                run = next(iter(self._due))
                status = kept.get(run)
                payload = b"" if status is None else json.dumps(status, separators=(",", ":")).encode()
                del self._due[run]  # what comes meanwhile makes it due again
                try:
                    await self._bus.publish(topic(self._testbed, PLACE, run), payload, qos=1, retain=True)
                except LinkError:
                    self._due.setdefault(run)
                    raise
                (self._retained.add if payload else self._retained.discard)(run)
        finally:
            self._done.set()

    def _bus_up(self) -> None:
        for run in self._kept():
            self._wake(run)

    def _found(self, incoming: Incoming) -> None:
        """What the broker has, of whatever life of whichever daemon."""
        run = incoming.topic.rpartition("/")[2]
        if incoming.retained and incoming.payload and run not in self._kept():
            self._retained.add(run)
            self._wake(run)

    def _wake(self, run: str) -> None:
        self._due[run] = None
        self._changed.set()
