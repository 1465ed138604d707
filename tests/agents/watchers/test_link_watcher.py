"""Carrier and interfaces as the kernel reports them: every flap is counted, also earlier and unseen ones."""

import asyncio
import dataclasses
import logging
import struct

import pytest
from pyroute2.netlink import NLM_F_DUMP

from hwd_agents.sources.kernel.rtnetlink import RtnetlinkLinks
from hwd_agents.sources.link_source import LinkReading

from ..conftest import LATENCY_NS, Ear, Stage, link_watcher, stop
from ..sources.kernel.test_rtnetlink_answers import PlayedKernel, acknowledged, done, link


class Watched:
    """A link watcher on `h0`; a second life of it is given the ear, and with it the marks, of the first."""

    def __init__(self, one: Stage, ear: Ear | None = None) -> None:
        self.stage = one
        self.host = one.hosts["h0"]
        self.ear = ear or Ear()
        self.calls: list[tuple[str, bool]] = []
        self.presences: list[bool] = []
        self.link = link_watcher(one, self.ear, links_fast_s=0.25, links_slow_s=10)
        self.link.on_carrier.append(self._called)
        self.link.on_presence.append(lambda port, reading: self.presences.append(reading.present))
        self.task = one.run(self.link)

    def _called(self, port: str, reading: LinkReading) -> None:
        self.calls.append((port, reading.carrier))

    def unseen(self) -> int:
        return sum(int(told.data.get("unseen", 0)) for told in self.ear.told)


@pytest.fixture
async def seen(one: Stage) -> Watched:
    """Up with a count of 5, and observed."""
    one.hosts["h0"].carrier("eth0", up=True, flaps=4)
    await asyncio.sleep(0.1)
    seen = Watched(one)
    await asyncio.sleep(0.1)
    seen.link.begin("eth0")
    return seen


async def test_the_first_state_is_no_event_and_a_change_is_told_between_its_stamp_and_our_receipt(
    seen: Watched,
) -> None:
    assert (seen.ear.told, seen.calls, seen.link.carrier("eth0")) == ([], [("eth0", True)], True)
    await asyncio.sleep(1)
    down_ns = seen.stage.now_ns()
    seen.host.carrier("eth0", up=False)
    await asyncio.sleep(0.1)
    (told,) = seen.ear.told
    assert (told.kind, told.source, told.origin) == ("carrier", "link", "twin")
    assert (told.earliest_ns, told.at_ns) == (down_ns, down_ns + LATENCY_NS)
    assert told.data == {"carrier": False, "carrier_changes": 6, "unseen": 0}


async def test_flaps_that_the_kernel_only_counted_are_found_by_the_next_look(seen: Watched) -> None:
    await asyncio.sleep(1)
    seen.host.carrier("eth0", up=True, flaps=4, notice=False)
    flapped_ns = seen.stage.now_ns()
    await asyncio.sleep(0.3)
    (told,) = seen.ear.told
    assert told.data == {"carrier": True, "carrier_changes": 9, "unseen": 4}
    assert told.earliest_ns <= flapped_ns <= told.at_ns <= flapped_ns + 251_000_000
    kept = seen.link.observation("eth0")
    assert (kept.at_begin, kept.now, kept.lost, kept.latched) == (True, True, 2, True)
    assert seen.calls[-1] == ("eth0", True)  # who probes begins anew
    seen.host.carrier("eth0", up=False, flaps=6)
    await asyncio.sleep(0.1)
    assert seen.ear.told[-1].data == {"carrier": False, "carrier_changes": 16, "unseen": 6}
    seen.link.end("eth0")
    ended = seen.link.observation("eth0")
    assert ended.lost == 6
    seen.host.carrier("eth0", up=True)
    await asyncio.sleep(5)
    assert seen.link.observation("eth0") == ended


async def test_flaps_while_no_agent_ran_are_counted_by_the_next_one(one: Stage) -> None:
    first = Watched(one)
    await asyncio.sleep(0.1)
    one.hosts["h0"].carrier("eth0", up=True)
    await asyncio.sleep(1)
    known_ns = first.ear.told[-1].at_ns
    await stop(first.task)
    one.hosts["h0"].carrier("eth0", up=True, flaps=10)
    flapped_ns = one.now_ns()
    await asyncio.sleep(60)
    second = Watched(one, first.ear)
    await asyncio.sleep(0.1)
    told = second.ear.told[-1]
    assert told.data == {"carrier": True, "carrier_changes": 11, "unseen": 10}
    assert known_ns <= told.earliest_ns <= flapped_ns <= told.at_ns
    await stop(second.task)
    third = Watched(one, first.ear)
    await asyncio.sleep(20)
    assert third.unseen() == 10  # and counted once


async def test_counters_of_another_boot_of_the_host_count_no_flaps(one: Stage) -> None:
    one.hosts["h0"].carrier("eth0", up=True, flaps=8)
    await asyncio.sleep(0.1)
    first = Watched(one)
    await asyncio.sleep(0.1)
    await stop(first.task)
    one.hosts["h0"].life = "2"
    await one.rack_down("h0")
    await asyncio.sleep(0.1)
    await one.rack_up("h0")
    one.hosts["h0"].carrier("eth0", up=True, flaps=100)
    await asyncio.sleep(2)
    second = Watched(one, first.ear)
    await asyncio.sleep(0.1)
    assert second.ear.told == []
    one.hosts["h0"].carrier("eth0", up=True, flaps=2)
    await asyncio.sleep(0.1)
    assert second.unseen() == 2


