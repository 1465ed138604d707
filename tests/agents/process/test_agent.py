"""Whole agents: what the daemon hears of them."""

import asyncio
import itertools
from typing import Any

import msgspec
import pytest

from hwd_agents import wire
from hwd_agents.wire import Birth, ClockReply, Events, Reply, State
from hwd_agents.wire.events import CarrierData, InterfaceData
from hwd_drivers.core.errors import LinkError
from hwd_drivers.twins.nodes import NodeKilled

from ..played_rack import LATENCY_S
from .conftest import MS, Lab


async def reconfigure(one: Lab) -> None:
    """As a rack would play it: dark, light, firmware, carrier, RDMA."""
    one.each(lambda host: host.light("eth0", lit=False))
    await asyncio.sleep(0.1)
    one.each(lambda host: host.light("eth0", lit=True))
    await asyncio.sleep(3)
    one.each(lambda host: host.phy("eth0", up=True))
    one.each(lambda host: host.carrier("eth0", up=True))
    await asyncio.sleep(0.15)
    one.each(lambda host: host.rdma("mlx5_0", active=True))
    await asyncio.sleep(0.5)


async def test_an_agent_says_who_it_is_before_anything_else_and_when_it_is_told_to_stop(one: Lab) -> None:
    first, second = [message for host, message in one.heard if host == "h0"][:2]
    assert isinstance(first, State)
    assert first.state == "up"
    assert isinstance(second, Birth)
    assert first.boot == second.boot == one.agents["h0"].boot
    port = one.all("h0", Birth)[-1].ports["eth0"]
    assert (port.present, port.carrier, port.carrier_changes) == (True, False, 0)
    assert port.probe_port is not None
    sees = {name: note.sees for name, note in port.sources.items()}
    assert sees == {
        "link": ["carrier", "interface"],
        "ethtool": [],
        "counters": [],
        "module": ["dark", "light"],
        "phy": ["firmware"],
        "sysfs": ["rdma"],
        "probe": ["ready"],
    }
    await one.stop("h0")
    await asyncio.sleep(0.1)
    assert [message.state for message in one.all("h0", State)] == ["up", "down"]


async def test_a_reconfiguration_is_told_stage_by_stage_within_its_bounds(one: Lab) -> None:
    one.each(lambda host: host.light("eth0", lit=True))
    await asyncio.sleep(3)
    replies = await one.observe()
    began_ns = one.clock.monotonic_ns() + 5 * 10**9
    await reconfigure(one)
    for host in ("h0", "h1"):
        light = replies[host].data["ports"]["eth0"]["light"]
        assert (light["seen"], light["now"], light["latched"]) == (True, True, True)
        truth = {"dark": 0, "light": 100, "firmware": 3100, "carrier": 3100, "rdma": 3250}
        for kind, at_ms in truth.items():
            found = [event for event in one.events(host) if event.kind == kind][-1]
            assert found.earliest_ns <= began_ns + at_ms * MS <= found.at_ns, kind
            width_ns = {"dark": 11 * MS, "light": 22 * MS, "rdma": 5 * MS}.get(kind, round(LATENCY_S * 1e9))
            assert found.at_ns - found.earliest_ns <= width_ns, kind
        ready = one.event(host, "ready")
        assert ready.earliest_ns >= began_ns + 3100 * MS
        assert began_ns + 3250 * MS <= ready.at_ns <= began_ns + 3265 * MS
        assert ready.data.peer == ("h1.eth0" if host == "h0" else "h0.eth0")
        assert ready.data.via == "udp"
        assert {event.origin for event in one.events(host)} == {"twin"}


