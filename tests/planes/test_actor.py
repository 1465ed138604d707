"""What an actor makes of a plane's answers, event by event."""

import random
from collections.abc import Mapping
from dataclasses import replace as replace_view
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.plane import (
    MOST_PREPARED,
    Action,
    Applied,
    CommunicationGroup,
    Done,
    Event,
    Failure,
    Fallback,
    Grant,
    Intent,
    Job,
    NotReady,
    PortView,
    Prepare,
    Rank,
    Recovery,
    Refuse,
    Route,
    StaticRoute,
    Switch,
    Target,
    Tick,
    View,
)
from hwd.planes import Breach, Gathering, PlaneActor, PlaneError, RegionalLight
from hwd.planes.actor import AnswerRanks, DriveTo, PrepareTarget, SetRoutes
from hwd.planes.target_rules import FALLBACK
from hwd_agents.wire import Operation, OperationKind
from hwd_drivers.core.errors import BugError

from ..answers import check_golden
from .conftest import Scripted

PORTS = [NicPortId(host=f"h{host}", port=f"eth{port}") for host in range(3) for port in range(2)]
H0, H1, H2 = (PORTS[0], PORTS[1]), (PORTS[2], PORTS[3]), (PORTS[4], PORTS[5])
NEAR, FAR, REST = Link.of(H0[0], H1[0]), Link.of(H0[0], H2[1]), Link.of(H1[1], H2[0])
VIEW = View(
    ports={port: PortView() for port in PORTS}, ends=frozenset({"ocs1.1", "ocs1.2"}), topology=lambda text: (NEAR,)
)
JOB = Job(
    id="j",
    ranks=tuple(Rank(number=number, host=f"h{number}") for number in range(3)),
    groups={"all": CommunicationGroup(name="all", ranks=(0, 1, 2))},
)
OPERATION = Operation(group="all", kind=OperationKind.ALL_REDUCE, index=0, size_bytes=64_000_000)


ROUTE = StaticRoute(host="h1", to=H0[0], port=H1[0])
BOTH = {"near": Target(links=(NEAR, REST)), "far": Target(links=(FAR, REST))}
SAME = BOTH | {"same": Target(links=(NEAR, REST), routes=(ROUTE,))}
RING = tuple(Link.of(one[1], other[0]) for one, other in ((H0, H1), (H1, H2), (H2, H0)))
ACROSS, LEFT, RIGHT = Link.of(H0[1], H1[1]), NEAR, REST
REGIONS = {
    "left": Target(links=(LEFT,), ports=LEFT.ends),
    "right": Target(links=(RIGHT,), ports=RIGHT.ends),
    "dark": Target(ports=RIGHT.ends),
    "across": Target(links=(ACROSS,), ports=ACROSS.ends),
    "whole": Target(links=(LEFT, Link.of(H0[1], H2[0]))),
}
"""Two of one link each, `left` and `right`; `across` is a link between them, `whole` is about all of the job."""


class Acted:
    """An actor whose plane answers each event with what the test says; its light is `at` these targets."""

    def __init__(
        self, targets: Mapping[str, Target], *at: str, view: View = VIEW, fallback: Target | None = None
    ) -> None:
        self._plane = Scripted(targets)
        self.actor = PlaneActor(self._plane, JOB, view, fallback=fallback)
        for target in at:
            self.go(target)

    def take(self, event: Event, *answers: Action) -> tuple[object, ...]:
        self._plane.answers = [*answers]
        return self.actor.take(event)

    def go(self, target: str) -> None:
        self.take(Tick(at_s=0), Switch(target=target))
        self.take(Applied(target=target))

    @property
    def where(self) -> tuple[list[str], list[str]]:
        """The targets that the light is at, and those that it is on its way to."""
        return [*self.actor.at], [*self.actor.moving]


def ask(rank: int, peer: int | None = None) -> Intent:
    pair = replace(OPERATION, kind=OperationKind.SEND, peer=peer)
    return Intent(rank=rank, operation=OPERATION if peer is None else pair)


