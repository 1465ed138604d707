"""Verification of a job that kept its promises, and of the same one with one breach of each kind planted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from hwd.jobs.verification.counted_bytes import STRAY_BYTES, least_received
from hwd.jobs.verification.recorded_light import RecordedLight
from hwd.jobs.verification.recorded_operations import TargetLight, operations_of
from hwd.jobs.verification.verification import verify
from hwd.model.host import HostEvent
from hwd.model.job import JobEvent, JobRank, JobRecord, JobResumed, JobState
from hwd.model.job_status import JobVerification
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Action, Applied, Done, Event, Grant, Intent, NotReady, Switch
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    StartedLink,
    StartedMove,
    WantedSwitch,
)
from hwd.model.transfer import TransferCut
from hwd_agents.wire import Operation, OperationKind, PortBytes
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState
from hwd_drivers.devices.facts import SwitchCommand, SwitchRead

from ...texts import event_of, pairs_of, reconfiguration_started, switch_pairs_of
from ..job_record import ENDED, MS, job_event, job_record, measured

SIZE = 1_000_000
LINK = "h0.eth0<->h1.eth0"
LIT = ["1A-3B", "3A-1B"]
BARE = ["2A-4B", "4A-2B"]
OPERATIONS = 3
EVERY = [[NicPortId(host=f"h{n}", port=f"eth{port}") for n in range(2)] for port in range(2)]


def record(**changes: Any) -> JobRecord:
    """Two ranks on two hosts, each with two ports on light and one on a packet switch."""
    fibres = {f"h{n}.eth{port}": [f"ocs1.{2 * n + port + 1}"] for n in range(2) for port in range(2)}
    return job_record(**{"fibres": fibres, "state": JobState.SUCCEEDED} | changes)


@dataclass(slots=True)
class Story:
    """What the records have of a job: light at 100 ms, three all-reduces of 1 MB from 200 ms on, 50 ms each."""

    events: list[JobEvent] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    record: JobRecord = field(default_factory=record)
    bytes: dict[str, dict[str, tuple[int, int]]] = field(
        default_factory=lambda: {f"h{n}": {"eth0": (0, 0), "eth1": (0, 0), "eth2": (0, 0)} for n in range(2)}
    )
    """Counted so far: received and sent, by host and port."""

    def tell(self, at_ms: float, event: Event, *actions: Action, **more: Any) -> None:
        self.events.append(job_event(at_ms, event, *actions, **more))

    def say(self, at_ms: float, fact: Fact) -> None:
        self.documents.append(Document(at_ns=round(at_ms * MS), wall_ns=0, fact=fact))

    def count(self, host: str, port: str, rx: int, tx: int) -> None:
        before = self.bytes[host][port]
        self.bytes[host][port] = before[0] + rx, before[1] + tx

    def reading(self, host: str) -> dict[str, PortBytes]:
        return {port: PortBytes(rx=rx, tx=tx) for port, (rx, tx) in self.bytes[host].items()}

    def judged(self) -> JobVerification:
        light = RecordedLight()
        light.take(self.documents)
        light.order()
        return verify(self.record, self.events, light)


def light(story: Story, at_ms: float, *, id: str = "r1", link: str = LINK, lit: Sequence[str] = LIT) -> None:
    """A reconfiguration that makes a link within 50 ms, seen ready after 40."""
    links = [StartedLink(link=Link.parse(link), kept=False, crossconnects=switch_pairs_of(*lit, switch="ocs1"))]
    moves = [StartedMove(switch="ocs1", remove=[], add=pairs_of(*lit))]
    story.say(at_ms, reconfiguration_started(id, hash="0" * 12, what="static", links=links, moves=moves))
    command(story, at_ms + 20)
    story.say(
        at_ms + 20,
        ReconfigurationCommanded(
            reconfiguration=id,
            switch="ocs1",
            commanded_ns=round(at_ms * MS),
            acknowledged_ns=round((at_ms + 20) * MS),
            commands=1,
        ),
    )
    read(story, at_ms + 21, lit)
    for end in link.split("<->"):
        seen_ready(story, end, at_ms + 40, id=id)
    wanted = [WantedSwitch(switch="ocs1", crossconnects=pairs_of(*lit), free=[])]
    story.say(
        at_ms + 50,
        ReconfigurationEnded(reconfiguration=id, run=None, outcome="confirmed", why="", seconds=0.05, wanted=wanted),
    )


def command(story: Story, at_ms: float, *moved: str) -> None:
    fact = SwitchCommand(switch="ocs1", verb="change", outcome="done", seconds=0.01, code="", text="", moved=[*moved])
    story.say(at_ms, fact)


def cut_of(story: Story, at_ms: float, phase: Operation) -> None:
    story.say(
        at_ms,
        TransferCut(
            transfer="b-1",
            host="h0",
            process="rank 0 of job j7x2a1b9, pid 7",
            phase=str(phase),
            ports=["h0.eth0"],
            reconfiguration="r9",
            what="a way back",
            waited_s=5.0,
        ),
    )


def read(story: Story, at_ms: float, crossconnects: Sequence[str], *, ours: bool = True) -> None:
    reports = [
        CrossconnectReading(crossconnect=Crossconnect.parse(one), state=CrossconnectState.UNSTATED)
        for one in crossconnects
    ]
    story.say(at_ms, SwitchRead(switch="ocs1", crossconnects=reports, added=[], removed=[], ours=ours))


def seen_ready(story: Story, end: str, at_ms: float, *, id: str = "r1") -> None:
    event(story, end, "ready", at_ms, {"reconfiguration": id, "peer": "", "via": "udp", "sent": 1, "failed": 0})


def event(story: Story, end: str, type: str, at_ms: float, data: dict[str, Any]) -> None:
    at_ns = round(at_ms * MS)
    story.say(at_ms + 5, event_of(end, type, at_ns, 0, data, earliest_ns=at_ns - MS))


def operation(index: int) -> Operation:
    return Operation(group="world", kind=OperationKind.ALL_REDUCE, index=index, size_bytes=SIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """What is odd in operation 1 of rank 0."""

    began_ms: float = 1.0
    port: str = "eth0"
    received: int = SIZE
    stray: int = 0
    between: int = 0
    is_measured: bool = True
    is_counted: bool = True
    has_ended: bool = True
    begin_is_known: bool = True


def told(odd: Odd | None = None, granted_ms: float = 200.0) -> Story:
    story = Story()
    light(story, 100)
    story.tell(150, Applied(target="static"), reconfiguration="r1")
    usual = Odd()
    for index in range(OPERATIONS):
        at_ms = granted_ms + 60 * index
        before = {}
        for rank in (0, 1):
            one = odd if odd is not None and (index, rank) == (1, 0) else usual
            story.count(f"h{rank}", "eth0", one.between, 0)
            before[rank] = story.reading(f"h{rank}")
        story.tell(at_ms - 5, Intent(rank=1, operation=operation(index)))
        story.tell(at_ms, Intent(rank=0, operation=operation(index)), Grant(ranks=(0, 1)))
        for rank in (0, 1):
            one = odd if odd is not None and (index, rank) == (1, 0) else usual
            if not one.has_ended:
                continue
            story.count(f"h{rank}", one.port, one.received, SIZE)
            story.count(f"h{rank}", "eth1", one.stray, 0)
            sent = measured(
                at_ms + one.began_ms if one.begin_is_known else None,
                at_ms + 50,
                before[rank] if one.is_counted and one.begin_is_known else {},
                story.reading(f"h{rank}") if one.is_counted else {},
            )
            story.tell(at_ms + 51, Done(rank=rank), sent=sent if one.is_measured else None)
        if odd is not None and not odd.has_ended and index == 1:
            break
    story.say(500, ENDED)
    return story


def test_job_that_kept_its_promises_holds() -> None:
    found = told().judged()
    assert (found.breaches, found.unshown) == ([], [])
    assert found.holds
    assert (found.operations, found.measured, found.reconfigurations) == (6, 6, 1)


def lit_beside(story: Story) -> None:
    """The other port of each host has light as well."""
    light(story, 110, id="r2", link="h0.eth1<->h1.eth1", lit=BARE)
    read(story, 145, [*LIT, *BARE])


def regions(*more: tuple[float, Event, dict[str, Any]]) -> list[JobEvent]:
    """Each link was brought about as a region of its own."""
    return [
        job_event(at_ms, event, **fields)
        for at_ms, event, fields in (
            (150, Applied(target="left"), {"reconfiguration": "r1", "ports": EVERY[0]}),
            (165, Applied(target="right"), {"reconfiguration": "r2", "ports": EVERY[1]}),
            *more,
        )
    ]


def in_regions(*more: tuple[float, Event, dict[str, Any]], odd: Odd | None = None) -> Story:
    story = told(odd)
    lit_beside(story)
    story.events[:1] = regions(*more)
    return story


def test_light_of_regions_is_judged_by_what_brought_each_about() -> None:
    assert in_regions().judged().holds
    assert next(iter(operations_of(in_regions().events).all)).light == (
        TargetLight(target="left", reconfiguration="r1", ports=frozenset({"h0.eth0", "h1.eth0"})),
        TargetLight(target="right", reconfiguration="r2", ports=frozenset({"h0.eth1", "h1.eth1"})),
    )
    cut = in_regions()
    read(cut, 220, LIT, ours=False)
    found = cut.judged()
    assert {(one.kind, one.what) for one in found.breaches} == {
        ("dark", f"ocs1:{one} of {port} was not there") for one in BARE for port in ("h0.eth1", "h1.eth1")
    }


@pytest.mark.parametrize(
    ("went", "ports"),
    [(NotReady(target="right", why="a mirror is stuck"), EVERY[1]), (Applied(target="dark"), EVERY[1][1:])],
    ids=["it was not ready", "one of its ports went on with a region"],
)
def test_region_that_was_left_has_no_light_and_the_other_one_has(went: Event, ports: list[NicPortId]) -> None:
    gone = 170, went, {"reconfiguration": "r3", "ports": ports}
    assert in_regions(gone).judged().holds
    found = in_regions(gone, odd=Odd(stray=SIZE)).judged()
    assert [(one.kind, one.rank) for one in found.breaches] == [("bytes", 0)]
    assert "went over h0.eth1, which is on no light of its target" in found.breaches[0].what


def test_records_that_lack_an_event_do_not_show_it() -> None:
    story = told()
    del story.events[next(n for n, one in enumerate(story.events) if isinstance(one.plane_event, Intent))]
    found = story.judged()
    assert found.unshown == [
        "ranks were let go of whose asking nothing is recorded: the records lack events of the job"
    ]
    assert (found.holds, found.operations) == (False, 5)


def test_ranks_of_a_host_bring_what_it_needs_over_the_ports_of_all_of_them() -> None:
    """Each has a NIC port of its own, and half of the sum comes over each."""
    ranks = [JobRank(host=f"h{n // 2}", optical=[f"h{n // 2}.eth{n % 2}"]) for n in range(4)]
    story = Story(record=record(ranks=ranks, groups={"world": [0, 1, 2, 3]}), events=regions())
    light(story, 100)
    lit_beside(story)
    before = {host: story.reading(host) for host in ("h0", "h1")}
    for rank in (1, 2, 3):
        story.tell(300, Intent(rank=rank, operation=operation(0)))
    story.tell(300, Intent(rank=0, operation=operation(0)), Grant(ranks=(0, 1, 2, 3)))
    for host in ("h0", "h1"):
        for port in ("eth0", "eth1"):
            story.count(host, port, 520_000, 520_000)
    for rank in range(4):
        host = f"h{rank // 2}"
        story.tell(351, Done(rank=rank), sent=measured(301, 350, before[host], story.reading(host)))
    story.say(500, ENDED)
    assert story.judged().breaches == []


def removed(story: Story) -> None:
    read(story, 280, [], ours=False)


def moved(story: Story) -> None:
    command(story, 290, "1A", "5B")


def moved_by_a_reconfiguration(story: Story) -> None:
    light(story, 270, id="r9", link="h0.eth0<->h1.eth1", lit=["1A-4B", "4A-1B"])


def lost_carrier(story: Story) -> None:
    event(story, "h0.eth0", "carrier", 285, {"carrier": False})
    event(story, "h0.eth0", "carrier", 290, {"carrier": True})


def had_no_carrier(story: Story) -> None:
    event(story, "h0.eth0", "carrier", 255, {"carrier": False})


def cut(story: Story) -> None:
    cut_of(story, 290, operation(1))


@pytest.mark.parametrize(
    ("plant", "kind", "words"),
    [
        (removed, "dark", "ocs1:1A-3B of h0.eth0 was not there"),
        (moved, "moving", "ocs1:1A-3B of h0.eth0 was moved by command change"),
        (moved_by_a_reconfiguration, "moving", "was moved by reconfiguration r9"),
        (lost_carrier, "dark", "h0.eth0 lost its carrier"),
        (had_no_carrier, "dark", "h0.eth0 had no carrier"),
        (cut, "cut", "reconfiguration r9 (a way back) cut it"),
    ],
)
def test_breach_of_the_light_is_found_with_its_operation(plant: Callable[[Story], None], kind: str, words: str) -> None:
    story = told()
    plant(story)
    found = story.judged()
    assert not found.holds
    of_rank_0 = [one for one in found.breaches if one.rank == 0 and words in one.what]
    assert {(one.kind, one.operation) for one in of_rank_0} >= {(kind, str(operation(1)))}, found.breaches


@pytest.mark.parametrize("plant", [removed, moved, moved_by_a_reconfiguration, lost_carrier])
@pytest.mark.parametrize(
    "odd",
    [Odd(is_measured=False), Odd(begin_is_known=False), Odd(has_ended=False)],
    ids=["unmeasured", "told to a new agent", "not told"],
)
def test_what_befell_light_before_an_end_that_was_not_measured_is_no_breach_and_does_not_hold(
    plant: Callable[[Story], None], odd: Odd
) -> None:
    """The operation may have been over: its end was told after the daemon, or the agent, had been away."""
    story = told(odd)
    plant(story)
    found = story.judged()
    assert [one for one in found.breaches if (one.rank, one.operation) == (0, str(operation(1)))] == []
    assert any("whether operations were over, whose end was not measured, when " in one for one in found.unshown)
    assert not found.holds


def test_of_two_sends_of_a_rank_the_one_that_was_cut_is_found() -> None:
    ranks = [JobRank(host=f"h{n}", optical=[f"h{n}.eth0"]) for n in range(3)]
    story = Story(record=record(ranks=ranks, groups={"world": [0, 1, 2]}))
    first, second = (
        Operation(group="world", kind=OperationKind.SEND, index=0, size_bytes=SIZE, peer=peer) for peer in (1, 2)
    )
    for at_ms, send in ((200, first), (300, second)):
        story.tell(at_ms, Intent(rank=0, operation=send), Grant(ranks=(0,)))
        story.tell(at_ms + 50, Done(rank=0))
    cut_of(story, 310, second)
    found = [one.operation for one in story.judged().breaches if one.kind == "cut"]
    assert found == [str(second)] == ["send 0 of world to rank 2, 1 MB"]


@pytest.mark.parametrize(
    ("odd", "kind", "words"),
    [
        (Odd(began_ms=-3.0), "early", "it began 3.000 ms before its plane let it go"),
        (
            Odd(port="eth2"),
            "bytes",
            "h0 received 0 bytes over h0.eth0, and the operation brings 1000000 at least; over others: h0.eth2 1000000",
        ),
        (Odd(received=SIZE - 1), "bytes", "h0 received 999999 bytes over h0.eth0"),
        (Odd(stray=STRAY_BYTES + 1), "bytes", f"{STRAY_BYTES + 1} bytes went over h0.eth1"),
        (Odd(between=50 * SIZE), "bytes", "50000000 bytes went over h0.eth0 before it, outside of operations"),
    ],
    ids=["early", "another-way", "too-few", "stray", "between"],
)
def test_breach_of_a_rank_is_found(odd: Odd, kind: str, words: str) -> None:
    found = told(odd).judged()
    assert [(one.kind, one.rank, one.operation) for one in found.breaches] == [(kind, 0, str(operation(1)))]
    assert words in found.breaches[0].what


def test_rank_that_began_before_it_was_let_go_by_the_next_daemon_is_no_breach() -> None:
    """A power cut may have taken what the one before had answered."""
    story = told(Odd(began_ms=-3.0))
    granted_ms = next(one.granted_ns for one in operations_of(story.events).all if one.operation == operation(1)) / 1e6
    story.say(granted_ms - 1, JobResumed(job="j7x2a1b9", entry="train", events=2))
    found = story.judged()
    assert found.breaches == []
    assert "whether operations were let go that began before the daemon was started anew" in found.unshown[0]
    other = told(Odd(began_ms=-3.0))
    other.say(granted_ms - 4, JobResumed(job="j7x2a1b9", entry="train", events=2))
    assert [one.kind for one in other.judged().breaches] == ["early"], "it was there before the operation began"


def test_answer_before_the_links_were_seen_ready_is_found() -> None:
    story = told()
    story.documents = [
        one for one in story.documents if not (isinstance(one.fact, HostEvent) and one.fact.host == "h1")
    ]
    lacking = story.judged()
    assert lacking.breaches == []
    assert lacking.unshown == [
        "when h1.eth0 was ready after reconfiguration r1 is not in the records: 6 operations, from rank 0, "
        "all-reduce 0 of world, 1 MB on"
    ]
    seen_ready(story, "h1.eth0", 222)
    found = story.judged()
    assert [(one.kind, one.rank, one.operation) for one in found.breaches] == [
        ("unready", rank, str(operation(0))) for rank in (0, 1)
    ]
    assert "its plane let it go 21.000 ms before h1.eth0 was seen ready" in found.breaches[0].what


@pytest.mark.parametrize(
    ("odd", "holds"),
    [
        (Odd(is_measured=False), False),
        (Odd(is_counted=False), False),
        (Odd(begin_is_known=False), True),
        (Odd(has_ended=False), True),
        (Odd(stray=STRAY_BYTES), True),
    ],
    ids=["unmeasured", "uncounted", "agent-was-killed", "ended-with-its-job", "little-stray"],
)
def test_what_is_not_known_is_no_breach_and_does_not_hold_where_it_matters(odd: Odd, holds: bool) -> None:
    found = told(odd).judged()
    assert found.breaches == []
    assert found.holds is holds
    assert all("h0 were not counted" in one for one in found.unshown)


def test_moves_before_and_after_operations_and_of_other_ends_are_none_under_them() -> None:
    story = told()
    light(story, 400, id="r2", link="h0.eth1<->h1.eth1", lit=[*LIT, *BARE])
    command(story, 290, "7A", "8B")
    event(story, "h0.eth1", "carrier", 285, {"carrier": False})
    assert story.judged().holds


def test_light_that_is_not_in_the_records_does_not_hold() -> None:
    story = told()
    story.documents = []
    found = story.judged()
    assert not found.holds
    assert found.breaches == []
    assert any(
        "the light that operations were let go over is not in the records: 6 operations" in one for one in found.unshown
    )


def test_target_of_crossconnects_alone_is_held_by_the_fibres() -> None:
    story = told()
    for document in story.documents:
        if isinstance(document.fact, ReconfigurationStarted):
            story.documents[story.documents.index(document)] = Document(
                at_ns=document.at_ns, wall_ns=0, fact=replace(document.fact, links=[])
            )
    assert story.judged().holds
    removed(story)
    assert {one.kind for one in story.judged().breaches} == {"dark"}


def test_clock_that_began_anew_and_a_job_without_operations_are_not_shown() -> None:
    story = told()
    story.tell(1, NotReady(target="static", why="the machine was started anew"))
    assert story.judged().unshown == [
        "the daemon's machine was started anew under it: times before and after do not compare"
    ]
    silent = Story()
    silent.tell(1, Applied(target="static"), Switch(target="static"))
    assert "no operation was recorded" in silent.judged().unshown[0]
    old = told()
    old.record = record(ranks=[JobRank(host="h0"), JobRank(host="h1")], fibres={})
    assert "no NIC ports" in old.judged().unshown[0]


@pytest.mark.parametrize(
    ("kind", "least"),
    [
        ("all-reduce", 800),
        ("all-gather", 600),
        ("reduce-scatter", 200),
        ("all-to-all", 2 * 600),
        ("broadcast", 0),
        ("barrier", 0),
        ("receive", 800),
        ("send", 0),
    ],
)
def test_host_with_two_of_eight_ranks_receives_at_least(kind: str, least: int) -> None:
    assert least_received(OperationKind(kind), 800, 8, 2) == least
    assert least_received(OperationKind(kind), 800, 2, 2) == 0
