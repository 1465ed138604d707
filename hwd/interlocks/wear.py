"""Interlocks of motion: the wear of the elements of switches, and how often a switch is changed."""

from collections.abc import Iterable, Iterator, Mapping

from hwd.interlocks.proposal import Motion
from hwd.model.interlock import Interlock, InterlockName, InterlockRules, InterlockState
from hwd.model.plural import plural
from hwd.model.testbed import Testbed
from hwd_drivers.core.values import natural_key
from hwd_drivers.switching.moves import SwitchMoves


def wear(moves: Iterable[SwitchMoves], motion: Motion, testbed: Testbed) -> Iterator[Interlock]:
    """Check each limit of each switch that moves: every element over the limit, or the element that has moved most."""
    rules = testbed.interlocks
    for move in moves:
        name = move.switch
        if move.is_empty or (name not in rules.moves_max and name not in rules.moves_per_hour_max):
            continue
        elements = testbed.switches[name].capabilities.moved_by((*move.remove, *move.add))
        if (limit := rules.moves_max.get(name)) is not None:
            yield from _of_elements(name, elements, motion.in_life.get(name, {}), limit, unit="moves")
        if (limit := rules.moves_per_hour_max.get(name)) is not None:
            yield from _of_elements(name, elements, motion.in_hour.get(name, {}), limit, unit="moves an hour")


def rate(moves: Iterable[SwitchMoves], motion: Motion, rules: InterlockRules) -> Iterator[Interlock]:
    """Check the rate of changes: an interlock for each switch that moves and whose rate is limited."""
    for move in moves:
        if move.is_empty or (limit := rules.changes_max.get(move.switch)) is None:
            continue
        before = motion.changes.get(move.switch, 0)
        over = before + 1 > limit
        yield Interlock(
            name=InterlockName.RATE,
            subject=move.switch,
            figure=before + 1,
            limit=limit,
            unit=f"changes in {rules.rate_s:g} s",
            state=InterlockState.REFUSED if over else InterlockState.HOLDS,
            why=f"it was changed {plural(before, 'time')} in the last {rules.rate_s:g} s, and {limit} are allowed. Wait"
            if over
            else "",
        )


def _of_elements(
    switch: str, elements: Iterable[str], before: Mapping[str, int], limit: int, *, unit: str
) -> Iterator[Interlock]:
    figures = {element: before.get(element, 0) + 1 for element in elements}
    over = sorted((element for element, figure in figures.items() if figure > limit), key=natural_key)
    for element in over:
        yield Interlock(
            name=InterlockName.WEAR,
            subject=f"{switch}:{element}",
            figure=figures[element],
            limit=limit,
            unit=unit,
            state=InterlockState.REFUSED,
            why=f"it has {figures[element] - 1} {unit}, and {limit} are allowed. "
            f"{'Use other ports, or wait' if 'hour' in unit else 'Use other ports'}",
        )
    if not over and figures:
        most = max(figures, key=lambda element: figures[element])
        yield Interlock(
            name=InterlockName.WEAR,
            subject=f"{switch}:{most}",
            figure=figures[most],
            limit=limit,
            unit=unit,
            state=InterlockState.HOLDS,
        )
