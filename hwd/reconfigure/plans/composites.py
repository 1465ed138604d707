"""Demands on composites as crossconnects of their elements, so that existing ways stay where possible."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from hwd.fabric.composite import CompiledDemands, CompositeSwitch, PresentDemand
from hwd.fabric.conflict import ConflictError
from hwd.fabric.state import State
from hwd.model.link import SwitchCrossconnect
from hwd.model.plan_summary import PlanComposite
from hwd.model.plural import plural
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import Crossconnect, CrossconnectState, PortSide, natural_key
from hwd_drivers.switching.moves import ApplyMode


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeDemand:
    """The demand on one composite.

    `needed`: crossconnects that the request names on its elements directly. `used`: whether light passes a
    crossconnect.
    """

    demands: frozenset[Crossconnect]
    mode: ApplyMode
    used: Callable[[SwitchCrossconnect], bool]
    emptied: bool = False
    freed: frozenset[PortSide] = frozenset()
    needed: tuple[SwitchCrossconnect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeWay:
    """The crossconnects that elements must get, must keep and must lose."""

    compiled: CompiledDemands
    moves: PlanComposite
    wanted: frozenset[SwitchCrossconnect]
    staying: frozenset[SwitchCrossconnect]
    gone: frozenset[SwitchCrossconnect]
    warnings: tuple[str, ...]


def lead(composite: CompositeSwitch, asked: CompositeDemand, present: State) -> CompositeWay:
    """Raises RefusedError: in use under `safe`, demands that conflict, an element that cannot be dark."""
    standing = composite.present_demands(_without_failed(present))
    if not (asked.emptied or asked.mode is ApplyMode.OVERWRITE):
        near = composite.near([*asked.freed, *(end for demand in asked.demands for end in demand.ends)])
        standing = tuple(one for one in standing if near(one.demand))
    kept = [one for one in standing if one.demand in asked.demands]
    ends = asked.freed.union(end for demand in asked.demands for end in demand.ends)
    rest = [one for one in standing if one.demand not in asked.demands]
    to_remove = [one for one in rest if asked.emptied or ends.intersection(one.demand.ends)]
    used = {one.demand for one in standing if any(map(asked.used, one.passage.crossconnects[:1]))}
    if asked.mode is ApplyMode.SAFE:
        _refuse_used(composite, asked, to_remove, used)
    over = asked.mode is ApplyMode.OVERWRITE
    staying = [] if over else [one for one in rest if one not in to_remove]
    compiled, stays = _compile(composite, asked, present, staying, used)
    wanted, firm = set[SwitchCrossconnect](), set[SwitchCrossconnect]()
    warnings = []
    for one in [*stays, *kept]:
        passage = compiled.passages[one.demand]
        if passage.crossconnects == one.passage.crossconnects:
            firm.update(passage.crossconnects)
        else:
            wanted.update(passage.crossconnects)
            warnings.append(
                f"{composite.name}: {one.demand} stays, and is led another way inside: "
                "its light is away while elements move"
            )
    for demand in asked.demands:
        wanted.update(compiled.passages[demand].crossconnects)
    lost = [one for one in staying if one not in stays]
    warnings += [f"{composite.name}: {one.demand} carries no light and gives way" for one in lost]
    if not compiled.proven:
        warnings.append(
            f"{composite.name}: its path moves {plural(compiled.moves, 'element')}; at least "
            f"{compiled.moves_at_least} must, and that fewer than {compiled.moves} would do is not ruled out"
        )
    cut = [one for one in to_remove if asked.emptied or asked.freed.intersection(one.demand.ends)]
    gone = set[SwitchCrossconnect]()
    for one in cut if not over else [one for one in rest if one not in stays]:
        found = _cut(composite, one, wanted | firm, gone)
        if found is not None:
            gone.add(found)
        elif one in cut:
            raise RefusedError(_cannot_be_dark(composite, asked, one))
    moves = PlanComposite(
        composite=composite.name,
        remove=[
            one.demand for one in (*to_remove, *lost, *([one for one in rest if one not in to_remove] if over else []))
        ],
        add=sorted(asked.demands - {one.demand for one in kept}, key=Crossconnect.sort_key),
        keep=[one.demand for one in kept],
        through={
            demand: [*compiled.passages[demand].crossconnects]
            for demand in sorted(asked.demands, key=Crossconnect.sort_key)
        },
        moves=compiled.moves,
        moves_at_least=compiled.moves_at_least,
        darkened=len(gone),
    )
    return CompositeWay(
        compiled=compiled,
        moves=moves,
        wanted=frozenset(wanted),
        staying=frozenset(firm),
        gone=frozenset(gone),
        warnings=tuple(warnings),
    )


def settle(
    composite: CompositeSwitch, led: CompositeWay, now: State, then: State, asked: CompositeDemand
) -> CompositeWay:
    """`led` with all that the elements join after the move: an element that cannot be dark joins more than was asked.

    Raises RefusedError where that is at an end that shall be free.
    """
    before = {one.demand: one.passage.crossconnects for one in composite.present_demands(now)}
    failed = before.keys() - {one.demand for one in composite.present_demands(_without_failed(now))}
    after = {one.demand: one.passage.crossconnects for one in composite.present_demands(then)}
    for demand in sorted(after.keys() - asked.demands - failed, key=Crossconnect.sort_key):
        end = next((end for end in demand.ends if asked.emptied or end in asked.freed), None)
        if end is not None:
            raise RefusedError(
                f"{composite.name}: cannot {'be emptied' if asked.emptied else f'free {end}'}: "
                f"{demand} would be there, "
                "by elements that move and always join something. Ask for another crossconnect at its ends, "
                "or hold an end dark with `hwd block` where a switch can"
            )
    standing = [demand for demand in led.moves.remove if demand in after]
    said = [
        f"{composite.name}: {demand} stays: none of the elements that it leads through can be dark"
        if after[demand] == before[demand]
        else f"{composite.name}: {demand} is there again, led another way: its light is away while elements move"
        for demand in standing
    ]
    moves = structs.replace(led.moves, remove=[one for one in led.moves.remove if one not in after])
    return replace(led, moves=moves, warnings=(*led.warnings, *said))


def _compile(
    composite: CompositeSwitch,
    asked: CompositeDemand,
    present: State,
    staying: Sequence[PresentDemand],
    used: set[Crossconnect],
) -> tuple[CompiledDemands, list[PresentDemand]]:
    """Compile the demands, and return what stays.

    It tries in this order: all of `staying` unchanged; ways without light
    changed; any way changed, unless `safe`; ways without light dropped.
    """
    lit = [one for one in staying if one.demand in used]
    idle = [one for one in staying if one.demand not in used]
    attempts: list[tuple[Sequence[PresentDemand], Sequence[PresentDemand]]] = [(staying, ())]
    if idle and lit:
        attempts.append((lit, idle))
    if asked.mode is not ApplyMode.SAFE or not lit:
        attempts.append(((), staying))
        if idle:
            attempts.append(((), lit))
    demands = sorted(asked.demands, key=Crossconnect.sort_key)
    refused: ConflictError | None = None
    for number, (firm, loose) in enumerate(attempts, 1):
        try:
            wanted = [*demands, *(one.demand for one in loose)]
            compiled = composite.compile(
                wanted, present, stay=firm, needed=asked.needed, explain=number == len(attempts)
            )
        except ConflictError as conflict:
            refused = conflict
        else:
            return compiled, [*firm, *loose]
    assert refused is not None
    theirs = ", ".join(one.demand for one in staying if one.demand in refused.demands)
    if not theirs:
        raise refused
    remedy = "free it first" if asked.mode is not ApplyMode.SAFE else "--mode update may lead it another way"
    raise ConflictError(f"{refused}. {theirs} stands already; {remedy}", refused.demands)


def _refuse_used(
    composite: CompositeSwitch, asked: CompositeDemand, to_remove: Iterable[PresentDemand], used: set[Crossconnect]
) -> None:
    for one in to_remove:
        can_be_dark = any(_shuttable(composite, each, set()) for each in one.passage.crossconnects)
        if one.demand not in used and not can_be_dark:
            continue
        if asked.emptied:
            raise RefusedError(
                f"{composite.name}: cannot be emptied: it carries {one.demand}. Remove it with --mode update"
            )
        if free := sorted(asked.freed.intersection(one.demand.ends), key=natural_key):
            raise RefusedError(
                f"{composite.name}: cannot free {free[0]}: it carries {one.demand}. Remove it with --mode update"
            )
        wants, end = next(
            (demand, end)
            for demand in sorted(asked.demands, key=Crossconnect.sort_key)
            for end in demand.ends
            if end in one.demand.ends
        )
        raise RefusedError(
            f"{composite.name}: cannot connect {wants}: {end} already carries {one.demand}. "
            "Replace it with --mode update, or choose another port"
        )


def _cut(
    composite: CompositeSwitch, one: PresentDemand, needed: set[SwitchCrossconnect], gone: set[SwitchCrossconnect]
) -> SwitchCrossconnect | None:
    """The crossconnect to remove so that a way ends; None where no element on it can be dark."""
    through = one.passage.crossconnects
    already = next((each for each in through if each in gone), None)
    return already or next((each for each in through if _shuttable(composite, each, needed)), None)


def _shuttable(composite: CompositeSwitch, one: SwitchCrossconnect, needed: set[SwitchCrossconnect]) -> bool:
    """Whether its element has a state without it and with all that is needed."""
    if one in needed:
        return False
    element = composite.element_of(one)
    if element is None:
        return True
    mine = frozenset(each.crossconnect for each in needed if each.switch == one.switch) & element.crossconnects
    return any(mine == frozenset(state) for state in element.states)


def _cannot_be_dark(composite: CompositeSwitch, asked: CompositeDemand, one: PresentDemand) -> str:
    ends = sorted(asked.freed.intersection(one.demand.ends), key=natural_key)
    what = "be emptied" if asked.emptied else f"free {ends[0]}"
    return (
        f"{composite.name}: cannot {what}: none of the elements that {one.demand} leads through "
        f"({', '.join(one.passage.crossconnects)}) can be dark. "
        "Ask for another crossconnect at its ends, or hold an end dark with `hwd block` where a switch can"
    )


def _without_failed(state: State) -> State:
    return {
        switch: tuple(
            one if isinstance(one, Crossconnect) else one.crossconnect
            for one in found
            if isinstance(one, Crossconnect) or one.state is not CrossconnectState.FAILED
        )
        for switch, found in state.items()
    }
