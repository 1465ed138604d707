"""Links read from the real kernel, on the interfaces of a twin rack."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

import pytest
from pyroute2.netlink.rtnl import RTM_NEWLINK
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from hwd.twin.kernel import SWITCH, Bracket, Carrier, Crossbar, Keeper, messages
from hwd.twin.kernel.messages import requests_to
from hwd_agents.sources.kernel.netlink_requests import Request, encode
from hwd_agents.sources.kernel.rtnetlink import DELIVERY_NS, RtnetlinkLinks
from hwd_agents.sources.kernel.timed_selector import TimedSelector
from hwd_agents.sources.link_source import LinkReading, OperState, Origin
from hwd_drivers.core.clock import ShiftedClock, SystemClock
from hwd_drivers.core.errors import LinkError

pytestmark = pytest.mark.kernel

WITHIN_S = 20.0
BUSY_NS = 80_000_000
LATE_NS = 60_000_000
"""What a test that does hardly anything has worked or waited in a fifth of a second, on busy processors."""


class Watched:
    """The readings of one source, kept."""

    def __init__(self, links: RtnetlinkLinks) -> None:
        self.links = links
        self.readings: list[LinkReading] = []
        self._more = asyncio.Event()

    def take(self, reading: LinkReading) -> None:
        self.readings.append(reading)
        self._more.set()

    def of(self, interface: str = "eth0") -> list[LinkReading]:
        return [reading for reading in self.readings if reading.interface == interface]

    async def until(self, wanted: Callable[[LinkReading], bool], interface: str = "eth0") -> LinkReading:
        """The first reading not looked at before that is as wanted; forgets those before it."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                while self.readings:
                    reading = self.readings.pop(0)
                    if reading.interface == interface and wanted(reading):
                        return reading
                self._more.clear()
                await self._more.wait()


async def plug_a(keeper: Keeper, crossbar: Crossbar, clock: SystemClock) -> None:
    """Make eth0 of h0, dark, and let the kernel tell all of it: of a new interface it does so within a second, of one
    whose carrier comes and goes at once.
    """
    crossbar.plug("a", host="h0", interface="eth0", mtu_bytes=4200)
    watched = Watched(RtnetlinkLinks(keeper.sockets("h0"), clock))
    await watched.links.open(watched.take)
    crossbar.carrier("a", True)
    await watched.until(lambda reading: reading.operstate is OperState.UP)
    crossbar.carrier("a", False)
    await watched.until(lambda reading: reading.operstate is OperState.DOWN)
    await watched.links.close()


@pytest.fixture
async def watched(keeper: Keeper, crossbar: Crossbar, clock: SystemClock) -> AsyncIterator[Watched]:
    await plug_a(keeper, crossbar, clock)
    watched = Watched(RtnetlinkLinks(keeper.sockets("h0"), clock))
    await watched.links.open(watched.take)
    yield watched
    await watched.links.close()


def is_up(reading: LinkReading) -> bool:
    return reading.carrier


def is_down(reading: LinkReading) -> bool:
    return not reading.carrier


def holds(reading: LinkReading, bracket: Bracket) -> bool:
    """Whether the truth meets the bound."""
    assert reading.earliest_ns is not None
    return reading.earliest_ns <= bracket.after_ns and bracket.before_ns <= reading.at_ns


async def test_each_interface_is_read_at_the_start_and_at_a_refresh_bounded_by_the_reading_before(
    watched: Watched, crossbar: Crossbar, clock: SystemClock
) -> None:
    assert {reading.interface for reading in watched.readings} == {"lo", "eth0"}
    (start,) = watched.of()
    plug = crossbar.plugs["a"]
    assert (start.ifindex, start.mtu) == (plug.ifindex, 4200)
    assert (start.present, start.admin_up, start.carrier, start.origin) == (True, True, False, Origin.DUMP)
    assert start.earliest_ns is None
    before = start
    for interfaces in (None, ["eth0", "nothing0"]):
        watched.readings.clear()
        asked_ns = clock.monotonic_ns()
        await watched.links.refresh(interfaces)
        assert {reading.interface for reading in watched.readings} == ({"eth0"} if interfaces else {"lo", "eth0"})
        (reading,) = watched.of()
        assert reading.origin is Origin.DUMP
        assert reading.earliest_ns is not None
        assert reading.earliest_ns <= before.at_ns < asked_ns <= reading.at_ns
        before = reading
    watched.readings.clear()
    await asyncio.gather(*(watched.links.refresh() for _ in range(5)))
    assert len(watched.of()) == 5, "each is answered"


