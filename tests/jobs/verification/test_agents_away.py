"""Verification of jobs whose agents were killed, stopped or started anew, and whose counters began anew: no breach."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest
from msgspec import structs

from hwd.model.host import HostBirth, HostEvent, HostLost
from hwd.model.job import JobEvent, JobResumed
from hwd.model.job_status import JobVerification
from hwd.model.plane import Applied, Done, Grant, Intent
from hwd.model.plane_json import NamedEvent
from hwd_agents.wire import PortBytes
from hwd_drivers.core.documents import Document

from ...texts import host_port
from ..job_record import ENDED, MS, measured
from .test_verification import SIZE, Odd, Story, event, light, operation, seen_ready, told

PORTS: Final = ("eth0", "eth1", "eth2")
FRAMES: Final = 1.04
"""What headers add."""
STEPS: Final = 6
STORIES: Final = 12
ERROR_NS: Final = 20_000
AWAY = [
    "counts again before it goes",
    "counts first when bytes had come",
    "hears of its end only",
    "never hears of its end",
    "was away between two operations",
    "says no times, as earlier ones",
]
ANEW = [
    "interface made anew under an operation",
    "interface made anew between two",
    "counters of a driver that begin anew",
    "counters of 32 bits",
]


@dataclass(slots=True)
class Counters:
    """Of the NIC ports of a host. `modulus`: where they begin anew."""

    draws: random.Random
    modulus: int = 1 << 64
    interface: int = 7
    ports: dict[str, list[int]] = field(default_factory=dict)

    def begin(self, base: int) -> None:
        self.ports = {port: [base, base] for port in PORTS}

    def count(self, port: str, rx: int, tx: int) -> None:
        self.ports[port] = [(one + more) % self.modulus for one, more in zip(self.ports[port], (rx, tx), strict=True)]

    def make_anew(self) -> None:
        """Some bytes later: as many as there were before, or more."""
        self.interface += 1
        self.ports["eth0"] = [self.draws.randrange(2 * SIZE), 0]

    def read(self) -> dict[str, PortBytes]:
        return {port: PortBytes(rx=rx, tx=tx, interface=self.interface) for port, (rx, tx) in self.ports.items()}


@dataclass(slots=True, kw_only=True)
class Run:
    """A run of two ranks that sends as it should, but for one operation (`breach`) of the host `h0`, of which all bytes
    come over the packet switch. `fault` befalls h0 in operation `at`.
    """

    draws: random.Random
    fault: str
    at: int
    breach: int | None = None
    story: Story = field(default_factory=Story)

    def judged(self) -> JobVerification:
        story, counters = self.story, {host: Counters(self.draws) for host in ("h0", "h1")}
        for one in counters.values():
            one.begin(self.draws.choice((0, SIZE // 2, 10**9)))
        if self.fault == "counters of a driver that begin anew":
            counters["h0"].begin(10**9)
        if self.fault == "counters of 32 bits":
            counters["h0"].modulus = 1 << 32
            counters["h0"].begin((1 << 32) - self.draws.randrange(STEPS * SIZE))
        light(story, 100)
        story.tell(150, Applied(target="static"), reconfiguration="r1")
        for index in range(STEPS):
            self._step(index, 200 + 60 * index, counters)
        story.say(900, ENDED)
        return story.judged()

    def _step(self, index: int, at_ms: float, counters: dict[str, Counters]) -> None:
        story, own = self.story, counters["h0"]
        fault = self.fault if index == self.at else ""
        if fault == "interface made anew between two":
            own.make_anew()
        for one in counters.values():
            one.count("eth0", self.draws.randrange(2000), 0)
        before = {host: one.read() for host, one in counters.items()}
        counted_ms: dict[str, float | None] = {"h0": at_ms - 2, "h1": at_ms - 6}
        story.tell(at_ms - 5, Intent(rank=1, operation=operation(index)))
        if fault == "counts again before it goes":
            before["h0"], counted_ms["h0"] = own.read(), at_ms - 0.001
        story.tell(at_ms, Intent(rank=0, operation=operation(index)), Grant(ranks=(0, 1)))
        came = round(SIZE * FRAMES)
        first = self.draws.randrange(1, came)
        way = "eth2" if index == self.breach else "eth0"
        own.count(way, first, first)
        began_ms = at_ms + 1
        if fault == "counts first when bytes had come":
            before["h0"], began_ms = own.read(), at_ms + self.draws.uniform(2, 40)
            counted_ms["h0"] = began_ms - 1
        if fault.startswith("interface made anew under"):
            own.make_anew()
        if fault.startswith("counters of a driver"):
            own.ports["eth0"] = [0, 0]
        own.count(way, came - first, came - first)
        counters["h1"].count("eth0", came, came)
        if self.fault.startswith("says no times"):
            counted_ms = dict.fromkeys(counted_ms)
            if fault:
                before["h0"] = {**before["h0"], "eth0": own.read()["eth0"]}
        for rank, host in enumerate(counters):
            is_away = rank == 0
            heard = is_away and fault == "hears of its end only"
            counted = counted_ms[host]
            sent = measured(
                None if heard else began_ms if is_away else at_ms + 1,
                at_ms + 50,
                {} if heard else before[host],
                counters[host].read(),
                error_ns=ERROR_NS,
                counted_ns=None if heard or counted is None else round(counted * MS),
            )
            unheard = is_away and fault in ("never hears of its end", "was away between two operations")
            story.tell(at_ms + 51, Done(rank=rank), sent=None if unheard else sent)


def runs(fault: str, *, has_breach: bool) -> Iterator[Run]:
    for seed in range(STORIES):
        draws = random.Random(f"{fault} {seed}")
        at = draws.randrange(STEPS)
        breach = draws.choice([one for one in range(STEPS) if one != at]) if has_breach else None
        yield Run(draws=draws, fault=fault, at=at, breach=breach)


@pytest.mark.parametrize("fault", AWAY + ANEW)
def test_what_befell_an_agent_or_its_counters_is_no_breach(fault: str) -> None:
    for run in runs(fault, has_breach=False):
        if fault.startswith("says no times") and run.at == 0:
            continue  # there is nothing before it to compare with
        found = run.judged()
        assert found.breaches == [], run
        assert found.operations == 2 * STEPS


@pytest.mark.parametrize("fault", AWAY + ANEW)
def test_breach_of_another_operation_of_the_same_run_is_found(fault: str) -> None:
    for run in runs(fault, has_breach=True):
        if fault.startswith("says no times"):
            continue  # it says less: see below
        found = run.judged()
        assert run.breach is not None
        breaches = {(one.kind, one.rank, one.operation) for one in found.breaches}
        assert breaches == {("bytes", 0, str(operation(run.breach)))}, (run.at, run.breach, found)


@pytest.mark.parametrize("fault", ["counts first when bytes had come", "hears of its end only"])
def test_breach_of_the_very_operation_in_which_the_agent_was_killed_is_found(fault: str) -> None:
    """Nothing came over its light from the end of the one before to its own end, whenever it was counted."""
    for seed in range(STORIES):
        draws = random.Random(seed)
        at = draws.randrange(1, STEPS)
        found = Run(draws=draws, fault=fault, at=at, breach=at).judged()
        assert {(one.kind, one.rank, one.operation) for one in found.breaches} == {("bytes", 0, str(operation(at)))}


def test_first_operation_that_was_counted_late_is_not_shown() -> None:
    found = Run(draws=random.Random(1), fault="counts first when bytes had come", at=0).judged()
    assert (found.breaches, found.holds) == ([], False)
    assert found.unshown == [
        "the bytes of h0 were not counted: 1 operation, from rank 0, all-reduce 0 of world, 1 MB on"
    ]


def test_what_was_counted_before_the_daemon_was_started_anew_may_not_be_in_time() -> None:
    """A power cut may have taken what the one before it let go, with what came then."""
    story = told(Odd(received=SIZE - 1))
    granted_ns = next(
        one.at_ns for one in story.events if Grant(ranks=(0, 1)) in one.plane_actions[:1] and one.at_ns > 250 * MS
    )
    assert [one.kind for one in story.judged().breaches] == ["bytes"]
    story.say(granted_ns / MS - 1, JobResumed(job="j7x2a1b9", entry="train", events=2))
    found = story.judged()
    assert found.breaches == []
    assert "h0 was first counted when some may have come" in found.unshown[0]


def test_begin_that_a_daemon_converted_that_was_started_anew_is_not_known_to_be_early() -> None:
    """A clock of a host that was set while no daemon ran moves all times before that."""
    story = told(Odd(began_ms=-3.0))
    (early,) = story.judged().breaches
    assert early.kind == "early"
    story.say(early.at_ns / MS + 4, JobResumed(job="j7x2a1b9", entry="train", events=2))
    found = story.judged()
    assert found.breaches == []
    assert "whether operations began early, whose times a daemon converted" in found.unshown[0]


def of_size(one: JobEvent, size: int) -> JobEvent:
    if not isinstance(intent := one.plane_event, Intent):
        return one
    operation = structs.replace(intent.operation, size_bytes=size)
    return structs.replace(one, event=NamedEvent.of(Intent(rank=intent.rank, operation=operation)))


def test_counters_of_32_bits_explain_what_lacks_of_operations_of_gigabytes_alone() -> None:
    """Such a counter has the same number after 4 GiB."""
    for size, other_way, is_found in ((5 << 30, False, False), (5 << 30, True, True), (SIZE, False, True)):
        story = told(Odd(received=SIZE // 2, port="eth0"))
        story.events[:] = [of_size(one, size) for one in story.events]
        for one in story.events:
            if one.sent is not None and other_way:
                index = one.sent.ended_ns // (60 * MS)
                one.sent.before["eth2"] = PortBytes(rx=index << 40, tx=0)
                one.sent.after["eth2"] = PortBytes(rx=(index + 1) << 40, tx=0)
        found = story.judged()
        assert bool(found.breaches) is is_found, (size, other_way)
        assert any("may have begun anew at 4294967296 bytes" in one for one in found.unshown) is not is_found


# --- carriers that nobody saw


def carrier(story: Story, from_ms: float, upto_ms: float, up: bool, boot: str = "b", **more: object) -> None:
    """A change that happened at some time between two."""
    event(story, "h0.eth0", "carrier", upto_ms, {"carrier": up, **more})
    last = story.documents.pop()
    assert isinstance(last.fact, HostEvent)
    fact = structs.replace(last.fact, earliest_ns=round(from_ms * MS), boot=boot)
    story.documents.append(Document(at_ns=last.at_ns, wall_ns=0, fact=fact))


def test_carrier_that_came_while_the_agent_was_away_is_not_said_to_be_missing() -> None:
    story = told()
    carrier(story, 252, 253, up=False)
    carrier(story, 252, 300, up=True)
    found = story.judged()
    assert found.breaches == []
    assert found.unshown[0].startswith("whether h0.eth0 had a carrier, which its agent did not see then, is not known")
    other = told()
    carrier(other, 252, 253, up=False)
    carrier(other, 275, 300, up=True)
    assert {one.kind for one in other.judged().breaches} == {"dark"}, "it came after the operation had begun"


def test_carrier_after_events_of_its_host_were_lost_is_not_said_to_be_missing() -> None:
    for lost, is_known in ((True, False), (False, True)):
        story = told()
        carrier(story, 252, 253, up=False)
        if lost:
            story.say(254, HostLost(host="h0", boot="b", count=3, why="the spool was full"))
        breaches = story.judged().breaches
        assert bool(breaches) is is_known
    flaps = told()
    carrier(flaps, 252, 253, up=False, unseen=2)
    flaps.say(254, HostLost(host="h0", boot="b", count=2, why="flaps that nobody saw one by one"))
    assert {one.kind for one in flaps.judged().breaches} == {"dark"}, "its state after them is known"


def test_flap_that_only_the_kernel_counted_is_a_breach_within_an_operation_and_not_shown_across_its_end() -> None:
    within = told()
    carrier(within, 265, 300, up=True, unseen=2)
    assert [(one.kind, one.what) for one in within.judged().breaches] == [("dark", "h0.eth0 lost its carrier")]
    across = told(Odd(is_measured=False))
    carrier(across, 265, 330, up=True, unseen=2)
    found = across.judged()
    assert found.breaches == []
    assert any("whether h0.eth0, whose agent was away, lost its carrier" in one for one in found.unshown)


@pytest.mark.parametrize(
    ("boot", "at_birth", "carrier_there", "is_shown"),
    [("c", 5, True, True), ("c", 7, True, False), ("c", 6, False, True), ("c", 6, True, False), ("b", 5, True, False)],
)
def test_flap_after_a_new_agent_had_read_the_carrier_is_none_of_the_operation_before(
    boot: str, at_birth: int, carrier_there: bool, is_shown: bool
) -> None:
    """The rank tells the new agent that it has ended; only then its plane moves the light, too fast for two notices.
    The agent had counted `at_birth` changes, of `boot`.
    """
    story, unseen = told(Odd(begin_is_known=False)), 2 if carrier_there else 0
    port = host_port(carrier=carrier_there, carrier_changes=at_birth)
    story.say(289, HostBirth(host="h0", boot=boot, version="0", ports={"eth0": port}))
    carrier(story, 290, 330, up=True, boot="c", unseen=unseen or 1, carrier_changes=7 if unseen else 8)
    found = story.judged()
    assert found.breaches == []
    assert any("lost its carrier under operations" in one for one in found.unshown) is not is_shown


def test_readiness_that_may_have_been_said_before_in_lost_events_is_no_breach() -> None:
    for lost in (True, False):
        story = told()
        story.documents = [
            one for one in story.documents if "ready" not in repr(one.fact) or "h1" not in repr(one.fact)
        ]
        if lost:
            story.say(150, HostLost(host="h1", boot="b", count=3, why="the spool was full"))
        seen_ready(story, "h1.eth0", 222)
        found = story.judged()
        assert {one.kind for one in found.breaches} == (set() if lost else {"unready"})
        assert found.holds is False


def test_bytes_that_came_before_it_are_none_of_an_operation_where_it_is_recorded_when_its_host_counted() -> None:
    story = told(Odd(between=SIZE, received=SIZE - 1))
    story.events = [
        one
        if one.sent is None
        else structs.replace(one, sent=structs.replace(one.sent, counted_ns=one.at_ns - 52 * MS))
        for one in story.events
    ]
    [found] = [one for one in story.judged().breaches if "the operation brings" in one.what]
    assert (found.kind, found.rank, found.operation) == ("bytes", 0, str(operation(1)))
    assert found.what.startswith(f"h0 received {SIZE - 1} bytes over h0.eth0")