async def test_settle_tells_never_left_from_unknown(one: Lab) -> None:
    one.each(lambda host: host.light("eth0", lit=True))
    one.each(lambda host: host.phy("eth0", up=True))
    one.each(lambda host: host.carrier("eth0", up=True))
    await asyncio.sleep(3)
    await one.observe()
    await asyncio.sleep(1)
    kept = (await one.ask("h0", "settle", reconfiguration="r1")).data["ports"]["eth0"]
    for kind in ("light", "firmware", "carrier"):
        assert (kept[kind]["seen"], kept[kind]["at_begin"], kept[kind]["now"]) == (True, True, True), kind
        assert kept[kind]["lost"] == 0, kind
        assert kept[kind]["latched"], kind
    assert kept["light"]["looks"] >= 90
    assert kept["light"]["longest_gap_ns"] <= 11 * MS
    assert kept["rdma"]["now"] is False
    assert kept["ready"]["now"] is False  # its RDMA port is down
    await one.observe("r2")
    one.hosts["h0"].light("eth0", lit=False)
    await asyncio.sleep(0.001)
    one.hosts["h0"].light("eth0", lit=True)  # shorter than the sampling: the module has latched it
    one.hosts["h0"].carrier("eth0", up=True, flaps=2, notice=False)
    await asyncio.sleep(1)
    left = (await one.ask("h0", "settle", reconfiguration="r2")).data["ports"]["eth0"]
    assert (left["light"]["lost"], left["carrier"]["lost"]) == (1, 1)


async def test_probes_keep_to_the_pace_and_the_rate_of_the_agents_file(one: Lab) -> None:
    await one.stop("h0")
    one.start("h0", probe={"first_s": 0.0001, "most_s": 0.0001, "packets_per_s": 200})
    await asyncio.sleep(0.5)
    one.each(lambda host: host.carrier("eth0", up=True))
    await one.observe(for_s=6)
    sent = one.hosts["h0"].datagrams_sent
    await asyncio.sleep(5)
    assert 990 <= one.hosts["h0"].datagrams_sent - sent <= 2010, "requests, and replies by a rate of their own"


async def test_the_clock_is_answered_with_our_receipt_and_our_sending(one: Lab) -> None:
    t1_ns = one.clock.monotonic_ns()
    request = wire.ClockRequest(boot=one.agents["h0"].boot, seq=1, id=4, t1_ns=t1_ns)
    await one.bus.publish(wire.topic("tb", "h0", "clock"), wire.encode(request))
    other = wire.ClockRequest(boot="another", seq=1, id=5, t1_ns=t1_ns)
    await one.bus.publish(wire.topic("tb", "h0", "clock"), wire.encode(other))
    await asyncio.sleep(0.1)
    (reply,) = one.all("h0", ClockReply)
    assert (reply.seq, reply.id, reply.t1_ns) == (1, 4, t1_ns)
    assert reply.t2_ns == t1_ns + 5 * 10**9 + 2 * round(LATENCY_S * 1e9)  # publisher to broker to agent
    assert reply.t3_ns == reply.t2_ns


