"""The proposal: what interlocks judge of a plan, and how often its switches have moved before."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hwd.fabric.state import State
from hwd.model.circuit import RoutedLink
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.switching.moves import SwitchMoves


@dataclass(frozen=True, slots=True, kw_only=True)
class Motion:
    """How often the elements of switches have moved, as far as the testbed limits it: by switch and element.

    `in_life`: since hwd counts them; `in_hour`: in the last hour. `changes`: of each switch, in the time of its rate.
    """

    in_life: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    in_hour: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)


NO_MOTION: Final = Motion()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The plan that interlocks check. `links`: the wanted ones, whether or not they move. `crossconnects`: the wanted
    ones, with those that come with them, by switch and by composite. `after`: what each switch carries then.
    """

    links: tuple[RoutedLink, ...]
    crossconnects: Mapping[str, frozenset[Crossconnect]]
    moves: tuple[SwitchMoves, ...]
    after: State
    motion: Motion = NO_MOTION

    @classmethod
    def of(
        cls,
        *,
        links: Iterable[RoutedLink],
        moves: Iterable[SwitchMoves],
        composites: Mapping[str, Iterable[Crossconnect]],
        after: State,
        motion: Motion = NO_MOTION,
    ) -> "Proposal":
        """`composites`: what each of them shall carry, in its own crossconnects."""
        routed, moving = tuple(links), tuple(moves)
        wanted = {move.switch: frozenset(move.add).union(move.keep) for move in moving}
        wanted |= {name: frozenset(found) for name, found in composites.items()}
        others: dict[str, set[Crossconnect]] = {}
        for link in routed:
            for circuit in link.circuits:
                for one in circuit.crossconnects:
                    if one.switch not in wanted:  # of a host's own switch, or of links that are judged without moves
                        others.setdefault(one.switch, set()).add(one.crossconnect)
        wanted |= {name: frozenset(found) for name, found in others.items()}
        return cls(links=routed, crossconnects=wanted, moves=moving, after=after, motion=motion)
