"""The proposal: what interlocks judge of a plan, and how often its switches have moved before."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hwd.fabric.state import State
from hwd.model.link import RoutedLink, SwitchCrossconnect
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
    """`links`: the wanted ones, whether or not they move. `crossconnects`: the wanted ones, with those that come with
    them, under the names of switches and of composites. `after`: what each switch carries then.
    """

    links: tuple[RoutedLink, ...]
    crossconnects: frozenset[SwitchCrossconnect]
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
        wanted = {one for link in routed for one in link.crossconnects}
        for move in moving:
            wanted.update(SwitchCrossconnect(switch=move.switch, crossconnect=one) for one in (*move.add, *move.keep))
        for name, found in composites.items():
            wanted.update(SwitchCrossconnect(switch=name, crossconnect=one) for one in found)
        return cls(links=routed, crossconnects=frozenset(wanted), moves=moving, after=after, motion=motion)