def test_ranks_are_answered_and_the_light_is_driven() -> None:
    one = Acted(BOTH)
    assert one.take(ask(0), Switch(target="near")) == (DriveTo(target="near"),)
    assert one.where == ([], ["near"])
    assert one.take(Applied(target="near"), Grant(ranks=(0,))) == (AnswerRanks(ranks=(0,)),)
    assert (one.where, one.actor.sending, one.actor.waiting) == ((["near"], []), {0}, {})
    one.take(Done(rank=0))
    assert one.actor.sending == set()
    assert one.take(ask(1), Refuse(ranks=(1,), why="")) == (
        AnswerRanks(ranks=(1,), why="its control plane gave no reason"),
    )


def test_only_ranks_whose_light_moves_are_in_the_way() -> None:
    """h0 and h1 have a link at `near`, h0 and h2 at `far`: all three are touched, and only rank 2 sends."""
    one = Acted(BOTH, "near")
    assert one.actor.touched_by("far") == {H0[0], H1[0], H2[1]}
    one.take(ask(2), Grant(ranks=(2,)))
    with pytest.raises(PlaneError, match=r"switch under a transfer: to far: rank 2 sends over h2\.eth1"):
        one.take(Tick(at_s=1), Switch(target="far"))


def test_nobody_sends_where_no_light_joins_the_group() -> None:
    """A pair needs its own two hosts, and a group all of its."""
    one = Acted({"half": Target(links=(NEAR,))}, "half")
    assert one.take(ask(0, peer=1), Grant(ranks=(0,))) == (AnswerRanks(ranks=(0,)),)
    with pytest.raises(PlaneError, match="grant before applied: rank 1: the light of half does not join h0, h1, h2"):
        one.take(ask(1), Grant(ranks=(1,)))


def test_hosts_on_a_packet_switch_need_no_light_and_others_do() -> None:
    electrical = {NicPortId(host=f"h{host}", port="eth9"): PortView() for host in range(2)}
    one = Acted({}, view=replace_view(VIEW, electrical=electrical))
    assert one.take(ask(0, peer=1), Grant(ranks=(0,))) == (AnswerRanks(ranks=(0,)),)
    with pytest.raises(PlaneError, match="the light is at no target of the plane"):
        one.take(ask(1, peer=2), Grant(ranks=(1,)))


def test_routes_stay_while_a_rank_of_their_host_sends_and_count_until_the_next_target() -> None:
    one = Acted(SAME, "near")
    assert one.take(Tick(at_s=1), Route(routes=(ROUTE,))) == (SetRoutes(routes=(ROUTE,)),)
    one.take(ask(1), Grant(ranks=(1,)))
    with pytest.raises(PlaneError, match="switch under a transfer: to a route: rank 1 sends by routes of its host"):
        one.take(Tick(at_s=1), Route(routes=()))
    one.take(Tick(at_s=2), Switch(target="same"))
    assert one.where[1] == ["same"], "the routes of h1 stay as they are"
    with pytest.raises(PlaneError, match="switch while moving: it sets routes on the way to same"):
        one.take(Tick(at_s=2), Route(routes=()))


def test_rank_whose_routes_change_is_not_let_go_before_they_are_set() -> None:
    one = Acted(SAME, "near")
    one.take(ask(0), Switch(target="same"), Grant(ranks=(0,)))
    with pytest.raises(PlaneError, match="grant before applied: rank 1: routes of its host change to same"):
        one.take(ask(1), Grant(ranks=(1,)))


def test_what_is_no_action_is_a_breach_and_no_error_of_ours() -> None:
    links: Any = [NEAR]
    made: list[tuple[Any, dict[str, Any]]] = [(Grant, {"ranks": wrong}) for wrong in (3, [0], ("0",))]
    made += [(Switch, {"target": ["near"]}), (Refuse, {"ranks": (0,), "why": None}), (Route, {"routes": ("h0",)})]
    made += [(Fallback, {"why": 3}), (Prepare, {"id": "p", "target": Target(links=links)}), (str, {"object": "switch"})]
    for kind, fields in made:
        with pytest.raises(PlaneError) as caught:
            Acted(BOTH).take(ask(0), kind(**fields))
        assert caught.value.breach is Breach.NO_ACTION, fields


