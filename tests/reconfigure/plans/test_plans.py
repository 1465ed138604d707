"""Plans: the least moves for what is wanted, what goes dark by them, whose ports they touch, and what is refused."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hwd.config.testbed.wanted_state import parse_what
from hwd.model.bodies import PlanBody
from hwd.model.link import SwitchCrossconnect
from hwd.model.plan import Plan
from hwd.model.request import Request, WantedState
from hwd.reconfigure.plans.planner import Planner
from hwd_drivers.core.errors import ConfigError, HwdError, LinkError, RefusedError
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.core.structs import from_plain, to_json
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.switching.moves import ApplyMode

from ...answers import check_answers
from ..conftest import Lab, wanted
from .conftest import TWO_HOSTS, Desk, pairs, readings

HEAD = """testbed: array
switches:
  osw1: {driver: osw, model: osw, size: 2x4, twin: {}}
  x1: {driver: thorlabs-osw, model: osw22, twin: {}}
  x2: {driver: thorlabs-osw, model: osw22, twin: {}}
  p1: {driver: thorlabs-osw, model: osw12, twin: {}}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}, eth1: {module: 100g-lr4}}}
"""
LONE = f"""{HEAD}fibres:
  - h0.eth0.tx -> x1.1A
  - x1.1B -> h0.eth1.rx
  - h0.eth1.tx -> osw1.1A
  - osw1.1B -> h0.eth0.rx
"""
BANYAN = f"""{HEAD}composites:
  sel: {{ports: {{1A..2A: x1.1A..2A, 1B..2B: x2.1B..2B, 3B: p1.1, 4B: p1.2, 3A: osw1.1A, 5B..8B: osw1.1B..4B}}}}
fibres:
  - x1.1B <-> x2.1A
  - x1.2B <-> p1.in
  - h0.eth0.tx -> sel.1A
  - sel.1B -> h0.eth1.rx
  - h0.eth1.tx -> sel.3A
  - sel.5B -> h0.eth0.rx
"""
BENES = ("a1", "a2", "m1", "m2", "z1", "z2")
BENES_WIRES = "".join(
    f"  - {one}.{port}B <-> {other}.{back}A\n"
    for ones, others in ((("a1", "a2"), ("m1", "m2")), (("m1", "m2"), ("z1", "z2")))
    for back, one in enumerate(ones, 1)
    for port, other in enumerate(others, 1)
)
PARTS = "".join(f"  {name}: {{driver: thorlabs-osw, model: osw22, twin: {{}}}}\n" for name in BENES)
BENES_ENDS = "1A..2A: a1.1A..2A, 3A..4A: a2.1A..2A, 1B..2B: z1.1B..2B, 3B..4B: z2.1B..2B"
ALWAYS_ON = f"""testbed: benes
switches:
{PARTS}hosts:
  h0: {{nics: {{eth0: {{module: 100g-lr4}}}}}}
composites:
  sel: {{ports: {{{BENES_ENDS}}}}}
