"""Documents: what devices, agents and reconfigurations say happened. Metrics, records, events and reports are made from them alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One thing that happened.

    `kind` is dotted, subject first (`switch.up`, `reconfiguration.ended`); `at_ns` is `Clock.monotonic_ns` of the emitter's process and `wall_ns` its
    unix time; `data` is JSON with sorted meaning per kind, units in the key names.
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
    """Where documents go. Called in the emitter's thread of the event loop; must not block and must not raise."""

    def __call__(self, document: Document, /) -> None: ...
