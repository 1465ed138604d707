"""Documents: events of devices, agents and reconfigurations; the only source of metrics, records and reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One event.

    `kind` is dotted, subject first (`switch.up`, `reconfiguration.ended`). `at_ns` is `Clock.monotonic_ns` of the
    process that emits it and `wall_ns` its unix time. `data` is JSON whose keys depend on the kind, with units in their
    names.
    """

    kind: str
    at_ns: int
    wall_ns: int
    data: Mapping[str, Json]

    def __str__(self) -> str:
        words = " ".join(
            f"{key}={value}" for key, value in self.data.items() if isinstance(value, str | int | float | bool)
        )
        return f"{self.kind} {words}"


class Sink(Protocol):
    """Receiver of documents. Called in the thread of the event loop; it must not block and must not raise."""

    def __call__(self, document: Document, /) -> None: ...