def test_nobody_sends_over_light_that_moves_or_that_nobody_has_seen() -> None:
    one = Acted(BOTH)
    one.take(ask(0))
    with pytest.raises(PlaneError, match="grant before applied: rank 0: the light is at no target of the plane"):
        one.take(ask(1), Grant(ranks=(0,)))
    one.take(Tick(at_s=0), Switch(target="near"))
    one.take(NotReady(target="near", why="a mirror is stuck"))
    with pytest.raises(PlaneError, match="the light is at no target"):
        one.take(Tick(at_s=1), Grant(ranks=(0,)))


def test_after_a_target_that_was_not_reached_all_ports_of_the_job_count_as_moving() -> None:
    one = Acted(BOTH, "near")
    assert one.actor.touched_by("near") == set()
    one.take(Tick(at_s=1), Switch(target="far"))
    one.take(NotReady(target="far", why="a mirror is stuck"))
    assert one.actor.touched_by("near") == set(PORTS)


def test_crossconnects_touch_all_ports_since_which_is_not_known_here() -> None:
    asked = Target(crossconnects=(SwitchCrossconnect.parse("ocs1:1A-2B"),))
    assert Acted(BOTH | {"asked": asked}, "near").actor.touched_by("asked") == set(PORTS)
    with pytest.raises(PlaneError, match=r"foreign port: ocs1\.3 in ocs1:3A-2B of target other"):
        Acted({"other": Target(crossconnects=(SwitchCrossconnect.parse("ocs1:3A-2B"),))})


def test_fallback_is_a_target_where_the_policy_has_one() -> None:
    one, dark = Acted(BOTH, "near", fallback=Target(links=(NEAR,))), Fallback(why="no light for 5 s")
    assert one.take(Tick(at_s=1), dark) == (DriveTo(target=FALLBACK, why="no light for 5 s"),)
    one.take(Applied(target=FALLBACK))
    assert one.where[0] == [FALLBACK]
    assert one.take(Tick(at_s=9), Switch(target="far")) == (DriveTo(target="far"),), "and back"
    without = Acted(BOTH)
    with pytest.raises(PlaneError, match="fallback that is not allowed: it prepares a target of its own that is named"):
        without.take(Tick(at_s=0), Prepare(id=FALLBACK, target=Target(links=(FAR,))))
    with pytest.raises(PlaneError, match="fallback that is not allowed: for 'no light for 5 s'; the job has no"):
        without.take(Tick(at_s=0), dark)


def test_fallback_leaves_out_what_has_failed_where_the_rest_joins_all_hosts() -> None:
    one = Acted({}, fallback=Target(links=RING))

    def falls_back(*events: Event) -> list[Target]:
        for event in events:
            one.take(event)
        commands = one.take(Tick(at_s=1), Fallback(why="dark"))
        assert commands[-1] == DriveTo(target=FALLBACK, why="dark")
        one.take(Applied(target=FALLBACK))
        assert one.actor.touched_by(FALLBACK) == set()
        return [one.target for one in commands if isinstance(one, PrepareTarget)]

    assert falls_back() == [], "all of it was prepared"
    assert falls_back(Failure(why="dark", ports=(H0[1], H1[0]))) == [Target(links=RING[1:])]
    assert falls_back() == [], "it is there already"
    assert falls_back(Failure(why="dark", ports=(H1[1],))) == [Target(links=RING)], "h1 would have no light"
    assert falls_back(Recovery(ports=(H1[1],))) == [Target(links=RING[1:])]
    assert falls_back(Recovery(ports=(H0[1], H1[0])), Failure(why="away", hosts=("h2",))) == [Target(links=RING)]
    assert falls_back(Recovery(hosts=("h2",))) == [], "it is there already"
    one.take(ask(2), Grant(ranks=(2,)))
    with pytest.raises(PlaneError, match="switch under a transfer: to fallback: rank 2"):
        one.take(Failure(why="dark", ports=(H0[1], H1[0])), Fallback(why="dark again"))


