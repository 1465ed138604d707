"""The plane of mFabric: where the light is at each all-to-all of layers with experts, and when it moves."""

import random
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwd.daemon.installed_drivers import load_text
from hwd.jobs.view import view_of
from hwd.mfabric.demand import folded
from hwd.mfabric.reconfigure_ocs import reconfigure_ocs
from hwd.model.nic_port import NicPortId
from hwd.model.plane import (
    Applied,
    CommunicationGroup,
    Demand,
    Done,
    Event,
    Failure,
    Intent,
    Job,
    NotReady,
    Rank,
    Recovery,
)
from hwd.model.testbed import Testbed
from hwd.planes import AnnouncedDemand
from hwd.planes.actor import AnswerRanks, Command, DriveTo, PlaneActor
from hwd.planes.mfabric import MFABRIC
from hwd.testing.check_plane import check_plane
from hwd_agents.wire import Operation, OperationKind
from hwd_drivers.core.errors import ConfigError

Pairs = dict[tuple[str, str], int]
RING, CROSSED = (
    [[0, 9, 1, 9], [9, 0, 9, 1], [1, 9, 0, 9], [9, 1, 9, 0]],
    [[0, 9, 9, 1], [9, 0, 1, 9], [9, 1, 0, 9], [1, 9, 9, 0]],
)
"""Demands of four hosts with two NIC ports each: 0-1-2-3-0, and 0-1-3-2-0."""


@cache
def rack(hosts: int, ports: int, *, electrical: bool = True) -> Testbed:
    lines = ["testbed: drawn", "switches:", "  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 64x64, "]
    lines[-1] += "twin: {timing: ideal, seed: 1}}"
    lines += ["packet_switches:", f"  eps1: {{ports: {hosts}}}", "hosts:"]
    fibres = []
    for host in range(hosts):
        lines += [f"  h{host}:", "    nics:"]
        for port in range(ports):
            lines.append(f"      eth{port}: {{module: 100g-lr4}}")
            fibres.append(f"  - h{host}.eth{port} <-> ocs1.{host * ports + port + 1}")
        if electrical:
            lines.append(f"      eth{ports}: {{module: 100g-lr4}}")
            fibres.append(f"  - h{host}.eth{ports} <-> eps1.{host + 1}")
    return load_text("\n".join([*lines, "fibres:", *fibres, ""]), file="drawn.yaml").require()


class Played:
    """A job of one rank a host, whose light is where its plane wants it as soon as `light` is called."""

    def __init__(
        self,
        text: str,
        *,
        hosts: int = 4,
        ports: int = 2,
        electrical: bool = True,
        groups: Iterable[Iterable[int]] = (),
    ) -> None:
        words = text.split()[1:]
        testbed = rack(hosts, ports, electrical=electrical)
        members = [*groups] or [range(hosts)]
        self.job = Job(
            id="k3v9a1xx",
            ranks=tuple(Rank(number=number, host=f"h{number}", gpu=None) for number in range(hosts)),
            groups={f"ep{n}": CommunicationGroup(name=f"ep{n}", ranks=(*some,)) for n, some in enumerate(members)},
        )
        arguments = dict(word.split("=") for word in words)
        view = view_of(testbed, self.job)
        self.plane = MFABRIC.make(arguments)
        self.actor = PlaneActor(self.plane.targets(self.job, view), self.job, view)
        self.moves = 0
        self.granted: list[int] = []
        self.refused = ""
        self.index = dict.fromkeys(self.job.groups, 0)

    def tell(self, event: Event) -> None:
        for command in self.actor.take(event, self.plane.on(event)):
            self._take(command)

    def _take(self, command: Command) -> None:
        match command:
            case DriveTo():
                self.moves += 1
            case AnswerRanks(ranks=ranks, why=""):
                self.granted += ranks
            case AnswerRanks(why=why):
                self.refused = why

    def ask(self, demand: list[list[int]], group: str = "ep0") -> None:
        """All its ranks, one after the other."""
        self.granted.clear()
        index = self.index[group]
        self.index[group] += 1
        self.all_to_all(demand, group, index)

    def all_to_all(self, demand: list[list[int]], group: str, index: int) -> None:
        for rank, parts in zip(self.job.groups[group].ranks, demand, strict=True):
            kind = OperationKind.ALL_TO_ALL
            operation = Operation(group=group, kind=kind, index=index, size_bytes=sum(parts), parts=tuple(parts))
            self.tell(Intent(rank=rank, operation=operation))

    def end(self, group: str = "ep0") -> None:
        for rank in self.job.groups[group].ranks:
            self.tell(Done(rank=rank))

    def light(self) -> None:
        """What is on its way arrives."""
        for target in [*self.actor.moving]:
            self.tell(Applied(target=target))

    def is_moving(self) -> bool:
        return bool(self.actor.moving)

    @property
    def lit(self) -> Pairs:
        found: Pairs = {}
        for link in self.actor.lit_links:
            one, other = sorted(end.host for end in link.ends)
            found[one, other] = found.get((one, other), 0) + 1
        return found


