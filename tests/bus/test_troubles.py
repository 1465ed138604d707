"""What is wrong on a host is in the daemon's log: once, with its remedy, and once when it is over."""

import logging

import pytest
from msgspec.structs import replace

from hwd.bus.allowance import Allowance
from hwd.bus.host_agent import HostAgent
from hwd_agents.wire import Birth, Inventory, SourceNote, SpoolNote

from ..agents.wire import golden
from .world import Peer, World

FULL = "cannot write: No space left on device; events are kept in memory. Free space on its file system"
RENAMED = (
    "there is no interface eth3: it is now called weird0. Use that name in the agent's file, or rename the interface"
)


def birth(*, spool: str = "", link: str = "") -> Birth:
    source = SourceNote(sees=[] if link else ["carrier"], origin="kernel", why_not=link)
    note = replace(golden.NOTE, interface="eth3", present=not link, carrier=None if link else True)
    ports = {"eth3": replace(note, carrier_changes=None if link else 2, sources={"link": source})}
    return replace(golden.birth(Inventory(spool=SpoolNote(why=spool))), ports=ports)


async def test_a_full_disk_and_a_renamed_interface_are_in_the_log_once_and_so_is_their_end(
    virtual_time: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hwd.bus.host_agent")
    host = HostAgent("h0", lambda kind, **data: None, lambda cause: None, Allowance("h0", lambda *each: None), {})
    for told in (birth(), birth(spool=FULL), birth(spool=FULL), birth(spool=FULL, link=RENAMED)):
        host.take_birth(told, 0.0)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"h0: spool: {FULL}"),
        ("WARNING", f"h0: eth3: {RENAMED}"),
    ]
    caplog.clear()
    host.take_birth(birth(link=RENAMED), 0.0)
    host.take_birth(birth(), 0.0)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "h0: spool: well again"),
        ("INFO", "h0: eth3: well again"),
    ]


async def test_the_first_lost_events_of_a_host_are_in_the_log(
    world: World, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    for changes in (9, 15):
        await peer.send(peer.event(carrier=True, carrier_changes=changes, unseen=6))
    await world.until("host.lost", 2)
    assert [record.getMessage() for record in caplog.records if "lost" in record.getMessage()] == [
        "h0: 6 events lost: flaps that nobody saw one by one. `hwd watch --kind host.lost --after 0` lists them"
    ]
