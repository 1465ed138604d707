"""The iterations of a job, the moves of its light and what waited for them, and its demand, from what was recorded."""

from typing import Any

from hwd.jobs.training.training import demand, training
from hwd.model.job import JobEvent, JobRank
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import (
    Action,
    Applied,
    Done,
    Event,
    Fallback,
    Grant,
    Intent,
    NotReady,
    Prepare,
    Switch,
    Target,
    Tick,
)
from hwd_agents.wire import Operation, OperationKind

from ..job_record import job_event, job_record, measured

PARTS = {0: (0, 10, 300), 1: (20, 0, 40), 2: (500, 5, 7)}
RECORD = job_record(ranks=[JobRank(host=host) for host in ("h0", "h0", "h1")], groups={"world": [0, 1, 2]})


def links(*pairs: str) -> tuple[Link, ...]:
    ends = [[NicPortId(host=end.split(".")[0], port=end.split(".")[1]) for end in pair.split("-")] for pair in pairs]
    return tuple(Link.of(*two) for two in ends)


class Story:
    def __init__(self) -> None:
        self.events: list[JobEvent] = []
        self._index = 0

    def tell(self, at_ms: float, event: Event, *actions: Action, **more: Any) -> None:
        self.events.append(job_event(at_ms, event, *actions, **more))

    def ask(self, at_ms: float, iteration: int | None, layer: int, *actions: Action) -> None:
        """The last rank comes then, the others 1 and 2 ms before; `actions`: what the plane answers to it."""
        for rank, parts in PARTS.items():
            operation = Operation(
                group="world",
                kind=OperationKind.ALL_TO_ALL,
                index=self._index,
                size_bytes=sum(parts),
                parts=parts,
                iteration=iteration,
                layer=layer,
            )
            self.tell(at_ms - 2 + rank, Intent(rank=rank, operation=operation), *(actions if rank == 2 else ()))
        self._index += 1

    def end(self, began_ms: float, at_ms: float, *actions: Action) -> None:
        for rank in PARTS:
            self.tell(at_ms + 1, Done(rank=rank), *(actions if rank == 2 else ()), sent=measured(began_ms, at_ms))


GO = Grant(ranks=(0, 1, 2))


def told() -> Story:
    """Two iterations of one layer: light moves behind the first all-to-all, and the second one waits for the rest."""
    story = Story()
    story.ask(100, 0, 0, GO)
    prepare = Prepare(id="light1", target=Target(links=links("h0.eth0-h1.eth0", "h0.eth1-h1.eth1")))
    story.end(101, 110, prepare, Switch(target="light1"))
    story.ask(141, 0, 0)
    story.tell(151, Applied(target="light1"), GO, reconfiguration="r1")
    story.end(152, 160)
    story.ask(200, 1, 0, GO)
    prepare = Prepare(id="light2", target=Target(links=links("h0.eth0-h1.eth0")))
    story.end(201, 210, prepare, Switch(target="light2"))
    story.tell(220, NotReady(target="light2", why="ocs1: a mirror is stuck"), reconfiguration="r2")
    story.ask(260, 1, 0, GO, Switch(target="light1"))
    story.end(261, 270)
    return story


def test_iterations_last_from_one_begin_to_the_next() -> None:
    found = training(RECORD, told().events)
    assert [(one.iteration, one.seconds, one.operations) for one in found.iterations] == [(0, 0.1, 2), (1, 0.069, 2)]
    assert [round(one.held_s, 6) for one in found.iterations] == [0.01, 0.0]
    assert str(found) == (
        "job j7x2a1b9 (train), starting: 2 iterations, of 0.0845 s (median); 3 moves of its light, 4 new links"
    )


def test_moves_say_how_long_operations_waited_for_them() -> None:
    first, second, third = training(RECORD, told().events).moves
    assert (first.target, first.reconfiguration, first.links) == ("light1", "r1", 2)
    assert (round(first.at_s, 6), round(first.seconds or 0, 6), round(first.held_s, 6)) == (0.013, 0.04, 0.01)
    assert first.held.startswith("all-to-all 1 of world")
    assert (second.why, second.held_s, second.held, second.links) == ("ocs1: a mirror is stuck", 0.0, "", 0)
    assert (third.seconds, third.links) == (None, 2), "after a failure nothing is known to be lit"


def test_targets_that_were_declared_have_no_count_of_links() -> None:
    story = Story()
    story.ask(100, 0, 0, Switch(target="ring"))
    story.tell(120, Applied(target="ring"), GO, reconfiguration="r1")
    (move,) = training(RECORD, story.events).moves
    assert (move.links, round(move.held_s, 6)) == (None, 0.02)


