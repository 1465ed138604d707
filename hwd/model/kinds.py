"""The kinds of documents, and how one is read from JSON.

Times ending in `_ns` are on the daemon's monotonic clock unless the name says `agent_` or `wall_`.
"""

from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any, Final

import msgspec
from typing_extensions import override

from hwd.model import (
    daemon,
    host,
    job,
    lease,
    plan_summary,
    prepared_set,
    program,
    reconfiguration,
    run_facts,
    switch,
    timeline,
    transfer,
)
from hwd.model.run import RunStatus
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import decoder, from_json, from_plain
from hwd_drivers.devices import facts as devices


def _facts_of(*nouns: ModuleType) -> tuple[type[Fact], ...]:
    """The facts with a kind of their own that these modules define, in their order."""
    return tuple(
        one
        for noun in nouns
        for one in vars(noun).values()
        if isinstance(one, type) and issubclass(one, Fact) and "KIND" in vars(one) and one.__module__ == noun.__name__
    )


FACTS: Final[Mapping[str, tuple[type[Fact], ...]]] = {
    "the daemon": _facts_of(daemon),
    "switches": (
        devices.SwitchUp,
        devices.SwitchDown,
        devices.SwitchRestarted,
        devices.SwitchRead,
        devices.SwitchCommand,
        devices.SwitchPower,
        switch.SwitchOverrun,
        switch.SwitchDrift,
        switch.SwitchAdopted,
        devices.SwitchOverride,
        switch.SwitchUnknown,
        switch.SwitchRefused,
    ),
    "hosts and their agents": _facts_of(host),
    "leases": _facts_of(lease),
    "reconfigurations": _facts_of(plan_summary, reconfiguration, timeline),
    "transfers": _facts_of(transfer),
    "programs on hosts": _facts_of(program),
    "jobs": _facts_of(job),
    "prepared sets": _facts_of(prepared_set),
    "runs": (
        run_facts.RunStarted,
        run_facts.RunStep,
        run_facts.RunPaused,
        run_facts.RunResumed,
        RunStatus,
        run_facts.RunNote,
        run_facts.RunJob,
        run_facts.RunHost,
        run_facts.RunFault,
        run_facts.RunAssert,
        run_facts.RunEnded,
        run_facts.RunOverdue,
    ),
}
"""The types of facts, by subject, in the order of the reference page."""

KINDS: Final[Mapping[str, type[Fact]]] = {fact.KIND: fact for several in FACTS.values() for fact in several}
"""The type of each kind."""


class UnreadFact(Fact, frozen=True, kw_only=True):
    """A document of another version of hwd, which this one cannot read. `why`: empty for an unknown kind."""

    kind: str
    fields: dict[str, Any]
    why: str = ""

    @property
    @override
    def document_kind(self) -> str:
        return self.kind

    @override
    def to_data(self) -> dict[str, Any]:
        return self.fields


def read_fact(kind: str, data: bytes | str | Mapping[str, Any]) -> Fact:
    """Read the `data` of a document: its JSON text, or that as a mapping. UnreadFact where this version cannot.

    Raises ProtocolError where it is no JSON object.
    """
    try:
        if isinstance(data, bytes | str):
            return _decoder(KINDS[kind]).decode(data)
        return from_plain(data, KINDS[kind])
    except KeyError:
        why = ""
    except (msgspec.DecodeError, RecursionError) as error:
        why = reason_of(error)
    try:
        fields = from_json(data, dict[str, Any]) if isinstance(data, bytes | str) else dict(data)
    except (msgspec.DecodeError, RecursionError, TypeError, ValueError) as error:
        raise ProtocolError(f"document {kind}: its data is no JSON object: {reason_of(error)}") from error
    return UnreadFact(kind=kind, fields=fields, why=why)


def read_document(data: object) -> Document:
    """Read a document as `Document.to_data` makes it. Raises ProtocolError where it is none."""
    if not isinstance(data, Mapping) or not isinstance(data.get("kind", ""), str):
        raise ProtocolError("is no document: no JSON object with the text of a kind")
    try:
        kind, at_ns, wall_ns, fields = data["kind"], data["at_ns"], data["wall_ns"], data["data"]
    except KeyError as error:
        raise ProtocolError(f"is no document: it lacks {error}") from error
    return Document(at_ns=at_ns, wall_ns=wall_ns, fact=read_fact(kind, fields))


@cache
def _decoder(fact: type[Fact]) -> msgspec.json.Decoder[Fact]:
    return decoder(fact)