def wanted(demand: list[list[int]], ports: int = 2) -> Pairs:
    links = reconfigure_ocs(folded(np.array(demand, dtype=float)), [ports] * len(demand))
    return {(f"h{one}", f"h{other}"): count for (one, other), count in links.items()}


def iteration(played: Played, layers: list[list[list[int]]]) -> Iterator[tuple[int, int]]:
    """Each all-to-all of one, after it was let go: its layer, and which of its four it is."""
    forward = [(layer, number) for layer in range(len(layers)) for number in (0, 1)]
    backward = [(layer, number) for layer in reversed(range(len(layers))) for number in (2, 3)]
    for layer, number in forward + backward:
        played.ask(layers[layer])
        played.light()
        assert sorted(played.granted) == [0, 1, 2, 3]
        yield layer, number
        played.end()
        played.light()


def test_all_but_the_first_one_of_a_layer_go_over_light_for_their_demand() -> None:
    played = Played("mfabric layers=2")
    layers = [RING, CROSSED]
    before: Pairs = {}
    for _ in range(2):
        for layer, number in iteration(played, layers):
            assert played.lit == (wanted(layers[layer]) if number else before)
            before = played.lit
    assert played.moves == 2 + 1 + 1 + 1, "a move forward and one backward a layer, where the light was another one"


def test_light_moves_while_experts_compute_and_the_next_one_waits_for_it() -> None:
    played = Played("mfabric layers=1")
    played.ask(RING)
    assert (played.granted, played.moves) == ([0, 1, 2, 3], 0)
    for rank in (0, 1, 2):
        played.tell(Done(rank=rank))
    assert not played.is_moving(), "a rank still sends"
    played.tell(Done(rank=3))
    assert played.is_moving()
    played.ask(RING)
    assert played.granted == []
    played.light()
    assert sorted(played.granted) == [0, 1, 2, 3]
    assert played.lit == wanted(RING)


def test_first_one_that_blocks_goes_over_light_for_its_own_demand() -> None:
    assert wanted(RING) == {("h0", "h1"): 1, ("h0", "h3"): 1, ("h1", "h2"): 1, ("h2", "h3"): 1}
    assert wanted(CROSSED) == {("h0", "h1"): 1, ("h0", "h2"): 1, ("h1", "h3"): 1, ("h2", "h3"): 1}
    played = Played("mfabric layers=2 first=block")
    for layer, _ in iteration(played, [RING, CROSSED]):
        assert played.lit == wanted([RING, CROSSED][layer])
    assert played.moves == 3


def test_first_one_over_drawn_light_has_it_before_it_asks() -> None:
    played = Played("mfabric layers=1 first=random seed=5")
    again = Played("mfabric layers=1 first=random seed=5")
    for one in (played, again):
        for _ in iteration(one, [RING]):
            pass
        assert sum(one.lit.values()) >= 3, "one host may have two ports that nobody has left a port for"
    assert played.lit == again.lit
    moves = played.moves
    played.ask(RING)
    assert (played.granted, played.moves) == ([0, 1, 2, 3], moves)


@pytest.mark.parametrize("order", [range(4), range(3, -1, -1)])
def test_ranks_that_say_no_parts_count_with_their_own_sizes_whoever_comes_last(order: range) -> None:
    played = Played("mfabric layers=1 first=block")
    for rank in order:
        size_bytes = (0, 400, 4000, 8000)[rank]
        kind = OperationKind.ALL_TO_ALL
        played.tell(Intent(rank=rank, operation=Operation(group="ep0", kind=kind, index=0, size_bytes=size_bytes)))
    played.light()
    assert played.lit == wanted([[0] * 4, [100] * 4, [1000] * 4, [2000] * 4])