async def test_carrier_is_seen_with_right_counts(watched: Watched, crossbar: Crossbar) -> None:
    (start,) = watched.of()
    crossbar.carrier("a", True)
    up = await watched.until(is_up)
    crossbar.carrier("a", False)
    down = await watched.until(is_down)
    assert [up.changes_since(start), down.changes_since(start)] == [1, 2]
    assert (up.carrier_ups - start.carrier_ups, down.carrier_downs - start.carrier_downs) == (1, 1)
    assert up.operstate is OperState.UP
    assert down.operstate is OperState.DOWN
    assert {up.origin, down.origin} == {Origin.NOTICE}
    crossbar.carrier("a", True)
    before = await watched.until(lambda reading: reading.operstate is OperState.UP)
    crossbar.apply([Carrier(port="a", up=False), Carrier(port="a", up=True)])
    after = await watched.until(lambda reading: reading.carrier and reading.changes_since(before) == 2)
    assert after.carrier_downs - before.carrier_downs == 1, "a flap within a millisecond"


@pytest.mark.parametrize("up", [True, False])
async def test_the_interval_of_a_change_read_by_a_busy_agent_contains_it(
    watched: Watched, crossbar: Crossbar, clock: SystemClock, up: bool
) -> None:
    crossbar.carrier("a", not up)
    if not up:
        await watched.until(is_up)
    bracket = crossbar.carrier("a", up)
    busy_until_ns = bracket.after_ns + BUSY_NS
    while clock.monotonic_ns() < busy_until_ns:
        pass
    reading = await watched.until(is_up if up else is_down)
    assert reading.at_ns >= busy_until_ns
    assert holds(reading, bracket)


async def test_interface_that_goes_and_comes_back_is_followed(watched: Watched, crossbar: Crossbar) -> None:
    crossbar.carrier("a", True)
    before = await watched.until(is_up)
    crossbar.unplug("a")
    gone = await watched.until(lambda reading: not reading.present)
    assert (gone.ifindex, gone.carrier, gone.operstate) == (before.ifindex, False, OperState.NOT_PRESENT)
    plug = crossbar.plug("a", host="h0", interface="eth0")
    crossbar.carrier("a", True)
    back = await watched.until(is_up)
    assert back.ifindex == plug.ifindex != gone.ifindex
    assert back.changes_since(gone) == back.carrier_changes
    crossbar.plug("b", host="h0", interface="eth1")
    first = await watched.until(lambda reading: reading.present, "eth1")
    assert first.origin is Origin.NOTICE
    assert first.earliest_ns is not None
    assert first.at_ns > back.at_ns


async def test_renamed_interface_is_gone_by_its_old_name_and_one_whose_name_is_no_text_hides_no_other(
    watched: Watched, keeper: Keeper, crossbar: Crossbar, clock: SystemClock
) -> None:
    """The kernel takes any bytes but a slash, a colon and white space."""
    crossbar.plug("b", host="h0", interface="eth1")
    plug = crossbar.plugs["a"]
    do(keeper, "h0", messages.set_up(plug.ifindex, up=False, says="switch off"))
    do(keeper, "h0", rename(plug.ifindex, b"\xff1"))
    gone = await watched.until(lambda reading: not reading.present)
    new = await watched.until(lambda reading: reading.present, "\ufffd1")
    assert gone.ifindex == new.ifindex == plug.ifindex
    later = Watched(RtnetlinkLinks(keeper.sockets("h0"), clock))
    await later.links.open(later.take)
    assert {"eth1", "\ufffd1"} <= {reading.interface for reading in later.readings}
    await later.links.close()


