"""Warnings of a plan: what failed before, what stays dark, what comes with a move, and overrides without a use."""

from collections.abc import Iterable, Iterator, Mapping

from hwd.fabric.fabric import Fabric
from hwd.fabric.state import State
from hwd.model.circuit import Observed
from hwd.model.interlock import Interlock, InterlockName, InterlockState
from hwd.model.link import switch_crossconnect
from hwd.model.request import Request
from hwd_drivers.core.values import Crossconnect, CrossconnectState, PortSide, natural_key
from hwd_drivers.switching.moves import SwitchMoves


def failed_crossconnects(observed: Observed, wanted: Mapping[str, frozenset[Crossconnect]]) -> Iterator[str]:
    """Warnings about wanted crossconnects that a switch reports as failed."""
    for name in sorted(wanted):
        for reading in observed[name]:
            if reading.state is CrossconnectState.FAILED and reading.crossconnect in wanted[name]:
                yield f"{name}:{reading.crossconnect} is reported as failed; it will be made anew"


def held_dark(
    wanted: Mapping[str, frozenset[Crossconnect]],
    moves: Iterable[SwitchMoves],
    blocked: Mapping[str, frozenset[PortSide]],
) -> Iterator[str]:
    """Warnings about wanted ends that an override holds dark: a crossconnect there is read back as dark, and fails."""
    for move in moves:
        name = move.switch
        for one in sorted(wanted[name], key=Crossconnect.sort_key):
            comes_to = "an apply makes it, fails and goes back" if one in move.add else "it stays so"
            for end in one.ends:
                if end in blocked.get(name, ()):
                    yield (
                        f"{name}:{one}: {end} is held dark by an override, and no light will pass: {comes_to}. "
                        f"`hwd unblock {name}:{end}` lets it go"
                    )


def needless_overrides(request: Request, interlocks: Iterable[Interlock]) -> Iterator[str]:
    """Warnings about overrides of interlocks that do not refuse."""
    used = {one.name for one in interlocks if one.state is InterlockState.OVERRIDDEN}
    used.add(InterlockName.TRANSFER_IN_FLIGHT)  # it is asked when the plan is applied
    for name in request.body.overrides.keys() - used:
        yield f"the override of {name} is not needed: it refuses nothing"


def side_effects(
    moves: Iterable[SwitchMoves], asked: Mapping[str, frozenset[Crossconnect]], then: State, fabric: Fabric
) -> Iterator[str]:
    """Side effects of a move: light that an element joins as well, and light that it may have joined before."""
    for move in moves:
        for one in move.add:
            here = switch_crossconnect(move.switch, one)
            if one in asked[move.switch] or one in move.before or not fabric.carries(here, then):
                continue
            ports = ", ".join(sorted(fabric.ports_reached([here], then), key=natural_key))
            yield (
                f"{here} comes with it, as its element moves as one: "
                f"it joins light of {ports or 'other devices'} that was not asked for"
            )
        if move.lasting:
            yield (
                f"{move.switch}: what {', '.join(move.lasting)} removes is unknown: "
                "the switch does not say where its element is. It is not brought back where this is rolled back"
            )