def test_full_mesh_never_moves() -> None:
    played = Played("mfabric layers=2", ports=3)
    for _ in iteration(played, [RING, CROSSED]):
        pass
    assert played.moves == 1
    assert played.lit == wanted(RING, 3) == wanted(CROSSED, 3)


def test_degree_is_how_many_ports_of_a_host_get_light() -> None:
    played = Played("mfabric layers=2 degree=2", ports=3)
    for _ in iteration(played, [RING, CROSSED]):
        pass
    assert played.lit == wanted(RING)
    assert {end.port for link in played.actor.lit_links for end in link.ends} == {"eth0", "eth1"}
    dark = Played("mfabric layers=2 degree=0")
    for _ in iteration(dark, [RING, CROSSED]):
        pass
    assert (dark.moves, dark.lit) == (0, {})


class Alone:
    """What was done with one group, and what its plane made of each of it: whom it let go, and its light."""

    def __init__(self, played: Played, group: str) -> None:
        self.played, self.group = played, group
        self.ranks = played.job.groups[group].ranks
        self.hosts = {f"h{rank}" for rank in self.ranks}
        self.is_sending = False
        self.seen: list[tuple[list[int], list[str], list[str]]] = []

    @property
    def moving(self) -> str | None:
        targets = self.played.actor.targets
        return next(
            (id for id in self.played.actor.moving if {port.host for port in targets[id].ports} <= self.hosts), None
        )

    def do(self, what: str, demand: list[list[int]], port: NicPortId) -> None:
        played, moving = self.played, self.moving
        granted = len(played.granted)
        match what:
            case "ask":
                index = played.index[self.group]
                played.index[self.group] += 1
                played.all_to_all(demand, self.group, index)
            case "end":
                played.end(self.group)
            case "arrive" if moving is not None:
                played.tell(Applied(target=moving))
            case "fail" if moving is not None:
                played.tell(NotReady(target=moving, why="ocs1: a mirror is stuck"))
            case "lose":
                played.tell(Failure(why="it lost its carrier", ports=(port,)))
            case "recover":
                played.tell(Recovery(ports=(port,)))
        own = [rank for rank in played.granted[granted:] if rank in self.ranks]
        assert own == played.granted[granted:], "nobody else is let go by that"
        lit = [str(link) for link in played.actor.lit_links if {end.host for end in link.ends} <= self.hosts]
        target = "" if self.moving is None else played.actor.targets[self.moving].links
        self.seen.append((own, sorted(lit), sorted(map(str, target))))


@given(st.integers(0, 1 << 32), st.sampled_from(["reuse", "block", "random", "predict"]))
@settings(max_examples=30)
def test_region_does_what_it_does_alone(seed: int, first: str) -> None:
    """Whatever happens in another one, at the same switch."""
    draws = random.Random(seed)
    groups = range(4), range(4, 8)
    text = f"mfabric layers=2 first={first}"
    both = Played(text, hosts=8, groups=groups)
    regions = [Alone(both, f"ep{n}") for n in range(2)]
    done: list[list[tuple[str, list[list[int]], NicPortId]]] = [[], []]
    asked, ended, let_go = [0, 0], [0, 0], [0, 0]
    for _ in range(80):
        n = draws.randrange(2)
        region = regions[n]
        able = ["lose", "recover", *(["arrive"] * 4 + ["fail"] if region.moving is not None else [])]
        if asked[n] == ended[n]:
            able += ["ask"] * 8
        if let_go[n] > ended[n]:
            able += ["end"] * 8
        what = draws.choice(able)
        demand = [[draws.choice((0, draws.randrange(1 << 20))) for _ in range(4)] for _ in range(4)]
        port = NicPortId(host=f"h{draws.choice(region.ranks)}", port=f"eth{draws.randrange(2)}")
        done[n].append((what, demand, port))
        region.do(what, demand, port)
        asked[n] += what == "ask"
        ended[n] += what == "end"
        let_go[n] += len(region.seen[-1][0]) // 4
    for n, region in enumerate(regions):
        alone = Alone(Played(text, hosts=8, groups=groups), region.group)
        for what, demand, port in done[n]:
            alone.do(what, demand, port)
        assert alone.seen == region.seen