def test_moves_of_regions_are_told_apart() -> None:
    story = Story()
    left, right = links("h0.eth0-h1.eth0"), links("h0.eth1-h1.eth1", "h2.eth0-h2.eth1")
    for at_ms, id, made in ((0, "left", left), (10, "right", right)):
        prepare = Prepare(id=id, target=Target(links=made, ports=tuple(end for link in made for end in link.ends)))
        story.tell(at_ms, Tick(at_s=0.0), prepare, Switch(target=id))
    ports = {"left": ["h0.eth0", "h1.eth0"], "right": ["h0.eth1", "h1.eth1", "h2.eth0", "h2.eth1"]}
    story.tell(30, Applied(target="right"), reconfiguration="r2", ports=ports["right"])
    story.tell(40, NotReady(target="left", why="stuck"), reconfiguration="r1", ports=ports["left"])
    for at_ms, id in ((50, "left"), (50, "right")):
        story.tell(at_ms, Tick(at_s=1.0), Switch(target=id))
    story.tell(60, Applied(target="left"), reconfiguration="r3", ports=ports["left"])
    found = training(RECORD, story.events).moves
    assert [(one.target, one.reconfiguration, one.why, one.links) for one in found] == [
        ("left", "r1", "stuck", 1),
        ("right", "r2", "", 2),
        ("left", "r3", "", 1),
        ("right", "", "", 0),
    ]
    assert [None if one.seconds is None else round(one.seconds, 6) for one in found] == [0.04, 0.02, 0.01, None]


def test_operation_is_held_by_moves_of_its_own_region_alone() -> None:
    """That of another one ends while it waits."""
    record = job_record(
        ranks=[JobRank(host=host, optical=[f"{host}.eth0"]) for host in ("h0", "h0", "h1")], groups={"world": [0, 1, 2]}
    )
    story = Story()
    story.ask(100, 0, 0, Switch(target="own"), Switch(target="other"))
    story.tell(150, Applied(target="other"), reconfiguration="r2", ports=["h2.eth0", "h3.eth0"])
    story.tell(160, Applied(target="own"), GO, reconfiguration="r1", ports=["h0.eth0", "h1.eth0"])
    own, other = training(record, story.events).moves
    assert (round(own.held_s, 6), own.held[:10]) == (0.06, "all-to-all")
    assert (other.held_s, other.held) == (0.0, "")


def test_fallback_is_a_move_after_which_links_are_not_counted() -> None:
    story = told()
    story.tell(300, Applied(target="light1"), reconfiguration="r3")
    story.ask(310, 2, 0, Fallback(why="h0 is away"))
    story.tell(330, Applied(target="fallback"), GO, reconfiguration="r4")
    story.tell(340, Tick(at_s=1.0), Switch(target="light1"))
    *_, fallback, back = training(RECORD, story.events).moves
    assert (fallback.target, fallback.links, round(fallback.held_s, 6)) == ("fallback", None, 0.02)
    assert (back.target, back.links) == ("light1", None)
    assert "new link" not in str(training(RECORD, story.events))


def test_operations_without_an_iteration_count_in_none_and_open_ones_are_open() -> None:
    story = Story()
    story.ask(100, None, 0, GO)
    story.end(101, 110)
    story.ask(120, 3, 0, GO)
    (one,) = training(RECORD, story.events).iterations
    assert (one.iteration, one.seconds) == (3, None)
    assert training(RECORD, []).iterations == []


def test_demand_is_what_hosts_have_for_each_other() -> None:
    events = told().events
    found = demand(RECORD, events)
    assert (found.hosts, len(found.matrices)) == (["h0", "h1"], 4)
    assert {str(one.size_bytes) for one in found.matrices} == {"[[0, 340], [505, 0]]"}
    assert [(one.iteration, one.layer, one.index) for one in demand(RECORD, events, iteration=1).matrices] == [
        (1, 0, 2),
        (1, 0, 3),
    ]
    assert demand(RECORD, events, layer=1).matrices == []


def test_parts_that_are_not_said_are_equal() -> None:
    story = Story()
    for rank in range(3):
        operation = Operation(group="world", kind=OperationKind.ALL_TO_ALL, index=0, size_bytes=90)
        story.tell(100, Intent(rank=rank, operation=operation))
    assert demand(RECORD, story.events).matrices[0].size_bytes == [[0, 60], [60, 0]]
