"""What an actor makes of a plane's answers, event by event."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as replace_view
from typing import Any

import pytest
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
from hwd.planes import Breach, Gathering, PlaneActor, PlaneError
from hwd.planes.actor import FALLBACK, AnswerRanks, DriveTo, PrepareTarget, SetRoutes
from hwd_agents.wire import Operation, OperationKind
from hwd_drivers.core.errors import BugError

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


class Scripted:
    """Answers each event with what the test says."""

    def __init__(self, targets: Mapping[str, Target]) -> None:
        self._targets = targets
        self.answers: list[Action] = []

    def targets(self, job: Job, view: View) -> Mapping[str, Target]:
        return self._targets

    def on(self, event: Event) -> Iterable[Action]:
        answers, self.answers = self.answers, []
        return answers


Take = Callable[..., tuple[object, ...]]


@pytest.fixture
def plane() -> Scripted:
    return Scripted({"near": Target(links=(NEAR, REST)), "far": Target(links=(FAR, REST))})


@pytest.fixture
def actor(plane: Scripted) -> PlaneActor:
    return PlaneActor(plane, JOB, VIEW, fallback=Target(links=(NEAR,)))


@pytest.fixture
def take(actor: PlaneActor, plane: Scripted) -> Take:
    def take(event: Event, *answers: Action) -> tuple[object, ...]:
        plane.answers = [*answers]
        return actor.take(event)

    return take


def ask(rank: int) -> Intent:
    return Intent(rank=rank, operation=OPERATION)


def lit(take: Take, target: str = "near") -> None:
    take(Tick(at_s=0), Switch(target=target))
    take(Applied(target=target))


def test_ranks_are_answered_and_the_light_is_driven(actor: PlaneActor, take: Take) -> None:
    assert take(ask(0), Switch(target="near")) == (DriveTo(target="near"),)
    assert ([*actor.moving], [*actor.at]) == (["near"], [])
    assert take(Applied(target="near"), Grant(ranks=(0,))) == (AnswerRanks(ranks=(0,)),)
    assert ([*actor.moving], [*actor.at], actor.sending, actor.waiting) == ([], ["near"], {0}, {})
    take(Done(rank=0))
    assert actor.sending == set()
    assert take(ask(1), Refuse(ranks=(1,), why="")) == (
        AnswerRanks(ranks=(1,), why="its control plane gave no reason"),
    )


def test_only_ranks_whose_light_moves_are_in_the_way(actor: PlaneActor, take: Take) -> None:
    """h0 and h1 have a link at `near`, h0 and h2 at `far`: all three are touched, and only rank 2 sends."""
    lit(take)
    assert actor.touched_by("far") == {H0[0], H1[0], H2[1]}
    take(ask(2), Grant(ranks=(2,)))
    with pytest.raises(PlaneError, match=r"switch under a transfer: to far: rank 2 sends over h2\.eth1"):
        take(Tick(at_s=1), Switch(target="far"))


def test_nobody_sends_where_no_light_joins_the_group() -> None:
    """A pair needs its own two hosts, and a group all of its."""
    plane = Scripted({"half": Target(links=(NEAR,)), "dark": Target()})
    actor = PlaneActor(plane, JOB, VIEW)
    plane.answers = [Switch(target="half")]
    actor.take(Tick(at_s=0))
    actor.take(Applied(target="half"))
    pair = Operation(group="all", kind=OperationKind.SEND, index=0, peer=1)
    plane.answers = [Grant(ranks=(0,))]
    assert actor.take(Intent(rank=0, operation=pair)) == (AnswerRanks(ranks=(0,)),)
    plane.answers = [Grant(ranks=(1,))]
    with pytest.raises(PlaneError, match="grant before applied: rank 1: the light of half does not join h0, h1, h2"):
        actor.take(ask(1))


def test_hosts_on_a_packet_switch_need_no_light_and_others_do() -> None:
    plane = Scripted({})
    electrical = {NicPortId(host=f"h{host}", port="eth9"): PortView() for host in range(2)}
    actor = PlaneActor(plane, JOB, replace_view(VIEW, electrical=electrical))
    plane.answers = [Grant(ranks=(0,))]
    assert actor.take(Intent(rank=0, operation=replace(OPERATION, peer=1))) == (AnswerRanks(ranks=(0,)),)
    plane.answers = [Grant(ranks=(1,))]
    with pytest.raises(PlaneError, match="the light is at no target of the plane"):
        actor.take(Intent(rank=1, operation=replace(OPERATION, peer=2)))


def test_routes_of_a_host_stay_while_a_rank_of_it_sends(take: Take) -> None:
    lit(take)
    take(ask(1), Grant(ranks=(1,)))
    route = StaticRoute(host="h1", to=H0[0], port=H1[0])
    with pytest.raises(PlaneError, match="switch under a transfer: to a route: rank 1 sends by routes of its host"):
        take(Tick(at_s=1), Route(routes=(route,)))


def test_routes_that_are_set_count_until_the_next_target(plane: Scripted) -> None:
    route = StaticRoute(host="h1", to=H0[0], port=H1[0])
    routed = Scripted({"near": Target(links=(NEAR, REST)), "same": Target(links=(NEAR, REST), routes=(route,))})
    actor = PlaneActor(routed, JOB, VIEW)

    def take(event: Event, *answers: Action) -> tuple[object, ...]:
        routed.answers = [*answers]
        return actor.take(event)

    lit(take)
    assert take(Tick(at_s=1), Route(routes=(route,))) == (SetRoutes(routes=(route,)),)
    take(ask(1), Grant(ranks=(1,)), Switch(target="same"))
    assert [*actor.moving] == ["same"], "the routes of h1 stay as they are"
    with pytest.raises(PlaneError, match="switch while moving: it sets routes on the way to same"):
        take(Tick(at_s=2), Route(routes=()))


def test_rank_whose_routes_change_is_not_let_go_before_they_are_set(take: Take, plane: Scripted) -> None:
    route = StaticRoute(host="h1", to=H0[0], port=H1[0])
    plane = Scripted({"near": Target(links=(NEAR, REST)), "same": Target(links=(NEAR, REST), routes=(route,))})
    actor = PlaneActor(plane, JOB, VIEW)
    plane.answers = [Switch(target="near")]
    actor.take(Tick(at_s=0))
    actor.take(Applied(target="near"))
    plane.answers = [Switch(target="same"), Grant(ranks=(0,))]
    actor.take(ask(0))
    plane.answers = [Grant(ranks=(1,))]
    with pytest.raises(PlaneError, match="grant before applied: rank 1: routes of its host change to same"):
        actor.take(ask(1))


@pytest.mark.parametrize(
    "answer",
    [
        "switch",
        Grant(ranks=3),  # type: ignore[arg-type]
        Grant(ranks=[0]),  # type: ignore[arg-type]
        Grant(ranks=("0",)),  # type: ignore[arg-type]
        Switch(target=["near"]),  # type: ignore[arg-type]
        Refuse(ranks=(0,), why=None),  # type: ignore[arg-type]
        Route(routes=("h0",)),  # type: ignore[arg-type]
        Fallback(why=3),  # type: ignore[arg-type]
        Prepare(id="p", target=Target(links=[NEAR])),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_what_is_no_action_is_a_breach_and_no_error_of_ours(take: Take, answer: Any) -> None:
    with pytest.raises(PlaneError) as caught:
        take(ask(0), answer)
    assert caught.value.breach is Breach.NO_ACTION


def test_nobody_sends_over_light_that_moves_or_that_nobody_has_seen(take: Take) -> None:
    take(ask(0))
    with pytest.raises(PlaneError, match="grant before applied: rank 0: the light is at no target of the plane"):
        take(ask(1), Grant(ranks=(0,)))
    take(Tick(at_s=0), Switch(target="near"))
    take(NotReady(target="near", why="a mirror is stuck"))
    with pytest.raises(PlaneError, match="the light is at no target"):
        take(Tick(at_s=1), Grant(ranks=(0,)))


def test_after_a_target_that_was_not_reached_all_ports_of_the_job_count_as_moving(
    actor: PlaneActor, take: Take
) -> None:
    lit(take)
    assert actor.touched_by("near") == set()
    take(Tick(at_s=1), Switch(target="far"))
    take(NotReady(target="far", why="a mirror is stuck"))
    assert actor.touched_by("near") == set(PORTS)


def test_crossconnects_touch_all_ports_since_which_is_not_known_here() -> None:
    asked = Target(crossconnects=(SwitchCrossconnect.parse("ocs1:1A-2B"),))
    plane = Scripted({"near": Target(links=(NEAR,)), "asked": asked})
    actor = PlaneActor(plane, JOB, VIEW)
    plane.answers = [Switch(target="near")]
    actor.take(Tick(at_s=0))
    actor.take(Applied(target="near"))
    assert actor.touched_by("asked") == set(PORTS)
    with pytest.raises(PlaneError, match=r"foreign port: ocs1\.3 in ocs1:3A-2B of target other"):
        PlaneActor(Scripted({"other": Target(crossconnects=(SwitchCrossconnect.parse("ocs1:3A-2B"),))}), JOB, VIEW)


def test_fallback_is_a_target_where_the_policy_has_one(actor: PlaneActor, take: Take, plane: Scripted) -> None:
    lit(take)
    assert take(Tick(at_s=1), Fallback(why="no light for 5 s")) == (DriveTo(target=FALLBACK, why="no light for 5 s"),)
    take(Applied(target=FALLBACK))
    assert [*actor.at] == [FALLBACK]
    assert take(Tick(at_s=9), Switch(target="far")) == (DriveTo(target="far"),), "and back"
    without = PlaneActor(plane, JOB, VIEW)
    plane.answers = [Prepare(id=FALLBACK, target=Target(links=(FAR,)))]
    with pytest.raises(PlaneError, match="fallback that is not allowed: it prepares a target of its own that is named"):
        without.take(Tick(at_s=0))
    plane.answers = [Fallback(why="no light for 5 s")]
    with pytest.raises(PlaneError, match="fallback that is not allowed: for 'no light for 5 s'; the job has no"):
        without.take(Tick(at_s=0))


def test_fallback_leaves_out_what_has_failed_where_the_rest_joins_all_hosts() -> None:
    ring = tuple(Link.of(one[1], other[0]) for one, other in ((H0, H1), (H1, H2), (H2, H0)))
    plane = Scripted({})
    actor = PlaneActor(plane, JOB, VIEW, fallback=Target(links=ring))

    def falls_back(*events: Event) -> list[Target]:
        for event in events:
            actor.take(event)
        plane.answers = [Fallback(why="dark")]
        commands = actor.take(Tick(at_s=1))
        assert commands[-1] == DriveTo(target=FALLBACK, why="dark")
        actor.take(Applied(target=FALLBACK))
        assert actor.touched_by(FALLBACK) == set()
        return [one.target for one in commands if isinstance(one, PrepareTarget)]

    assert falls_back() == [], "all of it was prepared"
    assert falls_back(Failure(why="dark", ports=(H0[1], H1[0]))) == [Target(links=ring[1:])]
    assert falls_back() == [], "it is there already"
    assert falls_back(Failure(why="dark", ports=(H1[1],))) == [Target(links=ring)], "h1 would have no light"
    assert falls_back(Recovery(ports=(H1[1],))) == [Target(links=ring[1:])]
    assert falls_back(Recovery(ports=(H0[1], H1[0])), Failure(why="away", hosts=("h2",))) == [Target(links=ring)]


def test_other_fallback_moves_all_ports_for_the_ranks_that_send() -> None:
    ring = tuple(Link.of(one[1], other[0]) for one, other in ((H0, H1), (H1, H2), (H2, H0)))
    plane = Scripted({})
    actor = PlaneActor(plane, JOB, VIEW, fallback=Target(links=ring))
    plane.answers = [Fallback(why="dark")]
    actor.take(Tick(at_s=0))
    actor.take(Applied(target=FALLBACK))
    plane.answers = [Grant(ranks=(2,))]
    actor.take(ask(2))
    plane.answers = [Fallback(why="dark again")]
    with pytest.raises(PlaneError, match="switch under a transfer: to fallback: rank 2"):
        actor.take(Failure(why="dark", ports=(H0[1], H1[0])))


def test_oldest_prepared_target_goes_unless_the_light_is_there(actor: PlaneActor, take: Take) -> None:
    made = [Prepare(id=f"p{number}", target=Target(links=(NEAR,))) for number in range(MOST_PREPARED + 1)]
    take(Tick(at_s=0), *made[:-1], Switch(target="p0"))
    take(Applied(target="p0"))
    assert take(Tick(at_s=1), made[-1]) == (PrepareTarget(id=made[-1].id, target=made[-1].target, gone="p1"),)
    assert "p0" in actor.targets
    with pytest.raises(PlaneError) as caught:
        take(Tick(at_s=2), Switch(target="p1"))
    assert caught.value.breach is Breach.UNDECLARED
    with pytest.raises(PlaneError, match="it prepares near a second time"):
        take(Tick(at_s=3), Prepare(id="near", target=Target()))


@pytest.fixture
def regions() -> Scripted:
    """Two of one link each, `left` and `right`; `across` is a link between them, `whole` is about all of the job."""
    across, left, right = Link.of(H0[1], H1[1]), Link.of(H0[0], H1[0]), Link.of(H1[1], H2[0])
    return Scripted(
        {
            "left": Target(links=(left,), ports=left.ends),
            "right": Target(links=(right,), ports=right.ends),
            "dark": Target(ports=right.ends),
            "across": Target(links=(across,), ports=across.ends),
            "whole": Target(links=(left, Link.of(H0[1], H2[0]))),
        }
    )


@pytest.fixture
def take_regions(regions: Scripted) -> tuple[PlaneActor, Take]:
    actor = PlaneActor(regions, JOB, VIEW)

    def take(event: Event, *answers: Action) -> tuple[object, ...]:
        regions.answers = [*answers]
        return actor.take(event)

    return actor, take


def test_regions_move_at_once_and_arrive_one_by_one(take_regions: tuple[PlaneActor, Take]) -> None:
    actor, take = take_regions
    both = Switch(target="left"), Switch(target="right")
    assert take(Tick(at_s=0), *both) == (DriveTo(target="left"), DriveTo(target="right"))
    take(NotReady(target="right", why="a mirror is stuck"))
    assert ([*actor.at], [*actor.moving]) == ([], ["left"])
    take(Applied(target="left"), Switch(target="right"))
    assert ([*actor.at], [*actor.moving]) == (["left"], ["right"])
    pair = Operation(group="all", kind=OperationKind.SEND, index=0, peer=1)
    take(Intent(rank=0, operation=pair), Grant(ranks=(0,)))
    take(Applied(target="right"))
    assert actor.lit_links == (Link.of(H0[0], H1[0]), Link.of(H1[1], H2[0]))
    assert actor.touched_by("left") == actor.touched_by("right") == frozenset()
    take(Tick(at_s=1), Switch(target="dark"))
    with pytest.raises(PlaneError, match=r"grant before applied: rank 2: h2\.eth0 move to dark"):
        take(Intent(rank=2, operation=replace(pair, peer=1)), Grant(ranks=(2,)))


def test_light_that_moves_joins_nobody(take_regions: tuple[PlaneActor, Take]) -> None:
    """The ports of rank 0 stay, and those of the others of its group do not."""
    _, take = take_regions
    take(Tick(at_s=0), Switch(target="left"), Switch(target="right"))
    take(Applied(target="left"))
    take(Applied(target="right"), Switch(target="dark"))
    with pytest.raises(PlaneError, match="grant before applied: rank 0: the light of left, right does not join"):
        take(ask(0), Grant(ranks=(0,)))


def test_region_takes_links_away_that_reach_out_of_it(take_regions: tuple[PlaneActor, Take]) -> None:
    actor, take = take_regions
    take(Tick(at_s=0), Switch(target="whole"))
    take(Applied(target="whole"))
    assert actor.touched_by("across") == {H0[1], H1[1], H2[0]}, "h2.eth0 loses its link"
    take(Tick(at_s=1), Switch(target="across"))
    with pytest.raises(PlaneError, match="switch while moving: to right, on the way to across"):
        take(Tick(at_s=2), Switch(target="right"))


def test_lit_links_are_those_whose_ends_stayed(take_regions: tuple[PlaneActor, Take]) -> None:
    actor, take = take_regions
    for target in ("whole", "across"):
        take(Tick(at_s=0), Switch(target=target))
        take(Applied(target=target))
    assert [*actor.lit_links] == [Link.of(H0[0], H1[0]), Link.of(H0[1], H1[1])]
    assert [*actor.at] == ["whole", "across"]
    take(Tick(at_s=1), Switch(target="across"))
    take(NotReady(target="across", why="a mirror is stuck"))
    assert [*actor.lit_links] == [Link.of(H0[0], H1[0])]
    take(Tick(at_s=2), Switch(target="whole"))
    take(Applied(target="whole"))
    assert [*actor.at] == ["whole"]


@pytest.mark.parametrize(("first", "second"), [("left", "whole"), ("whole", "left"), ("right", "dark")])
def test_targets_that_share_ports_move_one_after_the_other(
    take_regions: tuple[PlaneActor, Take], first: str, second: str
) -> None:
    _, take = take_regions
    with pytest.raises(PlaneError, match=f"switch while moving: to {second}, on the way to {first}"):
        take(Tick(at_s=0), Switch(target=first), Switch(target=second))


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (Target(links=(NEAR,), ports=H0), r"overlapping ports: h1\.eth0 in h0\.eth0<->h1\.eth0 is not among the ports"),
        (Target(ports=(NicPortId(host="h9", port="eth0"),)), r"foreign port: h9\.eth0 among the ports of target odd"),
        (
            Target(ports=H0, crossconnects=(SwitchCrossconnect.parse("ocs1:1A-2B"),)),
            "no action: target odd is one of a region, and has more than links",
        ),
        (
            Target(ports=H0, routes=(StaticRoute(host="h1", to=H0[0], port=H1[0]),)),
            "no action: target odd is one of a region, and has more than links",
        ),
    ],
)
def test_region_has_links_of_its_own_ports_alone(target: Target, why: str) -> None:
    with pytest.raises(PlaneError, match=why):
        PlaneActor(Scripted({"odd": target}), JOB, VIEW)


def test_plane_has_regions_or_crossconnects(take_regions: tuple[PlaneActor, Take]) -> None:
    _, take = take_regions
    crossconnects = Target(crossconnects=(SwitchCrossconnect.parse("ocs1:1A-2B"),))
    with pytest.raises(PlaneError, match="no action: target odd: a plane has regions or crossconnects, not both"):
        take(Tick(at_s=0), Prepare(id="odd", target=crossconnects))


def test_targets_of_ever_new_regions_go_too(monkeypatch: pytest.MonkeyPatch, plane: Scripted) -> None:
    monkeypatch.setattr("hwd.planes.actor.MOST_TARGETS", 4)
    actor = PlaneActor(plane, JOB, VIEW)
    many = [PORTS[first:last] for first in range(6) for last in range(first + 1, 7)]
    assert len(many) == 21
    plane.answers = [Prepare(id=f"p{n}", target=Target(ports=(*ports,))) for n, ports in enumerate(many)]
    *_, last = actor.take(Tick(at_s=0))
    assert (last.gone, len(actor.targets)) == ("p2", 20)  # type: ignore[union-attr]
    assert {"near", "far", "p20"} <= actor.targets.keys()


def test_prepared_targets_go_by_region(take_regions: tuple[PlaneActor, Take]) -> None:
    actor, take = take_regions
    many = [
        Prepare(id=f"{side}{n}", target=Target(ports=ports))
        for n in range(20)
        for side, ports in (("l", H0), ("r", H1))
    ]
    take(Tick(at_s=0), *many[:4], Switch(target="l0"))
    take(Tick(at_s=1), *many[4:])
    left = [id for id in actor.targets if id[1:].isdigit()]
    assert left == sorted(left, key=lambda id: int(id[1:]))
    assert [id for id in left if id[0] == "l"] == ["l0", *(f"l{n}" for n in range(5, 20))]
    assert [id for id in left if id[0] == "r"] == [f"r{n}" for n in range(4, 20)]


def test_faults_of_whoever_tells_the_events_are_bugs(take: Take) -> None:
    take(ask(0))
    for event, why in (
        (ask(0), "rank 0 asks while it waits"),
        (ask(7), "there is no rank 7"),
        (Applied(target="near"), "near ends, and none is on its way"),
    ):
        with pytest.raises(BugError, match=why):
            take(event)


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


def test_operation_has_one_line() -> None:
    assert str(OPERATION) == "all-reduce 0 of all, 64 MB"
