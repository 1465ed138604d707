"""The entries of the journal about prepared sets; switches between their targets are reconfigurations.

- `prepare`: a set with all its targets, and `at`: the one that its switches have.
- `switch`: a reconfiguration from one target of a set to another. It is appended without a sync: its moves follow from
  the set, and where a power cut loses it, the next start reads which target the switches have.
- `stands`: a start has found the switches at a target that the journal did not know of.
- `release`: the end of a set. `also`: the numbers of its `stands`.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET

from hwd.model.prepared_set import PreparedSet, SetSwitch, added_by, moves_between, wanted_at
from hwd.model.reconfiguration import ReconfigurationStarted, StartedMove, WantedSwitch
from hwd.reconfigure.journal.facts import DatedFact
from hwd_drivers.core.structs import from_plain, to_plain
from hwd_drivers.switching.moves import SwitchMoves

_LONGEST: Final = "x" * 200
"""The longest name of a caller, in characters that JSON does not lengthen; `switch_bytes` allows for those that it
does.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSet:
    """A set that has not ended, with its number, the target that its switches have, and the numbers of its `stands`.

    `doubt`: why it is not known whether it had ended; an operator releases it.
    """

    number: int
    prepared: PreparedSet
    at: str
    also: tuple[int, ...] = ()
    doubt: str = ""


class SwitchEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A switch from one target of a set to another, as it is written. `by`, `verified`: who asked for it."""

    reconfiguration: str
    prepared_set: str = msgspec.field(name="set")
    origin: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    hash: str
    wall_ns: int
    by: str | None = None
    verified: bool = False

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = to_plain(self)
        return {key: value for key, value in plain.items() if self.by is not None or key not in ("by", "verified")}

    def of_set(self, prepared: PreparedSet) -> SetSwitch:
        return SetSwitch(id=prepared.id, target=self.target, forward=prepared.rule == "finish")

    def moves(self, prepared: PreparedSet) -> tuple[SwitchMoves, ...]:
        """Raises KeyError where the set has no such targets."""
        return moves_between(prepared.state(self.origin), prepared.state(self.target))

    def wanted(self, prepared: PreparedSet) -> tuple[WantedSwitch, ...]:
        """The desired state once it is confirmed."""
        target = prepared.target(self.target)
        assert target is not None
        return tuple(wanted_at(target, self.moves(prepared)))

    def started(self, prepared: PreparedSet) -> DatedFact[ReconfigurationStarted]:
        """Its first document, but for settings of NIC ports, which the journal does not hold."""
        moves, target = self.moves(prepared), prepared.target(self.target)
        assert target is not None
        added = added_by(moves)
        fact = ReconfigurationStarted(
            reconfiguration=self.reconfiguration,
            run=prepared.run,
            hash=self.hash,
            what=prepared.what(self.target),
            links=[one.started(added) for one in target.links],
            moves=[StartedMove(switch=move.switch, remove=[*move.remove], add=[*move.add]) for move in moves],
            lease=prepared.lease,
            holder=prepared.holder,
            lease_epoch=UNSET if prepared.lease_epoch is None else prepared.lease_epoch,
            by=UNSET if self.by is None else self.by,
            verified=UNSET if self.by is None else self.verified,
            prepared_set=prepared.id,
            target=self.target,
        )
        return DatedFact(wall_ns=self.wall_ns, fact=fact)


def to_json(stored: StoredSet) -> dict[str, Any]:
    doubt = {"doubt": stored.doubt} if stored.doubt else {}
    return {"set": stored.prepared.id, "at": stored.at, "prepared": to_plain(stored.prepared), **doubt}


def from_json(number: int, entry: dict[str, Any]) -> StoredSet:
    """Raises KeyError, TypeError or ValueError (msgspec's too) where it is none."""
    prepared = from_plain(entry["prepared"], PreparedSet)
    if prepared.id != entry["set"] or prepared.target(entry["at"]) is None:
        raise ValueError(f"{entry['set']} at {entry['at']}: its set says something else")
    return StoredSet(number=number, prepared=prepared, at=entry["at"], doubt=entry.get("doubt", ""))


def longest_switch(prepared: PreparedSet) -> SwitchEntry:
    """The longest entry of a switch of this set, but for characters in the name of its caller that JSON lengthens."""
    name = max((one.name for one in prepared.targets), key=len)
    return SwitchEntry(
        reconfiguration="x" * 8,
        prepared_set=prepared.id,
        origin=name,
        target=name,
        hash="x" * 12,
        wall_ns=-(10**19),
        by=_LONGEST,
        verified=False,
    )
