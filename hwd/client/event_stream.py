"""The event stream of a daemon: parser of server-sent events, and the rules for reconnecting. No I/O."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import httpx2

from hwd.model.document_list import DocumentJson
from hwd.model.plural import plural
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import LinkError, ProtocolError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_plain

SILENT_S = 30.0
"""The daemon sends something every 10 s, whatever was asked for; a connection that was silent for so long is lost."""
PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0, 5.0, 5.0)
"""Between attempts to reconnect, half a minute in all: a restart of the daemon takes seconds."""
SAID_AT = 2
"""The attempt from which a lost stream is reported; a stream that is resumed at the first attempt is no news."""
PATH = "/api/v1/events"
TIMEOUT = httpx2.Timeout(5.0, read=SILENT_S)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `id` is the one to continue after. `document` is None where events can no longer be had; `missed`
    counts those.
    """

    id: str
    document: Document | None = None
    missed: int = 0

    def __str__(self) -> str:
        return f"{plural(self.missed, 'event')} missed" if self.document is None else str(self.document)


class Listening:
    """The position of one listener in the event stream, over all its connections, and how long it tries to reconnect.

    `say` gets what a person may want to know.
    """

    def __init__(
        self, *, after: str | None, kinds: Iterable[str] = (), say: Callable[[str], None] | None = None
    ) -> None:
        self._after = after
        self._say = say or log.debug
        self._kinds = tuple(kinds)
        self._failures = 0

    @property
    def headers(self) -> dict[str, str]:
        return {"Last-Event-ID": self._after} if self._after else {}

    @property
    def params(self) -> Mapping[str, tuple[str, ...]]:
        return {"kind": self._kinds}

    def take(self, event: Event) -> Event:
        """Record that an event arrived: after a lost connection the stream continues behind it."""
        self.beat(event.id)
        return event

    def beat(self, id: str | None) -> None:
        """Record a sign of life, and the id to continue after: the daemon has sent all before it that was asked for."""
        if self._failures >= SAID_AT:
            self._say("the daemon answers again")
        self._failures = 0
        self._after = id or self._after

    def lost(self, url: str, cause: BaseException | None) -> float:
        """Seconds to wait before the next attempt; raises LinkError after the last one. `cause` None: the daemon ended
        the stream.
        """
        why = "the daemon ended the stream" if cause is None else reason_of(cause)
        if self._failures == len(PAUSES_S):
            raise LinkError(f"{url}: event stream lost and the daemon did not come back: {why}")
        pause_s = PAUSES_S[self._failures]
        log.debug("event stream: %s; trying again in %g s", why, pause_s)
        self._failures += 1
        if self._failures == SAID_AT:
            self._say(f"the daemon {url} does not answer; waiting for it, up to {sum(PAUSES_S):.0f} s (Ctrl-C leaves)")
        return pause_s


class Lines:
    """Parses the lines of a stream into events. An event that was cut off is skipped.

    `beat` gets each sign of life that is no event: the id in it, None where it has none.
    """

    def __init__(self, beat: Callable[[str | None], None]) -> None:
        self._beat = beat
        self._fields: dict[str, str] = {}

    def feed(self, line: str) -> Event | None:
        """The event that this line completes, or None; raises ProtocolError where it cannot be read."""
        if line:
            if not line.startswith(":"):
                name, _, value = line.partition(":")
                self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        if "data" in fields:
            return _event(fields)
        self._beat(fields.get("id"))
        return None


def _event(fields: Mapping[str, str]) -> Event:
    try:
        data = json.loads(fields["data"])
        if fields.get("event") == "missed":
            return Event(id=fields["id"], missed=data["count"])
        return Event(id=fields["id"], document=from_plain(data, DocumentJson).document())
    except (ValueError, KeyError, TypeError, ProtocolError) as error:
        raise ProtocolError(f"event stream: cannot read {fields}: {error}") from error
