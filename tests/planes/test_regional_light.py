"""RegionalLight and the actor say the same of the light, whatever regions share ports, and whatever does not arrive."""

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Applied, Job, NotReady, PortView, Rank, Switch, Tick, View
from hwd.planes import PlaneActor, RegionalLight

from .conftest import Scripted

PORTS = [NicPortId(host=f"h{host}", port="eth0") for host in range(32)]
JOB = Job(id="j", ranks=tuple(Rank(number=n, host=port.host) for n, port in enumerate(PORTS)), groups={})
VIEW = View(ports={port: PortView() for port in PORTS}, topology=lambda text: ())


class Both:
    """One light, as the plane knows it and as the actor does."""

    def __init__(self) -> None:
        self.plane, self.light = Scripted({}), RegionalLight()
        self.actor = PlaneActor(self.plane, JOB, VIEW)

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
    ports = PORTS[:10]
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
    own, others = PORTS[:16], PORTS[16:]
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
    a, b, c, d = PORTS[:4]
    if is_known:
        both.arrive(both.go(frozenset({b, d}), [Link.of(b, d)]))
    both.arrive(both.go(frozenset({a, c}), [Link.of(a, c)]))
    target = both.go(frozenset({a, b}), [Link.of(a, b)])
    assert both.actor.touched_by(target) == both.light.moving == {a, b, c, *([d] if is_known else [])}


def test_target_that_is_reached_again_keeps_what_it_had() -> None:
    """Its first time it took a link of a port that is not its own; that is dark since, and known to be."""
    both = Both()
    a, b, c = PORTS[:3]
    ab, bc = frozenset({a, b}), frozenset({b, c})
    both.arrive(both.go(bc, [Link.of(b, c)]))
    first = both.go(ab, [Link.of(a, b)])
    both.arrive(first)
    both.arrive(both.go(ab, []))
    assert both.go(ab, [Link.of(a, b)]) == first
    both.arrive(first)
    target = both.go(bc, [])
    assert both.actor.touched_by(target) == both.light.moving == ab
