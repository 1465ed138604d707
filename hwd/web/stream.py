"""The event stream: the hub's documents as server-sent events.

An id is `<boot>.<number>`. A listener that reconnects with a `Last-Event-ID` of this boot of the daemon gets the
events after it; with an id of another boot it gets all events in memory, since all are new to it. An `event: missed`
states how many events are not in memory any more.

The greeting and each heartbeat have an id without data: a listener continues there, whatever was left out for it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator

from fastapi.sse import format_sse_event

from hwd.model.document_list import DocumentJson, DocumentList
from hwd.web.hub import Hub
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError

HEARTBEAT_S = 10.0
"""From what was sent last to a heartbeat. What a listener did not ask for is not sent, so it delays no heartbeat. A
listener that hears nothing for much longer is cut off, and knows it."""

DIGITS_MAX = 18
"""The most digits of the number in an id: as many documents as there may ever be."""

LAST_S = 0.05
"""After `stop`, for documents that are on their way to the listener: the end of its run is among them."""


class EventStream:
    """Makes streams for listeners; `stop` ends them all."""

    def __init__(self, hub: Hub, *, boot: str) -> None:
        self._hub = hub
        self._boot = boot
        self._stopping = asyncio.Event()

    @property
    def last_id(self) -> str:
        return self.id_of(self._hub.last)

    def id_of(self, number: int) -> str:
        return f"{self._boot}.{number}"

    def stop(self) -> None:
        self._stopping.set()

    def after(self, last_event_id: str | None) -> int | None:
        """The number in a `Last-Event-ID`; raises ConfigError for an invalid id."""
        if not last_event_id:
            return None
        boot, _, number = last_event_id.rpartition(".")
        if not boot or not number.isascii() or not number.isdigit() or len(number) > DIGITS_MAX:
            raise ConfigError(f"Last-Event-ID {last_event_id!r}: not an id of this stream, such as {self.last_id}")
        return int(number) if boot == self._boot else 0

    def snapshot(self, after: int | None, kinds: tuple[str, ...] = ()) -> DocumentList:
        """Documents in memory. Without `after` there is only `last`."""
        last = self._hub.last
        found = [] if after is None else self._hub.since(after)
        missed = 0 if after is None else (found[0][0] if found else last + 1) - after - 1
        sent = [DocumentJson.of(document) for _, document in found if not kinds or _is_one_of(document, kinds)]
        return DocumentList(last=self.id_of(last), missed=max(0, missed), sent=sent)

    async def follow(self, after: int | None, kinds: tuple[str, ...] = ()) -> AsyncGenerator[bytes, None]:
        """Events with heartbeats, until `stop`. `kinds`: names, or prefixes with a dot (`run.`); none: all."""
        loop = asyncio.get_running_loop()
        seen = self._hub.last if after is None else after
        documents = self._hub.follow(seen)
        stopping = asyncio.ensure_future(self._stopping.wait())
        coming = asyncio.ensure_future(anext(documents))
        try:
            yield self._comment("events of hwd", seen)
            beat_s = loop.time() + HEARTBEAT_S
            while True:
                if stopping.done():
                    await asyncio.wait([coming], timeout=LAST_S)
                else:
                    left_s = max(0.0, beat_s - loop.time())
                    await asyncio.wait([coming, stopping], timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                if coming.done():
                    number, document = coming.result()
                    coming = asyncio.ensure_future(anext(documents))
                    if number > seen + 1:
                        yield _event("missed", self.id_of(number - 1), {"count": number - seen - 1})
                    seen = number
                    if not kinds or _is_one_of(document, kinds):
                        yield _event("document", self.id_of(number), document.to_data())
                    elif loop.time() < beat_s:
                        continue
                    else:
                        yield self._comment("still here", seen)
                elif stopping.done():
                    return
                else:
                    yield self._comment("still here", seen)
                beat_s = loop.time() + HEARTBEAT_S
        finally:
            stopping.cancel()
            coming.cancel()
            await asyncio.wait([coming, stopping])
            await documents.aclose()

    def _comment(self, text: str, seen: int) -> bytes:
        """A sign of life, and the id to continue after."""
        return format_sse_event(comment=text, id=self.id_of(seen))


def _is_one_of(document: Document, kinds: tuple[str, ...]) -> bool:
    return any(document.kind == kind or (kind.endswith(".") and document.kind.startswith(kind)) for kind in kinds)


def _event(name: str, id: str, data: object) -> bytes:
    return format_sse_event(event=name, id=id, data_str=json.dumps(data, separators=(",", ":")))