def test_oldest_prepared_target_goes_unless_the_light_is_there() -> None:
    one = Acted(BOTH)
    made = [Prepare(id=f"p{number}", target=Target(links=(NEAR,))) for number in range(MOST_PREPARED + 1)]
    one.take(Tick(at_s=0), *made[:-1], Switch(target="p0"))
    one.take(Applied(target="p0"))
    assert one.take(Tick(at_s=1), made[-1]) == (PrepareTarget(id=made[-1].id, target=made[-1].target, gone="p1"),)
    assert "p0" in one.actor.targets
    with pytest.raises(PlaneError) as caught:
        one.take(Tick(at_s=2), Switch(target="p1"))
    assert caught.value.breach is Breach.UNDECLARED
    with pytest.raises(PlaneError, match="it prepares near a second time"):
        one.take(Tick(at_s=3), Prepare(id="near", target=Target()))


def test_regions_move_at_once_and_arrive_one_by_one() -> None:
    one = Acted(REGIONS)
    both = Switch(target="left"), Switch(target="right")
    assert one.take(Tick(at_s=0), *both) == (DriveTo(target="left"), DriveTo(target="right"))
    one.take(NotReady(target="right", why="a mirror is stuck"))
    assert one.where == ([], ["left"])
    one.take(Applied(target="left"), Switch(target="right"))
    assert one.where == (["left"], ["right"])
    one.take(ask(0, peer=1), Grant(ranks=(0,)))
    one.take(Applied(target="right"))
    assert one.actor.lit_links == (LEFT, RIGHT)
    assert one.actor.touched_by("left") == one.actor.touched_by("right") == frozenset()
    one.take(Tick(at_s=1), Switch(target="dark"))
    with pytest.raises(PlaneError, match=r"grant before applied: rank 2: h2\.eth0 move to dark"):
        one.take(ask(2, peer=1), Grant(ranks=(2,)))


def test_light_that_moves_joins_nobody() -> None:
    """The ports of rank 0 stay, and those of the others of its group do not."""
    one = Acted(REGIONS, "left", "right")
    one.take(Tick(at_s=0), Switch(target="dark"))
    with pytest.raises(PlaneError, match="grant before applied: rank 0: the light of left, right does not join"):
        one.take(ask(0), Grant(ranks=(0,)))


def test_region_takes_links_away_that_reach_out_of_it_and_lit_are_those_whose_ends_stayed() -> None:
    one = Acted(REGIONS, "whole")
    assert one.actor.touched_by("across") == {H0[1], H1[1], H2[0]}, "h2.eth0 loses its link"
    one.take(Tick(at_s=1), Switch(target="across"))
    with pytest.raises(PlaneError, match="switch while moving: to right, on the way to across"):
        one.take(Tick(at_s=2), Switch(target="right"))
    one.take(Applied(target="across"))
    assert ([*one.actor.lit_links], one.where[0]) == ([LEFT, ACROSS], ["whole", "across"])
    one.take(Tick(at_s=1), Switch(target="across"))
    one.take(NotReady(target="across", why="a mirror is stuck"))
    assert [*one.actor.lit_links] == [LEFT]
    one.go("whole")
    assert one.where[0] == ["whole"]


@pytest.mark.parametrize(("first", "second"), [("left", "whole"), ("whole", "left"), ("right", "dark")])
def test_targets_that_share_ports_move_one_after_the_other(first: str, second: str) -> None:
    with pytest.raises(PlaneError, match=f"switch while moving: to {second}, on the way to {first}"):
        Acted(REGIONS).take(Tick(at_s=0), Switch(target=first), Switch(target=second))