fibres:
  - h0.eth0 <-> sel.1
{BENES_WIRES}"""
"""Six 2x2 join all ends always: where something is freed there comes something else."""
BEHIND = """\
testbed: behind
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, address: "10.0.0.5"}
  ocs2: {driver: polatis-tl1, model: polatis-6000, size: 8x8, address: "10.0.0.6"}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}}}
  h1: {nics: {eth0: {module: 100g-lr4}}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h1.eth0 <-> ocs2.1
  - ocs1.8 <-> ocs2.8
"""
REST = {"osw1": "", "x1": "1A-1B 2A-2B", "x2": "1A-1B 2A-2B", "p1": "in-1"}
CROSSED_BENES = dict.fromkeys(BENES, "1A-1B 2A-2B") | dict.fromkeys(("a1", "m1", "m2", "z2"), "1A-2B 2A-1B")
DESKS = {
    "two hosts": (TWO_HOSTS, {"ocs1": ""}),
    "a switch of a host": (TWO_HOSTS.replace("size: 8x8", "size: 8x8, owner: h0"), {"ocs1": ""}),
    "two switches, one is not read": (BEHIND, {"ocs1": "1A-8B 8A-1B"}),
    "elements: two to four, two 2x2, a 1x2": (LONE, REST),
    "the same as a composite: a 2x2 that leads to another, and to a 1x2; a 1x4 that can be dark": (BANYAN, REST),
    "six 2x2 that join all ends always": (ALWAYS_ON, CROSSED_BENES),
}


TWO = Desk(TWO_HOSTS)


def desk_of(text: str) -> Desk:
    return Desk(text, lambda switches, links: (1.5, f"told for {' '.join(switches)}{'' if links else ', no link'}"))


def said_of(plan: Plan, read: tuple[str, ...]) -> Iterator[str]:
    yield f"reads {' '.join(read)}"
    for move in plan.moves:
        words = [f"-{one}" for one in move.remove] + [f"+{one}" for one in move.add] + [f"={one}" for one in move.keep]
        unknown = f"; what {', '.join(map(str, move.lasting))} removes is unknown" if move.lasting else ""
        yield f"{move.switch}: {' '.join(words) or 'nothing'}{unknown}"
    for link in plan.links:
        yield f"link {link.routed.link}{', kept' if link.kept else ''}"
    for name, named in (("dark", plan.dark), ("touches", sorted(plan.touches))):
        yield from [f"{name}: {', '.join(map(str, named))}"] if named else []
    for composite in plan.composites:
        yield str(composite)
        yield to_json(composite).decode()
    yield from (f"warning: {one}" for one in plan.warnings)
    yield f"expected: {plan.expected_s:g} s, {plan.expected_from}{'; nothing moves' if plan.empty else ''}"


def answer(desk: Desk, rest: Mapping[str, str], asked: str) -> Iterator[str]:
    """To what is asked for, with a line for each key of the request, and for each switch that carries other light."""
    what, *lines = asked.splitlines()
    there, body = dict(rest), dict[str, Any]()
    for key, _, value in (line.partition(": ") for line in lines):
        (there if key in desk.testbed.switches else body)[key] = value.removeprefix("unknown")
    body = {key: yaml.safe_load(value) for key, value in body.items()}
    try:
        read = desk.planner.router.route(Request(wanted=parse_what(what, desk.testbed))).switches
        yield from said_of(desk.plan(what, there, **body), read)
    except HwdError as error:
        yield f"{type(error).__name__}: {error}"


def test_plans_say_what_moves_or_why_they_are_refused() -> None:
    desks = {name: partial(answer, desk_of(text), rest) for name, (text, rest) in DESKS.items()}
    check_answers(Path(__file__).with_name("plans.txt"), desks)


def test_what_cannot_be_is_refused_by_name() -> None:
    desk = Desk(TWO_HOSTS)
    both = tuple(SwitchCrossconnect(switch="ocs1", crossconnect=one) for one in set_of("1A-2B 1A-3B"))
    with pytest.raises(ConfigError, match="ocs1: 1A-3B and 1A-2B both want 1A"):
        desk.planner.router.route(Request(wanted=WantedState(name="x", crossconnects=both)))
    with pytest.raises(ConfigError, match="asks for no crossconnect"):
        desk.planner.router.route(Request(wanted=WantedState(name="nothing")))
    with pytest.raises(LinkError, match="ocs1: cannot plan"):
        desk.plan("ocs1:1A-2B", {})


def set_of(text: str) -> set[Crossconnect]:
    return {*pairs(text)}


def states() -> st.SearchStrategy[str]:
    """Crossconnects on eight ports, no end twice."""
    return st.permutations(range(1, 9)).flatmap(
        lambda order: st.sets(st.integers(0, 7), min_size=1).map(
            lambda at: " ".join(f"{place + 1}A-{order[place]}B" for place in sorted(at))
        )
    )


@given(states(), states(), st.sampled_from([ApplyMode.UPDATE, ApplyMode.OVERWRITE]))
def test_after_any_plan_what_is_wanted_is_there_and_no_end_is_used_twice(
    wanted: str, there: str, mode: ApplyMode
) -> None:
    def make(there: str) -> Plan:
        return TWO.plan(f"ocs1:{wanted.replace(' ', ',')}", {"ocs1": there}, mode=mode)

    plan = make(there)
    (move,) = plan.moves
    assert set_of(wanted) <= move.after
    ends = [end for one in move.after for end in one.ends]
    assert len(ends) == len(set(ends))
    assert not set(move.remove) & set(move.keep)
    if mode is ApplyMode.OVERWRITE:
        assert move.after == set_of(wanted)
    else:
        wanted_ends = {end for one in set_of(wanted) for end in one.ends}
        spared = {one for one in set_of(there) if not wanted_ends & set(one.ends)}
        assert spared <= move.after
    assert make(" ".join(map(str, move.after))).empty
    assert make(there).hash == plan.hash


def test_the_summary_has_sums_without_the_rounding_of_the_machine() -> None:
    summary = TWO.plan("ocs1:1A-3B,3A-1B", {"ocs1": ""}).summary
    figures = [figure for link in summary.links for one in link.circuits for figure in (one.margin_db, one.loss_db_max)]
    assert figures
    assert [len(repr(figure)) for figure in figures if len(repr(figure)) > 8] == [], figures


def test_what_is_touched_is_not_in_the_hash() -> None:
    made = TWO.plan("ocs1:1A-5B", {"ocs1": "1A-3B"})
    assert dataclasses.replace(made, touches=frozenset()).hash == made.hash


async def test_neither_a_link_nor_half_a_link_of_another_lease_goes_dark(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B")
    await lab.lease("h1.eth0", for_s=60)
    with pytest.raises(RefusedError, match=r"h1\.eth0: leased to ada"):
        await lab.apply("ocs1:1A-5B")
    with pytest.raises(RefusedError, match=r"h1\.eth0: leased to ada"):
        await lab.apply("ocs1:2A-3B")
    assert lab.light() == wanted("ocs1:1A-3B")
    await lab.apply("ocs1:2A-4B,4A-2B", ready_within_s=15)
    await lab.lease("h1.eth1", holder="ben")
    with pytest.raises(RefusedError, match=r"h1\.eth1: leased to ben"):
        await lab.apply("ocs1:2A-5B")
    assert lab.light() == wanted("ocs1:1A-3B,2A-4B,4A-2B")


# --- what may search for seconds, ways through composites and orders of steps, is asked in a thread, and nothing else


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Noted:
    """Notes what it is asked to run in a thread."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self.asked.append(fn.__name__)
        return await InlineOffload()(fn, *args)


async def planned(desk: Desk, noted: Noted, what: str, there: dict[str, str], **body: Any) -> Plan:
    planner = Planner(desk.fabric, lambda switches, links: (0.0, "nobody"), offload=noted)
    request = Request(wanted=parse_what(what, desk.testbed), body=from_plain({"what": what, **body}, PlanBody))
    routed = await planner.route(request)
    return await planner.plan(routed, {name: readings(text) for name, text in there.items()}, {})


async def test_a_thread_is_asked_where_there_is_something_to_search_and_says_what_the_planner_does() -> None:
    two, banyan = Desk(TWO_HOSTS), Desk(BANYAN)
    noted = Noted()
    for desk, what, there, steps, asked in (
        (two, "ocs1:1A-3B", {"ocs1": ""}, False, []),
        (two, "ocs1:1A-3B", {"ocs1": ""}, True, ["plan_at_once"]),
        (banyan, "sel:1A-4B", REST, False, ["route", "plan_at_once"]),
    ):
        noted.asked.clear()
        assert await planned(desk, noted, what, there, steps=steps) == desk.plan(what, there, steps=steps), what
        assert noted.asked == asked, (what, steps)
    with pytest.raises(RefusedError, match="sel: cannot make 1A-1B, 2A-2B at once"):
        await planned(banyan, noted, "sel:1A-1B,2A-2B", REST)
