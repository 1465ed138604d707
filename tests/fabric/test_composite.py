"""Composites: the same answers as trying every state of every element, on small ones of any wiring; fabrics of many
elements in time; conflicts by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwd.fabric.composite import CompositeSwitch
from hwd.fabric.conflict import ConflictError
from hwd.fabric.graph import Graph
from hwd.fabric.partial_paths import Effort, PartialPaths, PathProblem
from hwd.model.link import SwitchCrossconnect
from hwd.model.testbed import Composite, Strand, Switch, Testbed
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import Crossconnect, Element, FibreEnd, PortSide

from ..capabilities import both_sides, capabilities

State = dict[str, frozenset[Crossconnect]]


def pair(text: str) -> Crossconnect:
    return Crossconnect.parse(text)


def states(*texts: str) -> tuple[tuple[Crossconnect, ...], ...]:
    return tuple(tuple(map(pair, text.split())) for text in texts)


KINDS: Mapping[str, tuple[bool, tuple[tuple[Crossconnect, ...], ...]]] = {
    "1x2": (False, states("in-1", "in-2")),
    "1x3 that can be dark": (False, states("in-1", "in-2", "in-3", "")),
    "2x2": (True, states("1A-1B 2A-2B", "1A-2B 2A-1B")),
    "two poles": (True, states("1A-1B 2A-3B", "1A-2B 2A-4B")),
}
MATRIX = "2x2 matrix"


def make_switch(name: str, kind: str) -> Switch:
    if kind == MATRIX:
        two_sided = True
        elements: tuple[Element, ...] = ()
        ends = both_sides(2)
    else:
        two_sided, each = KINDS[kind]
        elements = (Element(name="e", states=each),)
        ends = tuple(dict.fromkeys(end for state in each for one in state for end in one.ends))
    able = capabilities(ends, two_sided=two_sided, reciprocal=True, elements=elements)
    return Switch(name=name, driver="any", model=kind, capabilities=able, address="10.0.0.1")


def end_at(text: str) -> FibreEnd:
    switch, _, port = text.partition(".")
    side = PortSide.parse(port)
    return FibreEnd(owner=switch, port=side.port, side=side.side)


def composed(kinds: Mapping[str, str], wires: Sequence[tuple[str, str]], ports: Mapping[str, str]) -> CompositeSwitch:
    testbed = Testbed(
        name="t",
        switches={name: make_switch(name, kind) for name, kind in kinds.items()},
        hosts={},
        strands=tuple(Strand(ends=(end_at(one), end_at(other))) for one, other in wires),
        composites={
            "sel": Composite(name="sel", ports={PortSide.parse(port): end_at(place) for port, place in ports.items()})
        },
    )
    return CompositeSwitch(Graph(testbed), testbed.composites["sel"])


# --- judged by trying everything


@dataclass(frozen=True)
class Case:
    composite: CompositeSwitch
    present: State
    demands: tuple[Crossconnect, ...]

    @property
    def switches(self) -> dict[str, tuple[frozenset[Crossconnect], ...]]:
        """All that each switch could have."""
        found = {}
        for part in self.composite.inside.parts:
            if part.element is not None:
                found[part.switch] = tuple(map(frozenset, part.element.states))
            else:
                every = [pair(f"{a}A-{b}B") for a, b in product("12", "12")]
                found[part.switch] = tuple(
                    frozenset(some)
                    for size in range(3)
                    for some in combinations(every, size)
                    if len({end for one in some for end in one.ends}) == 2 * size
                )
        return found

    def moves(self, state: State) -> int:
        elements = {part.switch for part in self.composite.inside.parts if part.element is not None}
        return sum(
            (there != self.present[switch]) if switch in elements else len(there - self.present[switch])
            for switch, there in state.items()
        )

    def made_by(self, state: State) -> set[Crossconnect]:
        return {one.demand for one in self.composite.present_demands(state)}

    @cached_property
    def every_state(self) -> list[tuple[int, set[Crossconnect]]]:
        """Moves to it, and what it makes."""
        every = self.switches
        chosen = (dict(zip(every, each, strict=True)) for each in product(*every.values()))
        return [(self.moves(state), self.made_by(state)) for state in chosen]

    def best(self, demands: Sequence[Crossconnect]) -> int | None:
        return min((moves for moves, made in self.every_state if made.issuperset(demands)), default=None)


BANYAN = [("a1.1B", "b1.1A"), ("a1.2B", "b2.1A"), ("a2.1B", "b1.2A"), ("a2.2B", "b2.2A")]


def benes() -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Four to four, rearranged without blocking: six 2x2 in three stages."""
    wires = [("b1.1B", "c1.1A"), ("b1.2B", "c2.1A"), ("b2.1B", "c1.2A"), ("b2.2B", "c2.2A")]
    return dict.fromkeys(("a1", "a2", "b1", "b2", "c1", "c2"), "2x2"), BANYAN + wires