def test_region_has_links_of_its_own_ports_alone() -> None:
    mirrors, odd = (SwitchCrossconnect.parse("ocs1:1A-2B"),), (NicPortId(host="h9", port="eth0"),)
    wrong = [Target(links=(NEAR,), ports=H0), Target(ports=odd), Target(ports=H0, crossconnects=mirrors)]
    told = []
    for target in (*wrong, Target(ports=H0, routes=(ROUTE,)), Target(crossconnects=mirrors)):
        with pytest.raises(PlaneError) as caught:
            Acted(REGIONS).take(Tick(at_s=0), Prepare(id="odd", target=target))
        told.append(f"{caught.value}\n")
    check_golden(Path(__file__).with_name("region_refusals.txt"), "".join(told))


def test_targets_of_ever_new_regions_go_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hwd.planes.actor.MOST_TARGETS", 4)
    one = Acted(BOTH)
    many = [PORTS[first:last] for first in range(6) for last in range(first + 1, 7)]
    assert len(many) == 21
    *_, last = one.take(
        Tick(at_s=0), *(Prepare(id=f"p{n}", target=Target(ports=(*ports,))) for n, ports in enumerate(many))
    )
    assert isinstance(last, PrepareTarget)
    assert (last.gone, len(one.actor.targets)) == ("p2", 20)
    assert {"near", "far", "p20"} <= one.actor.targets.keys()


def test_prepared_targets_go_by_region() -> None:
    one = Acted(REGIONS)
    many = [
        Prepare(id=f"{side}{n}", target=Target(ports=ports))
        for n in range(20)
        for side, ports in (("l", H0), ("r", H1))
    ]
    one.take(Tick(at_s=0), *many[:4], Switch(target="l0"))
    one.take(Tick(at_s=1), *many[4:])
    left = [id for id in one.actor.targets if id[1:].isdigit()]
    assert left == sorted(left, key=lambda id: int(id[1:]))
    assert [id for id in left if id[0] == "l"] == ["l0", *(f"l{n}" for n in range(5, 20))]
    assert [id for id in left if id[0] == "r"] == [f"r{n}" for n in range(4, 20)]


def test_faults_of_whoever_tells_the_events_are_bugs() -> None:
    one = Acted(BOTH)
    one.take(ask(0))
    for event, why in (
        (ask(0), "rank 0 asks while it waits"),
        (ask(7), "there is no rank 7"),
        (Applied(target="near"), "near ends, and none is on its way"),
    ):
        with pytest.raises(BugError, match=why):
            one.take(event)


def test_gathering_is_whole_when_the_last_rank_has_come() -> None:
    gathering = Gathering(JOB.groups)
    assert [gathering.come(ask(rank)) for rank in (2, 0, 0)] == [(), (), ()]
    assert gathering.come(ask(1)) == (0, 1, 2)
    assert gathering.come(ask(1)) == (), "the next operation"
    pair = Operation(group="all", kind=OperationKind.SEND, index=4, peer=2)
    assert gathering.come(Intent(rank=0, operation=pair)) == ()
    beside = Operation(group="all", kind=OperationKind.SEND, index=4, peer=1)
    assert gathering.come(Intent(rank=2, operation=beside)) == (), "another pair, of the same index"
    back = Operation(group="all", kind=OperationKind.RECEIVE, index=4, peer=0)
    assert gathering.come(Intent(rank=2, operation=back)) == (0, 2)
    assert gathering.come(Intent(rank=1, operation=replace(beside, kind=OperationKind.RECEIVE, peer=2))) == (1, 2)


# --- regionalLight and the actor say the same of the light, whatever regions share ports, and whatever does not arrive


MANY_PORTS = [NicPortId(host=f"h{host}", port="eth0") for host in range(32)]
MANY = Job(id="j", ranks=tuple(Rank(number=n, host=port.host) for n, port in enumerate(MANY_PORTS)), groups={})
MANY_IN_VIEW = View(ports={port: PortView() for port in MANY_PORTS}, topology=lambda text: ())