def test_light_of_who_waits_goes_before_that_of_who_computes() -> None:
    """A group waits for the end of a move at one of its ports; no other group begins one at the others meanwhile."""
    groups = ((0, 1, 2), (0, 3), (1, 4), (2, 5))
    played = Played("mfabric layers=1", hosts=6, ports=1, groups=groups)
    even = [[0, 9], [9, 0]]
    for group in ("ep1", "ep2", "ep3"):
        played.ask(even, group)
    played.end("ep1")
    (first,) = played.actor.moving
    played.ask([[0, 9, 9], [9, 0, 9], [9, 9, 0]], "ep0")
    played.end("ep2")
    played.end("ep3")
    assert [*played.actor.moving] == [first]
    played.tell(Applied(target=first))
    assert sorted(played.granted) == [0, 1, 2]


def test_groups_that_share_ports_do_not_take_them_from_each_other_while_they_compute() -> None:
    played = Played("mfabric layers=1", hosts=4, groups=(range(4), range(4)))
    for group, demand in (("ep0", RING), ("ep1", CROSSED)):
        played.ask(demand, group)
        played.light()
        played.end(group)
    moves = played.moves
    for _ in range(5):
        played.light()
    assert played.moves <= moves + 1
    assert not played.is_moving()
    played.ask(RING, "ep0")
    played.light()
    assert sorted(played.granted) == [0, 1, 2, 3]
    assert played.lit == wanted(RING)


def test_light_that_was_not_ready_sends_the_next_one_over_packet_switches() -> None:
    played = Played("mfabric layers=1 first=block")
    played.ask(RING)
    assert played.granted == []
    (moving,) = played.actor.moving
    played.tell(NotReady(target=moving, why="ocs1: a mirror is stuck"))
    assert (sorted(played.granted), played.lit) == ([0, 1, 2, 3], {})
    played.end()
    assert played.is_moving(), "the one after it tries again"


def test_port_that_failed_gets_no_link_until_it_is_back() -> None:
    played = Played("mfabric layers=1 first=block")
    port = NicPortId(host="h0", port="eth0")
    played.ask(RING)
    played.light()
    played.end()
    played.tell(Failure(why="it lost its carrier", ports=(port,)))
    played.ask(RING)
    assert played.granted == [], "a link of it is dark"
    played.light()
    assert sorted(played.granted) == [0, 1, 2, 3]
    assert all(port not in link.ends for link in played.actor.lit_links)
    played.end()
    played.light()
    played.tell(Recovery(ports=(port,)))
    played.ask(RING)
    played.light()
    played.end()
    played.light()
    assert played.lit == wanted(RING)


def test_all_to_all_whose_packet_switch_failed_is_refused_with_the_pair() -> None:
    played = Played("mfabric layers=1")
    played.tell(Failure(why="it lost its carrier", ports=(NicPortId(host="h2", port="eth2"),)))
    played.ask(RING)
    played.light()
    assert "h0 and h2 have no link, and h2 has no NIC port on a packet switch" in played.refused
    assert played.granted == []


def spread(*loads: int) -> list[list[int]]:
    """All ranks have the same for each expert."""
    return [[100 * load for load in loads] for _ in loads]


def test_first_one_goes_over_light_that_is_predicted_from_the_layer_before() -> None:
    """As soon as it was seen what follows what, the light is there before the first all-to-all asks."""
    played = Played("mfabric layers=2 first=predict")
    one, other = [spread(1, 1, 8, 1), spread(8, 4, 2, 1)], [spread(1, 8, 1, 1), spread(1, 2, 4, 8)]
    assert wanted(one[1]) != wanted(other[1])
    lit: list[Pairs] = []
    for layers in (one, other, one, other, other, one):
        for layer, number in iteration(played, layers):
            if (layer, number) == (1, 0):
                lit.append(played.lit)
    assert lit[0] == wanted(one[0]), "nothing is known yet: the light of before"
    assert lit[2:] == [wanted(one[1]), wanted(other[1]), wanted(other[1]), wanted(one[1])]


@pytest.mark.parametrize("first", ["reuse", "block", "random", "predict"])
def test_it_keeps_the_rules_of_planes(first: str) -> None:
    assert check_plane(lambda: MFABRIC.make({"layers": "2", "first": first}), jobs=40) > 20


