"""Watches the prepared sets of a world: what their callers were told, and where their switches are."""

from dataclasses import dataclass

from hwd.model.prepared_set import FINISH, SetReleased, SetSettled
from hwd.sim.watches.sight import Sight
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.values import Crossconnect, PortSide


@dataclass(slots=True, kw_only=True)
class SetPromise:
    """A prepared set as its caller was told of it. `given_up`: an operator left a switch of it as it was."""

    lease: str
    expires_wall_ns: int | None
    released: bool = False
    given_up: bool = False


class SetWatch:
    """Holds `set-stands`."""

    def __init__(self, sight: Sight) -> None:
        self.promises: dict[str, SetPromise] = {}
        """By id, once they were answered."""
        self.found: dict[tuple[str, PortSide], float] = {}
        """When a daemon that was started anew found a prepared set at a target: a power cut may have taken what the
        journal had of its last switch, and what was told of an end before does not count any more."""
        self._sight = sight
        self._goals: dict[str, str] = {}
        """By set that a crash cut off in a switch: the target where its rule says it goes."""
        self._settled_s: dict[str, float] = {}

    def take(self, fact: Fact) -> None:
        """What the daemon tells."""
        match fact:
            case SetSettled(prepared_set=id, target=target):
                self._check_settled(id, target)
            case SetReleased(prepared_set=id, why=why):
                self._goals.pop(id, None)
                if id in self.promises and "given up" in why:
                    self.promises[id].given_up = True

    def read_journal(self) -> None:
        """Note where sets go whose switches a crash cut off."""
        cut_off = {one.of_set.id: one.of_set.target for one in self._sight.journaled() if one.of_set is not None}
        for stored in self._sight.journaled_sets():
            if (target := cut_off.get(stored.prepared.id)) is not None and not stored.doubt:
                self._goals[stored.prepared.id] = target if stored.prepared.rule == FINISH else stored.prepared.rule

    def since_s(self, id: str, switch: str) -> float:
        """When a set was last known to be at its target, or this switch of it was last moved to one, and read back."""
        nothing = frozenset[Crossconnect](), frozenset[Crossconnect]()
        switched = [
            one.at_s
            for one in self._sight.seen.values()
            if one.of_set == id and "confirmed" in one.outcomes.values() and one.moves.get(switch, nothing) != nothing
        ]
        return max([self._settled_s.get(id, 0.0), *switched])

    def _check_settled(self, id: str, target: str) -> None:
        """Whether a prepared set is at the target at which its daemon found it, and that is where its rule says."""
        if (goal := self._goals.pop(id, target)) != target:
            self._sight.breach(
                "set-stands", f"set {id} was cut off in a switch, and went to {target}; its rule says {goal}"
            )
        self._settled_s[id] = self._sight.now_s
        for stored in self._sight.contents().sets:
            if stored.prepared.id != id:
                continue
            for switch, wanted in stored.prepared.state(target).items():
                ends = frozenset(stored.prepared.ends[switch])
                self.found |= dict.fromkeys(((switch, end) for end in ends), self._sight.now_s)
                there = self._sight.there(switch)
                strange = frozenset(one for one in there if not ends.isdisjoint(one.ends)) ^ wanted
                for one in sorted(strange, key=Crossconnect.sort_key):
                    if not self._sight.was_touched(switch, frozenset((one,)), since_s=self._sight.up_s):
                        self._sight.breach(
                            "set-stands", f"set {id} was found at {target}, and {switch} differs at {one}"
                        )