class Both:
    """One light, as the plane knows it and as the actor does."""

    def __init__(self) -> None:
        self.plane, self.light = Scripted({}), RegionalLight()
        self.actor = PlaneActor(self.plane, MANY, MANY_IN_VIEW)

    def go(self, region: frozenset[NicPortId], links: list[Link]) -> str:
        self.plane.answers = [*self.light.go(region, links)]
        *_, switch = self.plane.answers
        assert isinstance(switch, Switch)
        self.actor.take(Tick(at_s=0))
        return switch.target

    def arrive(self, target: str) -> None:
        self.light.applied(target)
        self.actor.take(Applied(target=target))

    def fail(self, target: str) -> None:
        self.light.not_ready(target)
        self.actor.take(NotReady(target=target, why="ocs1: a mirror is stuck"))


@given(st.integers(0, 1 << 32), st.booleans())
@settings(max_examples=60)
def test_actor_and_plane_know_the_same_light(seed: int, fails: bool) -> None:
    draws, both = random.Random(seed), Both()
    ports = MANY_PORTS[:10]
    regions = [frozenset(draws.sample(ports, draws.randint(2, 6))) for _ in range(4)]
    moving: list[str] = []
    for _ in range(100):
        if moving and draws.random() < 0.5:
            target = moving.pop(draws.randrange(len(moving)))
            (both.fail if fails and draws.random() < 0.2 else both.arrive)(target)
        else:
            region = draws.choice(regions)
            ends = draws.sample(sorted(region, key=NicPortId.sort_key), len(region))
            count = draws.randint(0, len(ends) // 2)
            links = [Link.of(ends[2 * n], ends[2 * n + 1]) for n in range(count)]
            if not both.light.is_at(region, links) and both.light.is_free(region, links):
                moving.append(both.go(region, links))
        assert {*both.actor.lit_links} == both.light.links
        assert frozenset[NicPortId]().union(*map(both.actor.touched_by, moving)) == both.light.moving


def test_targets_that_are_known_exist_though_others_have_ports_of_theirs() -> None:
    """A region of sixteen ports, each of which has a link with a port of another region at some time."""
    both = Both()
    own, others = MANY_PORTS[:16], MANY_PORTS[16:]
    region = frozenset(own)

    def light(region: frozenset[NicPortId], *links: Link) -> None:
        both.arrive(both.go(region, [*links]))

    for n, (one, other) in enumerate(zip(own, others, strict=True)):
        light(frozenset({one, other}), Link.of(one, other))
        light(region, Link.of(one, own[n - 1]))
    many = [Link.of(*two) for two in combinations(own, 2)][:14]
    for _ in range(2):
        for link in many:
            light(region, link)
    assert len([id for id in both.actor.at if both.actor.targets[id].ports == tuple(own)]) == 1


@pytest.mark.parametrize("is_known", [True, False])
def test_link_that_reaches_out_of_a_region_moves_with_it(is_known: bool) -> None:
    """Also where the light of other ports of the region is not known."""
    both = Both()
    a, b, c, d = MANY_PORTS[:4]
    if is_known:
        both.arrive(both.go(frozenset({b, d}), [Link.of(b, d)]))
    both.arrive(both.go(frozenset({a, c}), [Link.of(a, c)]))
    target = both.go(frozenset({a, b}), [Link.of(a, b)])
    assert both.actor.touched_by(target) == both.light.moving == {a, b, c, *([d] if is_known else [])}


def test_target_that_is_reached_again_keeps_what_it_had() -> None:
    """Its first time it took a link of a port that is not its own; that is dark since, and known to be."""
    both = Both()
    a, b, c = MANY_PORTS[:3]
    ab, bc = frozenset({a, b}), frozenset({b, c})
    both.arrive(both.go(bc, [Link.of(b, c)]))
    first = both.go(ab, [Link.of(a, b)])
    both.arrive(first)
    both.arrive(both.go(ab, []))
    assert both.go(ab, [Link.of(a, b)]) == first
    both.arrive(first)
    target = both.go(bc, [])
    assert both.actor.touched_by(target) == both.light.moving == ab
