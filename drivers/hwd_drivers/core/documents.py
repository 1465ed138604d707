"""Documents: events of devices, agents and reconfigurations; the only source of metrics, records and reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import msgspec

from hwd_drivers.core.structs import to_plain

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a document: one subclass for each kind, with units in the names of its fields.

    A field that is UNSET is left out of the JSON. `KIND` is dotted, subject first: `switch.up`.
    """

    KIND: ClassVar[str]

    @property
    def document_kind(self) -> str:
        """The kind of document that it makes."""
        return self.KIND

    def to_data(self) -> dict[str, Any]:
        """Its fields as JSON values."""
        data: dict[str, Any] = to_plain(self)
        return data

    def __str__(self) -> str:
        words = (f"{key}={value}" for key, value in self.to_data().items() if isinstance(value, str | int | float))
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One event.

    `at_ns` is `Clock.monotonic_ns` of the process that emits it and `wall_ns` its unix time.
    """

    at_ns: int
    wall_ns: int
    fact: Fact

    @property
    def kind(self) -> str:
        """Dotted, subject first: `switch.up`, `reconfiguration.ended`."""
        return self.fact.document_kind

    def to_data(self) -> dict[str, Any]:
        """The document as it travels over HTTP and in exports."""
        return {"kind": self.kind, "at_ns": self.at_ns, "wall_ns": self.wall_ns, "data": self.fact.to_data()}

    def __str__(self) -> str:
        return f"{self.kind} {self.fact}"


class Sink(Protocol):
    """Receiver of documents. Called in the thread of the event loop; it must not block and must not raise."""

    def __call__(self, document: Document, /) -> None: ...