def banyan() -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Four to four with one way only from any end to any other."""
    return dict.fromkeys(("a1", "a2", "b1", "b2"), "2x2"), BANYAN


def spanke() -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Two to three by trees: a 1xN for each end."""
    kinds = {"a1": "1x3 that can be dark", "a2": "1x3 that can be dark", "b1": "1x2", "b2": "1x2", "b3": "1x2"}
    return kinds, [(f"a{one}.{other}", f"b{other}.{one}") for one in (1, 2) for other in (1, 2, 3)]


def clos() -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Matrices outside, elements in the middle."""
    kinds = {"a1": MATRIX, "a2": "2x2", "b1": "2x2", "b2": "2x2", "c1": MATRIX}
    return kinds, [*BANYAN, ("b1.1B", "c1.1A"), ("b2.1B", "c1.2A")]


@st.composite
def blind(draw: st.DrawFn) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Some elements with some of their ends joined, whichever."""
    chosen = [draw(st.sampled_from([*KINDS, MATRIX])) for _ in range(draw(st.integers(2, 4)))]
    kinds = {f"s{number}": kind for number, kind in enumerate(chosen)}
    ends = draw(st.permutations(sorted(_ends(kinds))))
    count = draw(st.integers(0, len(ends) // 2 - 1))
    return kinds, [(ends[2 * each], ends[2 * each + 1]) for each in range(count)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    wirings = st.one_of(blind(), st.sampled_from([benes(), banyan(), spanke(), clos()]))
    kinds, wires = draw(wirings)
    joined = {end for wire in wires for end in wire}
    loose = sorted(_ends(kinds) - joined)
    composite = composed(kinds, wires, {str(number): end for number, end in enumerate(loose, 1)})
    case = Case(composite, {}, ())
    present: State = {switch: draw(st.sampled_from(every)) for switch, every in case.switches.items()}
    leading = [
        (a, b)
        for a, b in combinations(range(1, len(loose) + 1), 2)
        if draw(st.integers(0, 9)) == 9 or composite.joinable(PortSide(port=str(a)), PortSide(port=str(b)))
    ]
    demands: list[Crossconnect] = []
    used: set[int] = set()
    for a, b in draw(st.permutations(leading))[:12]:
        if not used & {a, b} and len(demands) < 4:
            demands.append(pair(f"{a}-{b}"))
            used |= {a, b}
    return Case(composite, present, tuple(demands))


def _ends(kinds: Mapping[str, str]) -> set[str]:
    return {f"{name}.{end}" for name, kind in kinds.items() for end in make_switch(name, kind).capabilities.ends}


def carried(case: Case, crossconnects: frozenset[SwitchCrossconnect]) -> State:
    """A state with these crossconnects, as near to the present one as it goes."""
    state: State = {}
    for switch, every in case.switches.items():
        asked = {one.crossconnect for one in crossconnects if one.switch == switch}
        fit = [each for each in every if each >= asked]
        assert fit, f"{switch} cannot have {', '.join(map(str, asked))}"
        present = case.present[switch]
        state[switch] = present if present in fit else max(fit, key=lambda each: (len(each & present), -len(each)))
    return state


@settings(max_examples=60, deadline=None)
@given(cases())
def test_the_fewest_moves_of_all_states_that_do(case: Case) -> None:
    best = case.best(case.demands)
    if best is None:
        with pytest.raises(ConflictError):
            case.composite.compile(case.demands, case.present)
        return
    compiled = case.composite.compile(case.demands, case.present)
    assert (compiled.moves, compiled.proven) == (best, True)
    state = carried(case, compiled.crossconnects)
    assert case.made_by(state).issuperset(case.demands)
    assert case.moves(state) == best


@settings(max_examples=40, deadline=None)
@given(cases())
def test_the_smallest_of_all_sets_that_conflict_is_named(case: Case) -> None:
    subsets = (subset for size in range(len(case.demands) + 1) for subset in combinations(case.demands, size))
    smallest = next((len(subset) for subset in subsets if case.best(subset) is None), None)
    if smallest is None:
        assert case.composite.compile(case.demands, case.present).passages.keys() == set(case.demands)
        return
    with pytest.raises(ConflictError) as refused:
        case.composite.compile(case.demands, case.present)
    assert (len(refused.value.demands), case.best(refused.value.demands)) == (smallest, None)
    assert all(str(demand) in str(refused.value) for demand in refused.value.demands)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_what_stays_keeps_its_way(case: Case) -> None:
    standing = case.composite.present_demands(case.present)
    ends = {end for demand in case.demands for end in demand.ends}
    stay = [one for one in standing if not ends.intersection(one.demand.ends)]
    asked = {one for each in stay for one in each.passage.crossconnects}
    every = case.switches
    fit = [
        case.moves(state)
        for state in (dict(zip(every, each, strict=True)) for each in product(*every.values()))
        if all(one.crossconnect in state[one.switch] for one in asked) and case.made_by(state).issuperset(case.demands)
    ]
    if not fit:
        with pytest.raises(ConflictError):
            case.composite.compile(case.demands, case.present, stay=stay)
        return
    compiled = case.composite.compile(case.demands, case.present, stay=stay)
    assert (compiled.moves, compiled.proven) == (min(fit), True)
    for one in stay:
        assert compiled.passages[one.demand].crossconnects == one.passage.crossconnects


def test_one_move_counts_once_for_a_way_that_leads_through_its_element_twice() -> None:
    """1 to 2: through s1 twice and s3, which both move; the other way back to s1 moves s0 too."""
    composite = composed(
        {"s1": "two poles", "s3": "two poles", "s0": "1x3 that can be dark", "s2": "two poles"},
        [
            *[("s1.1A", "s3.1A"), ("s1.1B", "s0.3"), ("s1.3B", "s2.1B"), ("s1.2B", "s1.4B"), ("s3.1B", "s2.2B")],
            *[("s3.2A", "s2.4B"), ("s3.3B", "s3.4B"), ("s0.in", "s2.2A"), ("s0.1", "s0.2"), ("s2.1A", "s2.3B")],
        ],
        {"1": "s1.2A", "2": "s3.2B"},
    )
    present = {name: frozenset(map(pair, ("1A-1B", "2A-3B"))) for name in ("s1", "s3")} | {
        "s0": frozenset({pair("in-1")}),
        "s2": frozenset(map(pair, ("1A-2B", "2A-4B"))),
    }
    compiled = composite.compile([pair("1-2")], present)
    assert (compiled.moves, compiled.proven) == (2, True)


# --- fabrics of many elements


def large_benes(size: int) -> CompositeSwitch:
    """As many ends on both sides, 2x2s in as many stages as it takes to lead any to any without blocking."""
    kinds: dict[str, str] = {}
    wires: list[tuple[str, str]] = []

    def within(count: int, name: str) -> tuple[list[str], list[str]]:
        if count == 2:
            kinds[name] = "2x2"
            return [f"{name}.1A", f"{name}.2A"], [f"{name}.1B", f"{name}.2B"]
        upper, lower = within(count // 2, f"{name}u"), within(count // 2, f"{name}l")
        into, out = list[str](), list[str]()
        for number in range(count // 2):
            first, last = f"{name}i{number}", f"{name}o{number}"
            kinds[first] = kinds[last] = "2x2"
            wires.extend([(f"{first}.1B", upper[0][number]), (f"{first}.2B", lower[0][number])])
            wires.extend([(upper[1][number], f"{last}.1A"), (lower[1][number], f"{last}.2A")])
            into += [f"{first}.1A", f"{first}.2A"]
            out += [f"{last}.1B", f"{last}.2B"]
        return into, out

    into, out = within(size, "b")
    ports = {f"{number}A": end for number, end in enumerate(into, 1)}
    return composed(kinds, wires, ports | {f"{number}B": end for number, end in enumerate(out, 1)})


def all_bar(composite: CompositeSwitch) -> State:
    return {part.switch: frozenset(part.element.states[0]) for part in composite.inside.parts if part.element}


def shuffled(size: int, *, seed: int) -> list[Crossconnect]:
    order = list(range(1, size + 1))
    Random(seed).shuffle(order)
    return [pair(f"{a}A-{b}B") for a, b in enumerate(order, 1)]


STEPS_OF_A_MOMENT = 200_000
"""Some 0.1 s."""


def test_a_row_of_selectors_of_any_length_is_a_matter_of_a_moment() -> None:
    kinds = {f"s{number}": "1x3 that can be dark" for number in range(1, 1025)}
    ports = {f"{number}A": f"s{number}.in" for number in range(1, 1025)}
    ports |= {f"{3 * (number - 1) + way}B": f"s{number}.{way}" for number in range(1, 1025) for way in (1, 2, 3)}
    composite = composed(kinds, [], ports)
    present = all_bar(composite)
    demands = [pair(f"{number}A-{3 * number}B") for number in range(1, 1025)]
    compiled = composite.compile(demands, present, effort=STEPS_OF_A_MOMENT)
    assert (compiled.moves, compiled.proven) == (1024, True)
    assert composite.compile(demands[:1], present, stay=composite.present_demands(present)[1:]).moves == 1


def test_a_benes_fabric_of_56_elements_has_any_order_with_the_fewest_moves() -> None:
    composite = large_benes(16)
    assert len(composite.inside.parts) == 56
    for seed in range(3):
        compiled = composite.compile(shuffled(16, seed=seed), all_bar(composite))
        assert compiled.proven
        assert len(compiled.passages) == 16


def test_a_benes_fabric_of_832_elements_has_any_order() -> None:
    composite = large_benes(128)
    demands = shuffled(128, seed=1)
    composite.check(demands, effort=STEPS_OF_A_MOMENT)
    compiled = composite.compile(demands, all_bar(composite), effort=STEPS_OF_A_MOMENT)
    assert len(composite.inside.parts) == 832
    assert compiled.moves_at_least <= compiled.moves
    state = {
        part.switch: next(
            frozenset(one)
            for one in part.element.states
            if {each.crossconnect for each in compiled.crossconnects if each.switch == part.switch} <= set(one)
        )
        for part in composite.inside.parts
        if part.element
    }
    assert {one.demand for one in composite.present_demands(state)} == set(demands)


def test_where_the_effort_does_not_last_the_answer_says_so_or_it_is_an_error_and_no_conflict() -> None:
    composite, demands = large_benes(32), shuffled(32, seed=1)
    compiled = composite.compile(demands, all_bar(composite), effort=20_000)
    assert not compiled.proven
    exact = composite.compile(demands, all_bar(composite))
    assert compiled.moves_at_least <= exact.moves <= compiled.moves
    assert exact.proven
    said = r"cannot decide whether its 32 demands can be met at once: 100 steps"
    with pytest.raises(RefusedError, match=said) as refused:
        composite.check(demands, effort=100)
    assert not isinstance(refused.value, ConflictError)


# --- why not, in words


def test_a_conflict_names_its_demands_and_where_they_meet() -> None:
    ports = {"1A": "a1.1A", "2A": "a1.2A", "3A": "a2.1A", "4A": "a2.2A"}
    ports |= {"1B": "b1.1B", "2B": "b1.2B", "3B": "b2.1B", "4B": "b2.2B"}
    said = r"sel: cannot make 1A-1B, 2A-2B at once: they meet in a1 e, b1 e; "
    with pytest.raises(ConflictError, match=said) as refused:
        composed(*banyan(), ports).compile([pair("1A-1B"), pair("4A-4B"), pair("2A-2B")], {})
    assert set(refused.value.demands) == {pair("1A-1B"), pair("2A-2B")}
    composite = composed(*benes(), {"1A": "a1.1A", "1B": "c1.1B", "2B": "c1.2B"})
    with pytest.raises(ConflictError, match="1A-1B and 1A-2B both need 1A; an end is in one demand at a time"):
        composite.compile([pair("1A-1B"), pair("1A-2B")], {})
    composite = composed({"s1": "1x2", "s2": "1x2"}, [], {"1A": "s1.in", "2A": "s2.in", "1B": "s1.1", "2B": "s2.1"})
    with pytest.raises(ConflictError, match="sel: cannot make 1A-2B: no path leads inside from 1A to 2B"):
        composite.compile([pair("1A-2B")], {})


def test_what_is_asked_of_elements_by_name_is_part_of_it() -> None:
    composite = composed({"s1": "1x2"}, [], {"1A": "s1.in", "1B": "s1.1", "2B": "s1.2"})
    needed = SwitchCrossconnect.parse("s1:in-2")
    with pytest.raises(ConflictError, match="cannot make 1A-1B: the crossconnects needed of its elements"):
        composite.compile([pair("1A-1B")], {"s1": frozenset([pair("in-2")])}, needed=[needed])
    assert composite.compile([pair("1A-2B")], {"s1": frozenset([pair("in-1")])}, needed=[needed]).moves == 1


def test_a_way_with_no_choice_left_is_taken_without_a_search() -> None:
    """The state of the first element is given; its other ends lead on as well."""
    wires = [("s1.1", "s2.1"), ("s1.2", "s2.2")]
    inside = composed({"s1": "1x2", "s2": "1x2"}, wires, {"1": "s1.in", "2": "s2.in"}).inside
    entry, out = (inside.ports[PortSide(port=port)] for port in "12")
    for states, through in ((0b01, "1"), (0b10, "2")):
        given = PathProblem(
            inside=inside, demands=((entry, out),), present=[None, None], needed={inside.part_of[entry]: states}
        )
        found = PartialPaths(given, Effort(100))
        assert found.begin()
        assert found.open == ()
        assert [str(inside.ends[end]) for end in found.front[0][0]] == ["s1.in", f"s1.{through}"]
