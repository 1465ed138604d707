"""The state of each run on the bus: one retained topic a run, `hwd/1/<testbed>/runs/<run>`."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from hwd.model.run import RunStatus
from hwd_agents.bus.protocol import Bus, Incoming
from hwd_agents.wire import topic
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.structs import to_json

LEVEL: Final = "runs"
"""The topic level in which other topics have the name of a host; no host can have this name."""

log = logging.getLogger(__name__)


class RunTopics:
    """A `Sink`: publishes the data of each `run.state`, retained.

    `statuses()`: the present state of all runs that shall have a topic, by run.

    The retained messages of other runs are deleted, also those that the daemon published before its last start. While
    the broker is not connected only the last state of each run waits.
    """

    TAKES: ClassVar = (RunStatus,)

    def __init__(self, bus: Bus, testbed: str, statuses: Callable[[], Mapping[str, RunStatus]]) -> None:
        self._bus = bus
        self._testbed = testbed
        self._statuses = statuses
        self._due: dict[str, None] = {}
        self._retained: set[str] = set()
        self._changed = asyncio.Event()
        self._done = asyncio.Event()
        bus.subscribe(topic(testbed, LEVEL, "+"), self._take_retained)
        bus.on_up(self._bus_up)

    def __call__(self, document: Document) -> None:
        if isinstance(document.fact, RunStatus):
            self._set_due(document.fact.run)

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._publish_due()
            except LinkError as error:
                log.debug("%s", error)  # all is published again when the bus is up

    async def flush(self) -> None:
        """Wait until all is published, or the broker is not connected."""
        while self._due and self._bus.connected:
            self._done.clear()
            await self._done.wait()

    async def _publish_due(self) -> None:
        try:
            while self._due:
                statuses = self._statuses()
                for run in self._retained.difference(statuses, self._due):
                    self._due[run] = None
                run = next(iter(self._due))
                status = statuses.get(run)
                payload = b"" if status is None else to_json(status)
                del self._due[run]  # a state that comes meanwhile makes it due again
                try:
                    await self._bus.publish(topic(self._testbed, LEVEL, run), payload, qos=1, retain=True)
                except LinkError:
                    self._due.setdefault(run)
                    raise
                (self._retained.add if payload else self._retained.discard)(run)
        finally:
            self._done.set()

    def _bus_up(self) -> None:
        for run in self._statuses():
            self._set_due(run)

    def _take_retained(self, incoming: Incoming) -> None:
        """Note a message that the broker retains, of whichever daemon."""
        run = incoming.topic.rpartition("/")[2]
        if incoming.retained and incoming.payload and run not in self._statuses():
            self._retained.add(run)
            self._set_due(run)

    def _set_due(self, run: str) -> None:
        self._due[run] = None
        self._changed.set()