def test_wrong_arguments_and_racks_are_refused_before_anything_moves() -> None:
    ranks = tuple(Rank(number=number, host="h0", gpu=None) for number in range(65))
    many = Job(id="k3v9a1xx", ranks=ranks, groups={})
    predicting = MFABRIC.make({"layers": "1", "first": "predict"})
    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: Played("mfabric"), "layers=: is the number of layers with experts"),
        (lambda: Played("mfabric layers=0"), "layers=0: is the number of layers"),
        (lambda: Played("mfabric layers=1 first=now"), "first=now is none of block, reuse, random, predict"),
        (lambda: Played("mfabric layers=1 variant=go"), "variant=go is none of skip, stop"),
        (lambda: Played("mfabric layers=1 degree=x"), "degree=x is no whole number"),
        (lambda: Played("mfabric layers=1 seed=-1"), "seed=-1 is no whole number"),
        (lambda: Played("mfabric layers=1", electrical=False), "h0, h1, h2, h3: no NIC port on a packet switch"),
        (lambda: predicting.targets(many, view_of(rack(4, 2), many)), "first=predict: 65 ranks, over the 64"),
    ]
    for call, why in refusals:
        with pytest.raises(ConfigError, match=why):
            call()


# --- the demand that a plane is told of, from what the ranks of its job announce


JOB = Job(
    id="k3v9a1xx",
    ranks=tuple(Rank(number=number, host=f"h{number // 2}", gpu=number % 2) for number in range(4)),
    groups={
        "all": CommunicationGroup(name="all", ranks=(0, 1, 2, 3)),
        "dp0": CommunicationGroup(name="dp0", ranks=(0, 2)),
    },
)


def between(
    *ranks: int, kind: OperationKind = OperationKind.ALL_TO_ALL, group: str = "all", **more: Any
) -> dict[tuple[str, str], float]:
    """What these ranks announce with an operation of 800 bytes."""
    demand = AnnouncedDemand(JOB, every_s=1.0)
    fields: dict[str, Any] = {"group": group, "kind": kind, "index": 0, "size_bytes": 800, **more}
    operation = Operation(**fields)
    for rank in ranks:
        demand.take(Intent(rank=rank, operation=operation), at_s=0.0)
    due = demand.due(at_s=1.0)
    return {} if due is None else {**due.bytes_between}


def test_each_rank_has_an_equal_part_for_each_other_one_on_another_host() -> None:
    for kind in (OperationKind.ALL_TO_ALL, OperationKind.ALL_GATHER, OperationKind.REDUCE_SCATTER):
        assert between(0, kind=kind) == {("h0", "h1"): 400.0}
        assert between(0, 1, 2, 3, kind=kind) == {("h0", "h1"): 800.0, ("h1", "h0"): 800.0}
    assert between(0, 2, kind=OperationKind.ALL_REDUCE, group="dp0") == {("h0", "h1"): 800.0, ("h1", "h0"): 800.0}


def test_pair_counts_what_its_sender_sends_and_not_twice() -> None:
    assert between(1, kind=OperationKind.SEND, peer=3) == {("h0", "h1"): 800.0}
    assert between(3, kind=OperationKind.RECEIVE, peer=1) == {}
    assert between(0, kind=OperationKind.SEND, peer=1) == {}, "both are on one host"


def test_what_is_not_known_counts_nothing() -> None:
    for kind in (OperationKind.BROADCAST, OperationKind.REDUCE, OperationKind.BARRIER):
        assert between(0, 1, 2, 3, kind=kind) == {}


def test_each_period_tells_what_came_in_it() -> None:
    demand = AnnouncedDemand(JOB, every_s=1.0)
    operation = Operation(group="dp0", kind=OperationKind.ALL_TO_ALL, index=0, size_bytes=10)
    told = Demand(bytes_between={("h0", "h1"): 5.0})
    demand.take(Intent(rank=0, operation=operation), at_s=0.2)
    assert demand.due(at_s=0.9) is None
    assert demand.due(at_s=1.5) == told
    demand.take(told, at_s=1.5)
    assert demand.due(at_s=9.0) is None, "nobody announced anything"
    demand.take(Intent(rank=0, operation=operation), at_s=9.0)
    assert demand.due(at_s=9.0) == told


def test_parts_that_an_all_to_all_says_are_counted_as_they_are() -> None:
    assert between(1, size_bytes=18, parts=(1, 2, 5, 10)) == {("h0", "h1"): 15.0}