async def test_a_forged_command_is_told_what_is_wrong_with_it_or_counted_and_nothing_is_done(one: Lab) -> None:
    boot = one.agents["h0"].boot

    async def forge(leaf: str = "command", *, retain: bool = False, size: int = 0, **more: Any) -> None:
        fields: dict[str, Any] = {
            "boot": boot,
            "seq": 1,
            "id": "f1",
            "reply_to": wire.topic("tb", "h0", "reply"),
            "expires_at_ns": one.clock.monotonic_ns() + 6 * 10**9,
            "verb": "observe",
            "arguments": {"reconfiguration": "forged", "peers": [], "for_s": 1, "more": "x" * size},
        }
        command = wire.Command(**{**fields, **more})
        await one.bus.publish(wire.topic("tb", "h0", leaf), wire.encode(command), retain=retain)
        await asyncio.sleep(0.1)

    refused = await one.ask("h0", "observe", expires_in_s=10**6, reconfiguration="r", peers=[], for_s=1)
    assert (refused.outcome, refused.why) == ("expired", "it expires in 1000000 s, over the 600 s of any command")
    before = len(one.all("h0", Reply))
    await forge(id="f" * 200)
    (long,) = one.all("h0", Reply)[before:]
    assert (long.outcome, long.why) == ("refused", "its id has 200 characters, over the limit of 128")
    unknown = await one.ask("h0", "reboot")
    assert unknown.outcome == "refused"
    assert "observe, settle, resend, refresh, set, hold, put-back, delegate, take-back" in unknown.why
    before = len(one.all("h0", Reply))
    counted = one.agents["h0"].garbage
    wrongs: list[dict[str, Any]] = [{"size": 1 << 20}, {"leaf": "ack"}, {"leaf": "clock"}]
    for number, wrong in enumerate(wrongs, 1):
        await forge(**wrong)
        assert one.agents["h0"].garbage == counted + number, wrong
    beyond = wire.Ack(boot=boot, seq=1, upto=10**9)
    await one.bus.publish(wire.topic("tb", "h0", "ack"), wire.encode(beyond))
    await asyncio.sleep(0.1)
    assert one.agents["h0"].garbage == counted + 4
    assert len(one.all("h0", Reply)) == before, "what makes no sense is not answered"
    await forge(reply_to=wire.topic("tb", "h1", "reply"))
    assert one.all("h0", Reply)[-1].id == "f1", "answered on our own topic, whatever it asks for"
    assert one.all("h1", Reply) == []
    await forge(id="f2", leaf="reply")
    assert one.all("h0", Reply)[-1].id == "f1", "what is not on our topic is not for us"
    await forge(id="f3", retain=True)
    one.nodes.kill("h0")
    with pytest.raises(NodeKilled):
        await one.lives["h0"]
    one.start("h0")
    await asyncio.sleep(1)
    assert one.agents["h0"].garbage == 1, "nobody asks whoever comes later"


@pytest.mark.parametrize("away", ["broker", "connection", "daemon"])
async def test_no_event_is_lost_while_someone_is_away(one: Lab, away: str) -> None:
    seen = len(one.events("h0"))
    match away:
        case "broker":
            one.broker.stop()
        case "connection":
            one.broker.cut("h0")
        case _:
            one.broker.cut("daemon")
    for number in range(600):
        one.hosts["h0"].carrier("eth0", up=number % 2 == 0)
        await asyncio.sleep(0.0005)
    one.broker.start()
    await asyncio.sleep(10)
    found = one.events("h0")[seen:]
    assert [event.seq for event in found] == list(range(seen + 1, seen + 601))
    assert [event.data.carrier_changes for event in found] == list(range(1, 601))
    assert all(len(message.events) <= wire.EVENTS_MAX for message in one.all("h0", Events))
    reply = await one.ask("h0", "resend", boot=one.agents["h0"].boot, from_seq=1, upto_seq=1)
    assert reply.data == {"here": 0, "oldest_seq": seen + 601}, "what was acknowledged is not here"


async def test_a_killed_agent_leaves_its_events_and_the_next_one_counts_the_unseen_changes(one: Lab) -> None:
    one.acknowledges = False
    one.hosts["h0"].carrier("eth0", up=True)
    await asyncio.sleep(0.1)
    first = one.agents["h0"].boot
    one.broker.cut("daemon")
    one.heard.clear()
    one.nodes.kill("h0")
    with pytest.raises(NodeKilled):
        await one.lives["h0"]
    one.hosts["h0"].carrier("eth0", up=False, flaps=6)
    one.acknowledges = True
    await asyncio.sleep(1)
    assert [message.state for message in one.all("h0", State)] == ["lost"]
    one.start("h0")
    await asyncio.sleep(10)
    by_boot = {message.boot: message.events for message in one.all("h0", Events)}
    assert [event.data.carrier_changes for event in by_boot.pop(first)] == [1]
    ((event,),) = by_boot.values()
    assert event.data == CarrierData(carrier=False, carrier_changes=8, unseen=6)
    assert event.seq == 1


