"""The event stream of a daemon: server-sent events and what a listener does about lost connections. No I/O."""

import json
import logging
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass

import httpx

from hwd.client.kept import document_of
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import LinkError, ProtocolError

SILENT_S = 30.0
"""The daemon says something every 10 s; one that was silent for so long is not there any more."""
PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0, 5.0, 5.0)
"""Between attempts to come back, half a minute in all: a daemon that is started again takes seconds."""
SAID_AT = 2
"""A stream that broke off once and is taken up again at once is nothing to tell of."""
PATH = "/api/v1/events"
TIMEOUT = httpx.Timeout(5.0, read=SILENT_S)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `id` is what to go on after. `document` is None where `missed` says how many can never be had."""

    id: str
    document: Document | None = None
    missed: int = 0

    def __str__(self) -> str:
        return f"{self.missed} events were missed" if self.document is None else str(self.document)


class Listening:
    """One listener, over all its connections: what it goes on after, and for how long it tries to come back; `say` gets what a person may want to know."""

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
        """It came: a lost connection goes on after it."""
        if self._failures >= SAID_AT:
            self._say("the daemon answers again")
        self._failures = 0
        self._after = event.id
        return event

    def lost(self, url: str, cause: Exception | None) -> float:
        """Seconds to wait before the next attempt; raises LinkError when there were enough. `cause` None: the daemon ended the stream."""
        why = "the daemon ended the stream" if cause is None else str(cause) or type(cause).__name__
        if self._failures == len(PAUSES_S):
            raise LinkError(f"{url}: event stream lost and the daemon did not come back: {why}")
        pause_s = PAUSES_S[self._failures]
        log.debug("event stream: %s; trying again in %g s", why, pause_s)
        self._failures += 1
        if self._failures == SAID_AT:
            self._say(f"the daemon {url} does not answer; waiting for it, up to {sum(PAUSES_S):.0f} s (Ctrl-C leaves)")
        return pause_s


class Lines:
    """Puts the lines of a stream together to events; one that was cut off is left out, comments are passed over."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def feed(self, line: str) -> Event | None:
        """The event that this line ends, if it does; raises ProtocolError where it cannot be read."""
        if line:
            if not line.startswith(":"):
                name, _, value = line.partition(":")
                self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        return _event(fields) if "data" in fields else None


def parse(lines: Iterable[str]) -> Generator[Event, None, None]:
    """All events of some lines."""
    reader = Lines()
    for line in lines:
        if (event := reader.feed(line)) is not None:
            yield event


def _event(fields: Mapping[str, str]) -> Event:
    try:
        data = json.loads(fields["data"])
        if fields.get("event") == "missed":
            return Event(id=fields["id"], missed=data["count"])
        return Event(id=fields["id"], document=document_of(data))
    except (ValueError, KeyError, TypeError) as error:
        raise ProtocolError(f"event stream: cannot read {fields}: {error}") from error
