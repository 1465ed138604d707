"""What the daemon may ask of an agent: checked before it is done, done once, ended by itself."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from hwd_agents.process.command_handler import REMEMBERED, Commands, Outcome, Verb
from hwd_agents.process.config import AgentConfig, PortConfig, SourcesConfig, TwinConfig
from hwd_agents.settings.port_settings import Settings
from hwd_agents.sources.setting_source import Setting, SettingSource
from hwd_agents.spool.lost_events import StoredEvent
from hwd_agents.spool.outbox import Outbox
from hwd_agents.spool.spool import Spool
from hwd_agents.watchers.watchers import Watchers
from hwd_agents.wire import Command
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.documents import Json

from ..conftest import Stage, ip, stage

PEER = {"peer": "h1.eth0", "peer_ip": ip("h1"), "peer_probe_port": 49152, "kept": False}
VERBS = {"gid": "::ffff:10.0.1.0", "qpn": 17, "qkey": 1}


class SlowNic:
    """A SettingSource whose firmware takes `takes_s` for each change."""

    def __init__(self, source: SettingSource | None) -> None:
        assert source is not None
        self.read = source.read
        self._source = source
        self.takes_s = 0.0

    async def write(self, interface: str, setting: Setting, value: Json) -> None:
        await asyncio.sleep(self.takes_s)
        await self._source.write(interface, setting, value)

    async def restore(self, interface: str, setting: Setting, value: Json, state: Json) -> None:
        await asyncio.sleep(self.takes_s)
        await self._source.restore(interface, setting, value, state)


class Asked:
    """The commands of `h0`, with watchers of two ports on its played twin."""

    def __init__(self, one: Stage, *, more: Mapping[str, Verb] | None = None) -> None:
        self.stage = one
        self.host = one.hosts["h0"]
        self._count = 0
        config = AgentConfig(
            testbed="tb",
            host="h0",
            broker="memory:",
            ports={f"eth{number}": PortConfig(interface=f"eth{number}", ip=ip("h0", number)) for number in range(2)},
            sources=SourcesConfig(twin=TwinConfig(address="mem:h0")),
        )
        self.spool = Spool(MemoryDisk(), boot="b1", clock=one.clock, limit_bytes=1 << 20)
        self.outbox = Outbox(self.spool, is_up=lambda: True, publish=self._publish)
        self.watchers = Watchers(
            config,
            one.sources["h0"],
            one.clock,
            self.outbox,
            self.spool,
            phase=random.Random(1),
            on_change=lambda: None,
        )
        self.nic = SlowNic(one.sources["h0"].settings)
        settings = Settings(config.ports, self.nic, MemoryDisk(), clock=one.clock, life=str, on_change=lambda: None)
        self.commands = Commands(config, "b1", one.clock, self.watchers, self.outbox, self.spool, settings, more=more)
        one.run(self.outbox)
        for watcher in (self.watchers.link, self.watchers.optics, self.watchers.firmware, self.watchers.probe):
            one.run(watcher)

    async def do(
        self, verb: str, *, id: str = "", boot: str = "b1", expires_in_s: float = 1, **arguments: Any
    ) -> Outcome:
        self._count += 1
        return await self.commands.do(
            Command(
                boot=boot,
                seq=self._count,
                id=id or f"c{self._count}",
                reply_to="hwd/1/tb/h0/reply",
                expires_at_ns=self.stage.now_ns() + round(expires_in_s * 1e9),
                verb=verb,
                arguments=arguments,
            )
        )

    async def observe(self, reconfiguration: str, *ports: str, for_s: float = 10) -> Outcome:
        peers = [{"port": f"h0.{port}", **PEER} for port in ports]
        return await self.do("observe", reconfiguration=reconfiguration, peers=peers, for_s=for_s)

    async def settle(self, reconfiguration: str) -> dict[str, Any]:
        found = (await self.do("settle", reconfiguration=reconfiguration)).data["ports"]
        assert isinstance(found, dict)
        return found

    async def _publish(self, boot: str, events: list[StoredEvent]) -> None:
        assert boot == "b1"


async def _stumble(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"half": arguments["whole"] / 0}


@pytest.fixture
async def agent(virtual_time: None) -> AsyncIterator[Asked]:
    async with stage("h0", ports=2) as one:
        agent = Asked(one, more={"stumble": _stumble})
        await asyncio.sleep(2.5)
        yield agent


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"for_s": 0}, "for_s 0.0 is not above 0 and up to 3600 s"),
    ({"for_s": 3601}, "up to 3600 s"),
    ({"peers": [{"port": "h9.eth0", **PEER}]}, "h9.eth0 is no port of this host; there are h0.eth0, h0.eth1"),
    ({"peers": [{"port": "h0.eth7", **PEER}]}, "h0.eth7 is no port of this host"),
    ({"peers": [{"port": "h0.eth0", **PEER}] * 2}, "a port is named twice"),
    ({"peers": [{"port": "h0.eth0"}]}, "peer"),
    ({"reconfiguration": 7}, "reconfiguration"),
    ({"peers": [{"port": "h0.eth0", **PEER, "peer_ip": "rack.example"}]}, "peer_ip of h0.eth0: 'rack.example'"),
    (
        {"peers": [{"port": "h0.eth0", **PEER, "peer_probe_port": 70000}]},
        "peers[0].peer_probe_port: expected int <= 65535",
    ),
    ({"peers": [{"port": "h0.eth0", **PEER, "peer_verbs": {**VERBS, "gid": "mlx5_0"}}]}, "'mlx5_0'"),
    ({"peers": [{"port": "h0.eth0", **PEER, "peer_verbs": {**VERBS, "qpn": 1 << 24}}]}, "peer_verbs.qpn"),
    ({"peers": [{"port": "h0.eth0", **PEER, "peer_verbs": {"gid": "fe80::1"}}]}, "qpn"),
]


async def test_what_makes_no_sense_is_refused_and_observes_nothing(agent: Asked) -> None:
    good: dict[str, Any] = {"reconfiguration": "r1", "peers": [], "for_s": 10.0}
    for arguments, why in WRONG:
        outcome = await agent.do("observe", **{**good, **arguments})
        assert outcome.outcome == "refused", arguments
        assert why in outcome.why
    assert await agent.settle("r1") == {}


async def test_a_command_that_came_late_or_for_another_boot_does_nothing(agent: Asked) -> None:
    late = await agent.do("observe", expires_in_s=-0.25, reconfiguration="r1", peers=[], for_s=1)
    assert (late.outcome, late.why) == ("expired", "it came 0.250 s after its expiry")
    other = await agent.do("settle", boot="b0", reconfiguration="r1")
    assert (other.outcome, other.why) == ("expired", "it is for boot b0, this is boot b1")


async def test_delivered_again_while_it_is_done_and_after_it_gets_the_one_outcome(agent: Asked) -> None:
    arguments: dict[str, Any] = {"reconfiguration": "r1", "peers": [{"port": "h0.eth0", **PEER}], "for_s": 10}
    both = await asyncio.gather(*(agent.do("observe", id="same", **arguments) for _ in range(2)))
    await asyncio.sleep(1)
    again = await agent.do("observe", id="same", **arguments)
    assert both[0] is both[1] is again
    for number in range(REMEMBERED):
        await agent.do("refresh", id=f"r{number}")
    anew = await agent.do("observe", id="same", **arguments)  # forgotten: nobody delivers that late
    assert anew is not again


async def test_an_observation_that_expired_is_still_returned(agent: Asked) -> None:
    await agent.observe("r1", "eth0", for_s=2)
    await asyncio.sleep(10)
    read = agent.host.modules_read
    await asyncio.sleep(10)
    assert agent.host.modules_read - read <= 22  # two ports, once a second: nobody observes any more
    light = (await agent.settle("r1"))["eth0"]["light"]
    assert light["upto_ns"] - light["from_ns"] == pytest.approx(2e9, abs=1e6)
    assert await agent.settle("r1") == {}


async def test_a_later_reconfiguration_takes_a_port_over_and_the_end_of_the_first_does_not_end_it(agent: Asked) -> None:
    await agent.observe("r1", "eth0", "eth1", for_s=3)
    await asyncio.sleep(1)
    await agent.observe("r2", "eth0", for_s=30)
    await asyncio.sleep(5)  # the time of r1 is over
    assert list(await agent.settle("r1")) == ["eth1"]
    await asyncio.sleep(5)
    kept = await agent.settle("r2")
    assert list(kept) == ["eth0"]
    light = kept["eth0"]["light"]
    assert light["upto_ns"] - light["from_ns"] == pytest.approx(10e9, abs=2e7)
    assert light["looks"] >= 990


async def test_observations_that_nobody_settles_are_forgotten_beyond_some(agent: Asked) -> None:
    await agent.observe("r0", "eth0", for_s=3600)
    for number in range(1, REMEMBERED):
        await agent.observe(f"r{number}", "eth1", for_s=0.01)
    assert len(await agent.settle("r0")) == 1
    await agent.observe("r0", "eth0", for_s=3600)
    for number in range(REMEMBERED, 2 * REMEMBERED):
        await agent.observe(f"r{number}", "eth1", for_s=0.01)
    assert await agent.settle("r0") == {}
    assert len(await agent.settle(f"r{2 * REMEMBERED - 1}")) == 1


async def test_refresh_reads_what_the_kernel_did_not_tell(agent: Asked) -> None:
    agent.host.carrier("eth0", up=True, flaps=2, notice=False)
    fresh = await agent.do("refresh")
    assert fresh.data["ports"]["eth0"]["carrier_changes"] == 3
    assert fresh.data["states"]["eth0"] == {"light": False, "firmware": False, "carrier": True, "rdma": None}


async def test_an_observation_with_the_rack_away_is_answered_in_time_and_says_why(agent: Asked) -> None:
    await agent.stage.rack_down("h0")
    await asyncio.sleep(0.5)
    began_s = asyncio.get_running_loop().time()
    outcome = await agent.observe("r1", "eth0")
    assert asyncio.get_running_loop().time() - began_s <= 0.6
    seen = outcome.data["ports"]["eth0"]
    assert [seen[kind]["seen"] for kind in ("light", "firmware")] == [False, False]
    assert "is away" in seen["light"]["why_not"]


async def test_what_waits_for_a_slow_nic_beyond_its_expiry_changes_nothing(agent: Asked) -> None:
    states = agent.host.states
    states |= {(f"eth{number}", "mtu", ""): 1500 for number in range(2)}
    agent.nic.takes_s = 3.0
    mtu: dict[str, Any] = {"run": "r1", "setting": "mtu", "value": 4200}
    slow = asyncio.create_task(agent.do("set", expires_in_s=1, port="h0.eth0", **mtu))
    await asyncio.sleep(0.5)
    late = await agent.do("set", expires_in_s=2, port="h0.eth1", **mtu)
    assert late.outcome == "expired"
    assert re.fullmatch(r"set: its turn came 0\.50\d s after its expiry; nothing was changed", late.why)
    assert (await slow).outcome == "done", "it was in time when it began"
    assert [states[f"eth{number}", "mtu", ""] for number in range(2)] == [4200, 1500]

    slow = asyncio.create_task(agent.do("set", expires_in_s=1, port="h0.eth0", **{**mtu, "value": 9000}))
    await asyncio.sleep(0.5)
    late = await agent.do("put-back", expires_in_s=2, run="r1")
    assert (late.outcome, (await slow).outcome) == ("expired", "done")
    assert states["eth0", "mtu", ""] == 9000
    assert (await agent.do("put-back", expires_in_s=2, run="r1")).outcome == "done"
    assert states["eth0", "mtu", ""] == 1500


async def test_value_of_a_wrong_shape_is_refused_and_nothing_is_held(agent: Asked) -> None:
    for setting, value in (("mtu", "abc"), ("address", 5.5), ("neighbour", {"ip": "x"}), ("route", 7)):
        outcome = await agent.do("set", run="r1", port="h0.eth0", setting=setting, value=value)
        assert outcome.outcome == "refused", setting
        assert outcome.why.startswith(f"set: {setting}: no such value: ")
    assert (await agent.do("put-back", run="r1")).data == {"back": [], "left": []}


async def test_a_bug_on_the_way_of_one_command_is_its_answer_and_the_agent_goes_on(agent: Asked) -> None:
    outcome = await agent.do("stumble", whole=1)
    assert (outcome.outcome, outcome.why) == ("failed", "stumble: ZeroDivisionError: division by zero")
    assert (await agent.do("refresh")).outcome == "done"
