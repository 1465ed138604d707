"""Forged messages of every kind, with each field forged: the daemon goes on, every other host is heard, and good agents
are listened to afterwards.
"""

import asyncio
import random
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from hwd.daemon.installed_drivers import load
from hwd.fabric.fabric import Fabric
from hwd.hosts.switch_documents import HostSwitches
from hwd.rack.links import Links
from hwd.rack.nic_ports import NicPorts
from hwd.rack.ready_links import ReadyLinks
from hwd.rack.switches import ReportedSwitches
from hwd.telemetry.budget import Budget
from hwd.telemetry.metrics import Metrics
from hwd_agents.wire import Command, Events, Reply, encode, topic
from hwd_drivers.core.errors import HwdError

from ..agents.wire import golden, samples
from ..agents.wire.forgeries import WRONG, forged, forgeries, paths
from .world import LAB, Peer, World

BOOT: Final = "boot-1"
LIMITS: Final = {"low_alarm": -1.0, "low_warning": 0.0, "high_warning": 1.0, "high_alarm": None}
THRESHOLDS: Final = ("temperature_c", "bias_ma", "tx_power_dbm", "rx_power_dbm")


def bases() -> list[tuple[str, dict[str, Any]]]:
    """(leaf, message as JSON) of each kind, each kind of event and each answer, from the current boot."""
    inventory = {
        **golden.INVENTORY,
        "modules": {"eth0": {**golden.MODULE, "thresholds": dict.fromkeys(THRESHOLDS, LIMITS)}},
        "monitors": {"eth0": samples.DATA["monitors"]},
        "links": {"eth0": samples.DATA["link-state"]},
    }
    found = []
    for kind, message in golden.messages(inventory).items():
        leaf = {"state": "state", "birth": "birth", "events": "event"}.get(kind, "reply")
        found.append((leaf, msgspec.json.decode(encode(message)) | {"boot": BOOT}))
    for kind, data in samples.EVENTS:
        event = msgspec.structs.replace(golden.EVENT, kind=kind, data=dict(data))
        found.append(("event", msgspec.json.decode(encode(Events(boot=BOOT, seq=1, events=[event])))))
    return found


class Liar:
    """Answers what it is asked with forged data, and asks for it."""

    def __init__(self, world: World, peer: Peer, seed: int) -> None:
        self._world = world
        self._peer = peer
        self._draw = random.Random(seed)
        self.outcomes: list[str] = []
        peer.answers = self.answer

    def answer(self, command: Command) -> Reply:
        data = dict(samples.ANSWERS[command.verb])
        lie = data
        if ways := list(paths(data)):  # an answer without data has nothing to forge
            lie = forged(data, self._draw.choice(ways), self._draw.choice(WRONG))
        return Reply(boot=self._peer.boot, seq=1, id=command.id, outcome="done", data=lie)

    async def ask(self) -> None:
        for asked in samples.ARGUMENTS:
            try:
                await self._world.gateway.command("h0", asked, within_s=0.5)
                self.outcomes.append("taken")
            except HwdError as error:
                self.outcomes.append(type(error).__name__)


TESTBED: Final = """
testbed: lab
switches:
  sel0: {driver: osw, model: osw, size: 1x4, owner: h0, address: /dev/ttyUSB0}
hosts:
  h0: {nics: {eth0: {ip: 10.1.0.1/32, module: 100g-lr4}}}
  h1: {nics: {eth0: {ip: 10.1.0.2/32, module: 100g-lr4}}}
fibres:
  - h0.eth0.tx -> sel0.in
  - sel0.1 -> h0.eth0.rx
"""


@pytest.mark.parametrize(
    ("seed", "count"),
    [(1, 1_500), pytest.param(2, 100_000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])],
    ids=["light", "full"],
)
async def test_forged_messages_end_nothing_and_trouble_no_other_host(
    world: World, seed: int, count: int, tmp_path: Path
) -> None:
    path = tmp_path / "testbed.yaml"
    path.write_text(TESTBED)
    testbed = load(path).require()
    ports = NicPorts()
    ready = ReadyLinks(ports)
    links = Links(Fabric(testbed), ReportedSwitches({}), ports)
    metrics = Metrics(Budget.of(testbed), ready)
    switches = HostSwitches(testbed, clock=world.clock, sink=lambda document: None)
    world.sinks += [ports, ready, metrics, links, switches]
    good, peer = await world.aligned_peer("h1"), await world.aligned_peer("h0", BOOT)
    liar = Liar(world, peer, seed)
    garbage = 0
    for number, (leaf, payload) in enumerate(forgeries(seed, count, bases()), 1):
        payload = payload.replace(BOOT.encode(), peer.boot.encode())
        await peer.bus.publish(topic(LAB, "h0", leaf), payload, qos=0, retain=leaf in ("state", "birth"))
        if number % 100 == 0:
            await asyncio.sleep(0.05)
            peer.boot = world.gateway.hosts()["h0"].boot or BOOT  # a forged birth may have taken its place
            peer.spools.setdefault(peer.boot, [])
        if number % (count // 20) == 0:
            await peer.be_born()
            await asyncio.sleep(2)  # for the clock of a new boot to be aligned
            await liar.ask()
            event = good.event()
            await good.send(event)
            await world.agreed(good, "boot-1", event.seq)
            assert not world.ended
            assert [world.gateway.containment.why(host) for host in world.gateway.hosts()] == ["", ""]
            assert world.of("host.down", host="h1") == world.of("host.garbage", host="h1") == []
            garbage += sum(one["count"] for one in world.of("host.garbage", host="h0"))
            world.documents.clear()
    assert garbage > count / 10
    assert {"taken", "ProtocolError"} <= set(liar.outcomes)
    assert b"hwd_agent_up" in bytes(metrics.render())
    await peer.stop()  # while it answers, no other takes its place
    fresh = await world.aligned_peer("h0", "boot-2")
    await fresh.send(fresh.event())
    await world.until("host.event", host="h0", boot="boot-2", seq=1)
    await world.agreed(fresh, "boot-2", 1)
    assert world.gateway.hosts()["h1"].up
