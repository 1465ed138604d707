"""The facts that the journal holds for the records: how a reconfiguration began and how it ended, with unix times."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from hwd.model.daemon import DaemonRecovered, JournalGivenUp
from hwd.model.kinds import KINDS, read_fact
from hwd.model.reconfiguration import EndFact, ReconfigurationEnded, ReconfigurationStarted
from hwd_drivers.core.documents import Fact

END_BYTES: Final = 1024
"""The most that an end holds of its fact: room for it is reserved with the begin."""
CUT: Final = "..."


FactT = TypeVar("FactT", bound=Fact)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedFact(Generic[FactT]):
    """A fact, and the unix time at which the journal took it."""

    wall_ns: int
    fact: FactT


def to_json(dated: DatedFact[FactT], known: Mapping[str, Any]) -> dict[str, Any]:
    """Its kind, time and fields, but for those that are `known` from other keys of the entry, or from its begin."""
    fields = dated.fact.to_data()
    return {
        "kind": dated.fact.document_kind,
        "wall_ns": dated.wall_ns,
        "fact": {key: value for key, value in fields.items() if key not in known},
    }


def start_from_json(data: Mapping[str, Any], known: Mapping[str, Any]) -> DatedFact[ReconfigurationStarted] | None:
    """The inverse; None for a fact that this version cannot read.

    Raises KeyError, TypeError, ValueError or HwdError where it is none.
    """
    fact = _fact(data, known)
    if not isinstance(fact, ReconfigurationStarted):
        return None
    return DatedFact(wall_ns=int(data["wall_ns"]), fact=fact)


def end_from_json(data: Mapping[str, Any], known: Mapping[str, Any]) -> DatedFact[EndFact] | None:
    """Read the fact of an end as `start_from_json` reads that of a start."""
    fact = _fact(data, known)
    return DatedFact(wall_ns=int(data["wall_ns"]), fact=fact) if isinstance(fact, EndFact) else None


def bounded(fact: EndFact, known: Mapping[str, Any]) -> EndFact:
    """The fact with at most `END_BYTES` in the journal: lists that are too long are left out, then `why` is cut."""
    if _size(fact, known) <= END_BYTES:
        return fact
    match fact:
        case ReconfigurationEnded():
            fact = replace(fact, remarks=UNSET, hangs=UNSET, stale=UNSET, unasked=UNSET, prediction=UNSET)
        case JournalGivenUp():
            reason = UNSET if fact.reason is UNSET else _cut(fact.reason, END_BYTES // 4)
            fact = replace(fact, left=[], by=_cut(fact.by, END_BYTES // 4), reason=reason)
        case DaemonRecovered():
            pass
    over = _size(fact, known) - END_BYTES
    return replace(fact, why=_cut(fact.why, len(json.dumps(fact.why)) - over)) if over > 0 else fact


def _fact(data: Mapping[str, Any], known: Mapping[str, Any]) -> Fact:
    kind = str(data["kind"])
    names = {field.name for field in msgspec.structs.fields(KINDS[kind])} if kind in KINDS else set()
    return read_fact(kind, {**{key: value for key, value in known.items() if key in names}, **data["fact"]})


def _size(fact: EndFact, known: Mapping[str, Any]) -> int:
    rest = to_json(DatedFact(wall_ns=0, fact=fact), known)["fact"]
    return len(json.dumps(rest, separators=(",", ":")))


def _cut(text: str, size: int) -> str:
    """The longest beginning of a text that is at most `size` bytes of JSON, with dots where something was cut off."""
    if len(json.dumps(text)) <= size:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if len(json.dumps(text[:middle] + CUT)) <= size:
            low = middle
        else:
            high = middle - 1
    return text[:low] + CUT