async def test_counters_that_restart_during_the_watch_count_no_flaps(one: Stage) -> None:
    seen = Watched(one)
    await asyncio.sleep(0.1)
    await one.rack_down("h0")
    one.hosts["h0"].life = "2"
    one.hosts["h0"].carrier("eth0", up=True, flaps=100)
    await asyncio.sleep(0.1)
    await one.rack_up("h0")
    await asyncio.sleep(2)
    carrier = seen.ear.of("carrier")
    assert [(told.data["carrier"], told.data["unseen"]) for told in carrier] == [(True, 0)]


async def test_an_interface_that_goes_and_comes_back_is_told_with_its_carrier_and_in_the_log(
    seen: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hwd_agents.watchers.link_watcher")
    gone_ns = seen.stage.now_ns()
    seen.host.unplug("eth0")
    await asyncio.sleep(1)
    assert [told.kind for told in seen.ear.told] == ["interface", "carrier"]
    gone, dark = seen.ear.told
    assert (gone.data, gone.earliest_ns) == ({"present": False}, gone_ns)
    assert (dark.data["carrier"], dark.data["unseen"]) == (False, 0)
    away = seen.link.observation("eth0")
    assert (away.seen, away.now, away.lost) == (False, None, 1)
    assert away.why_not == "there is no interface eth0"
    assert seen.link.carrier("eth0") is None
    seen.host.plug("eth0", ifindex=200)
    seen.host.carrier("eth0", up=True)
    await asyncio.sleep(1)
    assert [told.data for told in seen.ear.told[2:]] == [
        {"present": True},
        {"carrier": True, "carrier_changes": 1, "unseen": 0},
    ]
    assert seen.presences == [False, True]
    assert seen.calls == [("eth0", True), ("eth0", False), ("eth0", True)]
    back = seen.link.observation("eth0")
    assert (back.now, back.lost) == (True, 1)
    assert [record.getMessage() for record in caplog.records] == [
        "eth0: there is no interface eth0",
        "eth0: its interface eth0 is there",
    ]


async def test_interface_that_was_made_anew_between_two_looks_is_present_again_and_its_changes_outlive_a_killed_watcher(
    one: Stage,
) -> None:
    one.hosts["h0"].carrier("eth0", up=True, flaps=4)
    await asyncio.sleep(0.1)
    first = Watched(one)
    await asyncio.sleep(0.1)
    await one.rack_down("h0")
    one.hosts["h0"].unplug("eth0")
    one.hosts["h0"].plug("eth0", ifindex=200)
    one.hosts["h0"].carrier("eth0", up=True, flaps=6)
    await asyncio.sleep(0.1)
    await one.rack_up("h0")
    await asyncio.sleep(2)
    await stop(first.task)
    whole = _changes(first.ear)
    assert [told.kind for told in first.ear.told] == ["interface", "carrier"]
    assert (whole, first.presences) == (7, [True])
    for number in range(len(first.ear.told) + 1):
        ear = Ear()
        ear.told = first.ear.told[:number]
        ear.marks = first.ear.marks_after[number]
        second = Watched(one, ear)
        await asyncio.sleep(0.1)
        await stop(second.task)
        assert _changes(ear) == whole, f"killed after {number} words: {ear.told}"


def _changes(ear: Ear) -> int:
    """Of a carrier that was there at first, as all that was told has them."""
    was, changes = True, 0
    for told in ear.of("carrier"):
        changes += int(told.data["unseen"]) + (told.data["carrier"] != was)
        was = told.data["carrier"]
    return changes


async def test_an_interface_that_comes_after_the_start_is_told_and_one_that_was_renamed_is_said_with_its_new_name(
    one: Stage,
) -> None:
    one.hosts["h0"].unplug("eth0")
    await asyncio.sleep(0.1)
    seen = Watched(one)
    await asyncio.sleep(1)
    one.hosts["h0"].plug("eth0", ifindex=100)
    await asyncio.sleep(1)
    assert [told.data for told in seen.ear.told] == [{"present": True}]
    assert (seen.link.carrier("eth0"), seen.link.why_not("eth0")) == (False, "")
    one.hosts["h0"].unplug("eth0")
    await asyncio.sleep(1)
    assert seen.link.why_not("eth0") == "there is no interface eth0"
    one.hosts["h0"].plug("ens1", ifindex=100)
    await asyncio.sleep(1)
    assert seen.link.why_not("eth0") == (
        "there is no interface eth0: it is now called ens1. Use that name in the agent's file, or rename the interface"
    )
    one.hosts["h0"].unplug("ens1")
    one.hosts["h0"].plug("eth0", ifindex=100)
    await asyncio.sleep(1)
    assert seen.link.why_not("eth0") == ""


async def test_while_a_port_is_observed_it_is_read_often_and_the_others_are_not(one: Stage) -> None:
    def answer(sequence: int) -> list[bytes]:
        (flags,) = struct.unpack_from("=H", kernel.requests[-1], 6)
        asked.append("all" if flags & NLM_F_DUMP == NLM_F_DUMP else "one")
        if asked[-1] == "one":
            assert b"eth0\0" in kernel.requests[-1]
            return [link(1, b"eth0", sequence=sequence), acknowledged(sequence)]
        return [link(1, b"eth0", sequence=sequence) + link(2, b"veth7", sequence=sequence), done(sequence)]

    asked: list[str] = []
    kernel = PlayedKernel(answer)
    one.sources["h0"] = dataclasses.replace(one.sources["h0"], link=RtnetlinkLinks(kernel, one.clock))
    watched = Watched(one)
    await asyncio.sleep(1)
    assert set(asked) == {"all"}
    asked.clear()
    watched.link.begin("eth0")
    await asyncio.sleep(2.1)
    assert asked == 9 * ["one"]
    await asyncio.sleep(10)
    assert asked.count("all") == 1
    watched.link.end("eth0")
    asked.clear()
    await asyncio.sleep(20)
    assert asked == ["all"] * 2