async def test_a_disconnected_rack_is_in_the_birth_message_until_it_reconnects(one: Lab) -> None:
    one.hosts["h0"].hang_up()
    await asyncio.sleep(0.04)
    note = one.all("h0", Birth)[-1].ports["eth0"].sources["module"]
    assert note.sees == []
    assert "is away" in note.why_not
    await asyncio.sleep(3)
    assert one.all("h0", Birth)[-1].ports["eth0"].sources["module"].sees == ["dark", "light"]


async def test_an_interface_that_is_removed_and_created_again_is_reported_and_probed(one: Lab) -> None:
    one.hosts["h0"].unplug("eth0")
    await asyncio.sleep(0.5)
    assert one.event("h0", "interface").data == InterfaceData(present=False)
    assert not one.all("h0", Birth)[-1].ports["eth0"].present
    one.hosts["h0"].plug("eth0", ip="10.0.0.0", rdma="mlx5_0", ifindex=101)
    await asyncio.sleep(0.5)
    one.each(lambda host: host.carrier("eth0", up=True))
    one.each(lambda host: host.rdma("mlx5_0", active=True))
    await one.observe()
    await asyncio.sleep(3)
    assert [event.data for event in one.events("h0") if event.kind == "interface"][1:] == [InterfaceData(present=True)]
    assert one.kinds("h0").count("ready") == 1


async def test_an_acknowledgement_during_the_stop_of_an_agent_is_left_to_its_next_start(one: Lab) -> None:
    """Its spool is closed by then."""
    one.acknowledges = False
    one.hosts["h0"].carrier("eth0", up=True)
    await asyncio.sleep(3)
    boot, upto = one.agents["h0"].boot, one.events("h0")[-1].seq
    told = len(one.all("h0", Events))
    ack = wire.encode(wire.Ack(boot=boot, seq=1, upto=upto))
    publishing = asyncio.create_task(one.bus.publish(wire.topic("tb", "h0", "ack"), ack))
    await asyncio.sleep(1.5 * LATENCY_S)
    await one.stop("h0")
    await asyncio.gather(publishing, return_exceptions=True)
    one.acknowledges = True
    one.start("h0")
    await asyncio.sleep(3)
    assert [message.boot for message in one.all("h0", Events)[told:]].count(boot) == 1


async def test_a_host_without_rdma_devices_says_so_once_and_gets_ready_by_udp_alone(one: Lab) -> None:
    await one.stop("h0")
    one.start("h0", ports={"eth0": {"interface": "eth0", "ip": "10.0.0.0"}})
    one.each(lambda host: host.carrier("eth0", up=True))
    one.each(lambda host: host.rdma("mlx5_0", active=True))
    await asyncio.sleep(20)
    births = [birth for birth in one.all("h0", Birth) if birth.boot == one.agents["h0"].boot]
    assert births[-1].ports["eth0"].sources["sysfs"].why_not == "no RDMA device is configured for it"
    described = [msgspec.json.encode(birth.ports) for birth in births]
    assert all(a != b for a, b in itertools.pairwise(described))
    await one.observe()
    await asyncio.sleep(1)
    assert one.event("h0", "ready").data.via == "udp, rdma unseen here"
    assert one.event("h1", "ready").data.via == "udp, rdma unseen there"


async def test_watcher_that_fails_while_the_agent_stops_does_not_keep_it_alive(one: Lab) -> None:
    """A watcher waits in a TaskGroup, one of whose tasks fails so many turns of the loop before the cancel comes."""
    failed = asyncio.Event()

    async def fail() -> None:
        await failed.wait()
        raise LinkError("gone")

    async def watch() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())
            tasks.create_task(asyncio.Event().wait())

    for ticks in range(8):
        failed.clear()
        revived = asyncio.create_task(one.agents["h0"]._restarter.keep("optics", watch))
        await asyncio.sleep(0.1)
        failed.set()
        for _ in range(ticks):
            await asyncio.sleep(0)
        revived.cancel()
        done, _ = await asyncio.wait((revived,), timeout=100)
        assert done, ticks
        assert revived.cancelled(), ticks