async def test_an_overrun_is_counted_and_all_links_are_read_again(
    keeper: Keeper, crossbar: Crossbar, clock: SystemClock
) -> None:
    await plug_a(keeper, crossbar, clock)
    watched = Watched(RtnetlinkLinks(keeper.sockets("h0"), clock, receive_buffer_bytes=2048))
    await watched.links.open(watched.take)
    (start,) = watched.of()
    gone = crossbar.plug("b", host="h0", interface="eth1")
    await watched.until(lambda reading: reading.ifindex == gone.ifindex, "eth1")
    changes = 100
    for n in range(changes // 2):  # synchronous: we do not read meanwhile
        crossbar.carrier("a", True)
        if n == changes // 4:
            crossbar.unplug("b")
        crossbar.carrier("a", False)
    last = await watched.until(lambda reading: reading.origin is Origin.RECOVERY)
    if last.changes_since(start) < changes:  # its dump was before the last changes were worked off
        last = await watched.until(lambda reading: reading.changes_since(start) == changes)
    assert last.changes_since(start) == changes
    assert watched.links.overruns >= 1
    await watched.links.refresh()
    assert not any(reading.present for reading in watched.of("eth1"))
    await watched.links.close()


def do(keeper: Keeper, ns: str, request: Request) -> None:
    with requests_to(keeper, ns) as kernel:
        kernel.do([request])


def rename(ifindex: int, name: bytes) -> Request:
    message = ifinfmsg()
    message["index"] = ifindex
    message["attrs"].append(("IFLA_IFNAME", name))
    return Request(says="rename", data=encode(message, RTM_NEWLINK))


class HeldBack:
    """A pair whose ends have the same index, so that the kernel treats its changes as it does those of a real NIC."""

    INDEX = 50

    def __init__(self, keeper: Keeper, clock: SystemClock) -> None:
        self._keeper = keeper
        self._clock = clock
        namespace = keeper.namespace("h0")
        pair = messages.add_pair(
            near="fibre",
            near_index=self.INDEX,
            far="nic",
            far_index=self.INDEX,
            far_namespace=namespace,
            address="02:00:00:00:00:01",
            mtu=1500,
            says="make the pair",
        )
        do(keeper, SWITCH, pair)
        os.close(namespace)
        do(keeper, "h0", messages.set_up(self.INDEX, up=True, says="switch on"))

    def carrier(self, up: bool) -> Bracket:
        before_ns = self._clock.monotonic_ns()
        do(self._keeper, SWITCH, messages.set_up(self.INDEX, up=up, says="switch"))
        return Bracket(before_ns=before_ns, after_ns=self._clock.monotonic_ns())


@pytest.fixture
def nic(keeper: Keeper, clock: SystemClock) -> HeldBack:
    return HeldBack(keeper, clock)


async def test_notice_that_the_kernel_held_back_has_a_bound_that_says_so(nic: HeldBack, watched: Watched) -> None:
    held_back = 0
    for up in (True, False, True, False):
        bracket = nic.carrier(up)
        reading = await watched.until(is_up if up else is_down, "nic")
        if reading.at_ns - bracket.after_ns > 100_000_000:
            held_back += 1
            assert holds(reading, bracket)
    assert held_back, "this kernel holds nothing back: HELD_BACK_NS may go"


@pytest.mark.parametrize("interfaces", [None, ["nic"]], ids=["all", "one"])
async def test_a_fall_that_a_refresh_has_shown_and_the_rise_after_it_are_within_their_bounds(
    nic: HeldBack, watched: Watched, interfaces: list[str] | None
) -> None:
    nic.carrier(True)
    rise = await watched.until(lambda reading: reading.carrier and reading.operstate is OperState.UP, "nic")
    for round_ in range(3):
        bracket = nic.carrier(False)
        await watched.links.refresh(interfaces)
        fall = await watched.until(is_down, "nic")
        assert holds(fall, bracket)
        if round_ == 0 and interfaces is None:
            assert fall.operstate is OperState.UP, "this kernel has told of the fall already: nothing is held back"
        bracket = nic.carrier(True)
        rise = await watched.until(is_up, "nic")
        assert rise.origin is Origin.NOTICE
        assert holds(rise, bracket)
    brackets = [nic.carrier(up) for up in (False, True, False)]
    await watched.links.refresh(interfaces)
    last = watched.of("nic")[-1]
    assert (last.changes_since(rise), last.carrier, holds(last, brackets[-1])) == (3, False, True)


async def test_stamps_are_of_the_injected_clock(keeper: Keeper, crossbar: Crossbar, clock: SystemClock) -> None:
    await plug_a(keeper, crossbar, clock)
    shifted = ShiftedClock(clock, offset_s=1000.0, drift_ppm=50)
    watched = Watched(RtnetlinkLinks(keeper.sockets("h0"), shifted))
    before_ns = shifted.monotonic_ns()
    await watched.links.open(watched.take)
    (reading,) = watched.of()
    assert before_ns <= reading.at_ns <= shifted.monotonic_ns()
    await watched.links.close()


async def test_closed_source_is_silent_and_refuses_and_a_second_open_is_refused(
    watched: Watched, crossbar: Crossbar
) -> None:
    with pytest.raises(LinkError, match="open already"):
        await watched.links.open(watched.take)
    await watched.links.close()
    watched.readings.clear()
    crossbar.carrier("a", True)
    with pytest.raises(LinkError, match="the source is closed"):
        await watched.links.refresh()
    assert watched.readings == []


def in_an_agents_loop(main: Callable[[TimedSelector], Coroutine[None, None, None]]) -> None:
    selector = TimedSelector(SystemClock())
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(main(selector))


def test_in_the_loop_of_an_agent_the_bound_is_as_wide_as_the_loop_was_late(tmp_path: Path) -> None:
    async def main(selector: TimedSelector) -> None:
        clock = SystemClock()
        async with Keeper() as keeper:
            await keeper.start(["h0"], tmp_path / "run")
            crossbar = Crossbar(keeper, clock)
            await plug_a(keeper, crossbar, clock)
            watched = Watched(RtnetlinkLinks(keeper.sockets("h0"), clock, selector=selector))
            await watched.links.open(watched.take)
            held, widths_ns, rounds = 0, list[int](), 30
            for number in range(rounds):
                await asyncio.sleep(0.2)  # longer than the bound of a loop that idles
                up, busy = number % 2 == 0, number % 3 == 0
                bracket = crossbar.carrier("a", up)
                while busy and clock.monotonic_ns() < bracket.after_ns + BUSY_NS:
                    pass
                reading = await watched.until(is_up if up else is_down)
                assert reading.earliest_ns is not None
                held += holds(reading, bracket)
                if not busy:
                    widths_ns.append(reading.at_ns - reading.earliest_ns)
            assert held >= rounds * 0.9  # a machine under load delivers some later than the bound says
            assert sorted(widths_ns)[len(widths_ns) // 2] < DELIVERY_NS + LATE_NS
            await watched.links.close()
            crossbar.close()

    in_an_agents_loop(main)


def test_more_notices_than_a_turn_takes_did_not_come_before_they_are_said_to_have_come_at_the_earliest(
    tmp_path: Path,
) -> None:
    """Of a host whose administrator gives sockets much room."""

    async def main(selector: TimedSelector) -> None:
        clock = SystemClock()
        async with Keeper() as keeper:
            await keeper.start(["h0"], tmp_path / "run")
            crossbar = Crossbar(keeper, clock)
            ports = {f"eth{number}": f"p{number}" for number in range(4)}
            for interface, port in ports.items():
                crossbar.plug(port, host="h0", interface=interface)
            links = RtnetlinkLinks(keeper.sockets("h0"), clock, selector=selector, receive_buffer_bytes=1 << 22)
            brackets: dict[tuple[str, int], Bracket] = {}
            seen: list[LinkReading] = []
            last: set[tuple[str, int]] = set()
            done = asyncio.Event()

            def take(reading: LinkReading) -> None:
                seen.append(reading)
                if (found := (reading.interface, reading.carrier_changes)) in last:
                    last.remove(found)
                    if not last:
                        done.set()
                until_ns = clock.monotonic_ns() + 60_000 * bool(brackets)  # as an event takes
                while clock.monotonic_ns() < until_ns:
                    pass

            await links.open(take)
            start = {reading.interface: reading.carrier_changes for reading in seen}
            seen.clear()
            changes = 200  # of each port; a busy kernel tells of half of them, as it puts those together that wait
            for number in range(changes):  # we do not read meanwhile
                for interface, port in ports.items():
                    bracket = crossbar.carrier(port, number % 2 == 0)
                    brackets[interface, start[interface] + number + 1] = bracket
            last |= {(interface, start[interface] + changes) for interface in ports}
            async with asyncio.timeout(WITHIN_S):
                await done.wait()
            assert len([reading for reading in seen if reading.origin is Origin.NOTICE]) > 256, "more than two turns"
            assert links.overruns == 0
            early = [
                reading
                for reading in seen
                if (told := brackets.get((reading.interface, reading.carrier_changes))) is not None
                and reading.earliest_ns is not None
                and reading.earliest_ns > told.after_ns
            ]
            assert early == []
            await links.close()
            crossbar.close()

    in_an_agents_loop(main)
