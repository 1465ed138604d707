"""The event stream of a daemon: server-sent events, read for as long as it is wanted, over lost connections."""

import json
import logging
import threading
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any

import httpx

from hwd.client.problem import raise_for_problem
from hwd_drivers.kit.documents import Document
from hwd_drivers.kit.errors import LinkError, ProtocolError

SILENT_S = 30.0
"""The daemon says something every 10 s; one that was silent for so long is not there any more."""
PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0, 5.0, 5.0)
"""Between attempts to come back, half a minute in all: a daemon that is started again takes seconds."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `id` is what to go on after. `document` is None where `missed` says how many can never be had."""

    id: str
    document: Document | None = None
    missed: int = 0

    def __str__(self) -> str:
        return f"{self.missed} events were missed" if self.document is None else str(self.document)


class EventReader:
    """Reads one stream, for one iteration; `close` from wherever ends it."""

    def __init__(self, http: httpx.Client, *, after: str | None, kinds: Iterable[str] = ()) -> None:
        self._http = http
        self._after = after
        self._kinds = tuple(kinds)
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()

    def events(self) -> Generator[Event, None, None]:
        """Raises LinkError when the daemon does not come back."""
        failures = 0
        while not self._closed.is_set():
            try:
                for event in self._once():
                    failures = 0
                    self._after = event.id
                    yield event
                    if self._closed.is_set():
                        return
                cause = "the daemon ended the stream"
            except (httpx.TransportError, LinkError) as error:
                cause = str(error) or type(error).__name__
            if failures == len(PAUSES_S):
                raise LinkError(f"{self._http.base_url}: event stream lost and the daemon did not come back: {cause}")
            log.debug("event stream: %s; trying again in %g s", cause, PAUSES_S[failures])
            self._closed.wait(PAUSES_S[failures])
            failures += 1

    def _once(self) -> Generator[Event, None, None]:
        headers = {"Last-Event-ID": self._after} if self._after else {}
        timeout = httpx.Timeout(5.0, read=SILENT_S)
        with self._http.stream(
            "GET", "/api/v1/events", params={"kind": self._kinds}, headers=headers, timeout=timeout
        ) as response:
            if not response.is_success:
                response.read()
            raise_for_problem(response)
            yield from parse(response.iter_lines())


def parse(lines: Iterable[str]) -> Generator[Event, None, None]:
    """Server-sent events from their lines; one that was cut off is left out, comments are passed over."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            if "data" in fields:
                yield _event(fields)
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")


def document_of(data: dict[str, Any]) -> Document:
    """A document from its JSON."""
    return Document(kind=data["kind"], at_ns=data["at_ns"], wall_ns=data["wall_ns"], data=data["data"])


def _event(fields: dict[str, str]) -> Event:
    try:
        data = json.loads(fields["data"])
        if fields.get("event") == "missed":
            return Event(id=fields["id"], missed=data["count"])
        return Event(id=fields["id"], document=document_of(data))
    except (ValueError, KeyError, TypeError) as error:
        raise ProtocolError(f"event stream: cannot read {fields}: {error}") from error
