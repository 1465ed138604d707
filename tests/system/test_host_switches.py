"""Hosts that set their own switches, in virtual time: jobs, agents, daemon, and the light between."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from hwd.daemon.installed_drivers import load_text
from hwd.model.bodies import ByBody, EpochBody, KickBody, LeaseBody, PlanBody
from hwd.records.records import Records
from hwd.sim.world import DAEMON, World, agent_node, select_address
from hwd_agents.process.config import AgentConfig, SwitchConfig
from hwd_agents.process.line_socket import PENDING_MOST
from hwd_agents.spool.syncer import SpoolSync
from hwd_agents.switches.intents import Intents
from hwd_drivers.core.errors import ConfigError, LinkError, RefusedError
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.core.structs import to_plain
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.supervisor import Supervisor
from hwd_drivers.twins.virtual_time import VirtualLoop

TESTBED = """
testbed: acos
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal, seed: 7}}
  tx0: {driver: osw, model: osw, size: 1x4, owner: h0, twin: {timing: lowradix-8ms, seed: 1}}
  rx0: {driver: osw, model: osw, size: 1x4, owner: h0, twin: {timing: lowradix-8ms, seed: 2}}
  tx1: {driver: osw, model: osw, size: 1x4, owner: h1, twin: {timing: lowradix-8ms, seed: 3}}
  rx1: {driver: osw, model: osw, size: 1x4, owner: h1, twin: {timing: lowradix-8ms, seed: 4}}
hosts:
  h0:
    twin: {timing: ideal, seed: 1, clock: {offset_s: 5, drift_ppm: 50}}
    nics:
      eth0: {rdma: mlx5_0, ip: 10.1.0.1/32, module: 100g-lr4}
  h1:
    twin: {timing: ideal, seed: 2, clock: {offset_s: -3, drift_ppm: -40}}
    nics:
      eth0: {rdma: mlx5_0, ip: 10.1.1.1/32, module: 100g-lr4}
fibres:
  - h0.eth0.tx -> tx0.in
  - rx0.in -> h0.eth0.rx
  - h1.eth0.tx -> tx1.in
  - rx1.in -> h1.eth0.rx
  - tx0.1 -> rx1.1
  - tx1.1 -> rx0.1
  - tx0.2 -> rx1.2
  - tx1.2 -> rx0.2
  - tx0.3 -> ocs1.1A
  - ocs1.1B -> rx0.3
  - tx1.3 -> ocs1.2A
  - ocs1.2B -> rx1.3
"""
"""Two topologies by direct fibres (outputs 1 and 2), and one through a switch of the daemon (3)."""
SETTLE_S = 0.008


class Job(asyncio.Protocol):
    """A training job of a host: asks over the socket, and waits."""

    def __init__(self) -> None:
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._transport: asyncio.Transport | None = None
        self._buffer = b""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._answers.put_nowait(json.loads(line))

    def say(self, request: object) -> None:
        assert self._transport is not None
        self._transport.write(request if isinstance(request, bytes) else json.dumps(request).encode() + b"\n")

    async def heard(self) -> dict[str, Any]:
        return await self._answers.get()

    async def ask(self, request: object) -> dict[str, Any]:
        self.say(request)
        return await self.heard()


class Scene:
    """A world, and jobs on its hosts."""

    def __init__(self, world: World, records_url: str) -> None:
        self.world = world
        self._records_url = records_url

    async def job(self, host: str) -> Job:
        _, job = await self.world.net.connect(Job, select_address(host))
        return job

    async def select(self, host: str, output: int, **more: Any) -> dict[str, Any]:
        job = await self.job(host)
        number = host[1:]
        wanted = {f"tx{number}": f"in-{output}", f"rx{number}": f"in-{output}"}
        return await job.ask({"set": wanted, "within_s": 1, **more})

    async def both(self, output: int) -> list[dict[str, Any]]:
        return list(await asyncio.gather(self.select("h0", output), self.select("h1", output)))

    async def leased(self, epoch: int = 1) -> None:
        """Until every switch of a host is granted, at least so often."""
        while True:
            service = await self.world.settled()
            leases: list[Any] = [one.lease for one in (await service.rack.switches()) if one.owner]
            if all(lease and lease.epoch >= epoch for lease in leases):
                return

    def stands(self, switch: str) -> list[str]:
        readings = self.world.rack.switches[switch].mirror.readings(self.world.clock.monotonic_ns())
        return [str(one.crossconnect) for one in readings]

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [one.fact.to_data() for one in self.world.documents if one.kind == kind]

    async def status(self, switch: str) -> dict[str, Any]:
        assert self.world.daemon is not None
        (found,) = [one for one in (await self.world.daemon.service.rack.switches()) if one.switch == switch]
        data: dict[str, Any] = to_plain(found)
        return data

    async def recorded(self, *kinds: str) -> list[dict[str, Any]]:
        records = Records(self._records_url, InlineOffload())
        await records.open()
        try:
            return [one.document.fact.to_data() for one in await records.documents(kinds=kinds)]
        finally:
            records.close()


@pytest.fixture
def world() -> type[World]:
    return World


@pytest.fixture
def text() -> str:
    return TESTBED


@pytest.fixture
async def one(virtual_loop: VirtualLoop, tmp_path: Path, world: type[World], text: str) -> AsyncIterator[Scene]:
    url = f"sqlite:///{tmp_path}/records.db"
    async with world(load_text(text, file="testbed.yaml").require(), text, seed=1, records_url=url) as played:
        scene = Scene(played, url)
        await scene.leased()
        yield scene


async def test_no_host_is_answered_before_both_have_switched(one: Scene) -> None:
    loop = asyncio.get_running_loop()
    first = asyncio.create_task(one.select("h0", 2))
    await asyncio.sleep(0.3)
    assert one.stands("tx0") == one.stands("rx0") == ["in-2"]
    assert not first.done()
    began_s = loop.time()
    second = await one.select("h1", 2)
    answer = await first
    took_s = loop.time() - began_s
    for host, done in (("h0", answer), ("h1", second)):
        assert done["outcome"] == "up", done
        port = done["ports"]["eth0"]
        switches = done["switches"]
        assert all(one["now"] == ["in-2"] for one in switches.values()), host
        assert max(one["commanded_ns"] for one in switches.values()) < port["at_ns"] <= done["answered_ns"]
        assert port["earliest_ns"] <= port["at_ns"]
        assert port["fell_ns"] is not None or host == "h1"
    assert SETTLE_S <= took_s + 1e-6 < 3 * SETTLE_S


async def test_what_is_set_already_is_answered_at_once_and_a_neighbour_that_stays_away_is_said(one: Scene) -> None:
    answer = await one.select("h0", 1)  # it is set already
    assert answer["outcome"] == "up"
    assert answer["ports"]["eth0"]["kept"] is True
    assert {each["commanded_ns"] for each in answer["switches"].values()} == {None}
    assert answer["answered_ns"] - answer["requested_ns"] < 1_000_000
    answer = await one.select("h0", 2, within_s=0.5)
    assert answer["outcome"] == "not-up"
    assert "eth0: no carrier" in answer["why"]
    assert "tx0 is set to in-2" in answer["why"]
    assert one.stands("tx0") == ["in-2"]
    assert (answer["answered_ns"] - answer["requested_ns"]) / 1e9 == pytest.approx(0.5, abs=0.03)
    again = await one.select("h0", 1)
    assert again["outcome"] == "up"


async def test_a_later_request_waits_for_its_turn_and_a_late_one_never_fires(one: Scene) -> None:
    first, second, third = await one.job("h0"), await one.job("h0"), await one.job("h0")
    first.say({"set": {"tx0": "in-2"}, "within_s": 0.4})  # no carrier comes: h1 stays
    second.say({"set": {"tx0": "in-4"}, "within_s": 0.2, "id": "late"})
    third.say({"set": {"tx0": "in-1"}, "within_s": 1})
    late = await second.heard()
    assert (late["outcome"], late["id"]) == ("refused", "late")
    assert "its turn did not come in time" in late["why"]
    assert (await first.heard())["outcome"] == "not-up"
    assert (await third.heard())["outcome"] == "up"
    await asyncio.sleep(3)
    sets = [each["what"] for each in one.told("reconfiguration.started")]
    assert sets == ["h0 set tx0:in-2", "h0 set tx0:in-1"]
    unread = await first.ask({"set": {"tx0": "in-3"}, "within_s": 1, "by_s": asyncio.get_running_loop().time() - 0.1})
    assert unread["outcome"] == "refused"
    assert one.stands("tx0") == ["in-1"]


async def test_the_daemon_records_it_with_a_timeline_and_bounds(one: Scene) -> None:
    before_ns = one.world.clock.monotonic_ns()
    await one.both(2)
    await asyncio.sleep(3)
    started = {each["host"]: each for each in one.told("reconfiguration.started")}
    assert {host: each["source"] for host, each in started.items()} == {"h0": "local", "h1": "local"}
    assert started["h0"]["what"] == "h0 set tx0:in-2 rx0:in-2"
    assert [link["link"] for link in started["h0"]["links"]] == ["h0.eth0<->h1.eth0"]
    ended = one.told("reconfiguration.ended")
    assert {(each["host"], each["outcome"]) for each in ended} == {("h0", "confirmed"), ("h1", "confirmed")}
    for timeline in one.told("timeline"):
        instants = {each["name"]: each for each in timeline["links"][0]["instants"]}
        for name in ("commanded", "acknowledged", "carrier"):
            assert instants[name]["knowledge"] == "seen", (name, instants[name])
            assert instants[name]["earliest_ns"] < instants[name]["latest_ns"]
        commanded = instants["commanded"]
        assert before_ns < commanded["latest_ns"]
        assert commanded["earliest_ns"] <= before_ns + 5_000_000
        assert commanded["source"].startswith(f"tx{timeline['host'][1:]}") or "host" in commanded["source"]
        stages = {each["name"]: each["seconds"] for each in timeline["links"][0]["stages"]}
        assert stages["control"] == pytest.approx(SETTLE_S, abs=0.002)
    kept = await one.recorded("timeline", "host.selection")
    assert len(kept) == 4
    row = await one.status("tx0")
    stands = [{"id": "in-2", "state": "unstated"}]
    assert (row["up"], row["lease"]["epoch"], row["crossconnects"]) == (True, 1, stands)


def carriers(one: Scene) -> dict[str, list[tuple[str, bool]]]:
    """For each selection, of both ends: what is known of the carrier, and whether it came during that selection."""
    done = {each["selection"]: each for each in one.told("host.selection")}
    found = {}
    for timeline in one.told("timeline"):
        selection = done[timeline["reconfiguration"]]
        late_ns = selection["answered_ns"] + selection["error_ns"] + round(SETTLE_S * 1e9)
        found[timeline["reconfiguration"]] = [
            (each["knowledge"], selection["requested_ns"] < each.get("latest_ns", 0) < late_ns)
            for end in timeline["ends"]
            for each in end["instants"]
            if each["name"] == "carrier"
        ]
    return found


async def test_the_timeline_of_a_selection_has_the_carrier_of_its_own_and_not_of_the_next_one(one: Scene) -> None:
    for output in (2, 1, 2, 1):
        assert [each["outcome"] for each in await one.both(output)] == ["up", "up"]
    await asyncio.sleep(3)
    assert len(carriers(one)) == 8
    for selection, found in carriers(one).items():
        assert found == [("seen", True)] * 2, selection
    names = {each["selection"] for each in await one.both(2)}
    down = asyncio.create_task(one.select("h0", 4, within_s=5))  # nothing is behind output 4, and it has no end
    await asyncio.sleep(3)
    assert not down.done()
    last = {selection: found for selection, found in carriers(one).items() if selection in names}
    assert last == dict.fromkeys(names, [("seen", True)] * 2)
    assert (await down)["outcome"] == "not-up"


async def test_a_restarted_agent_gets_a_new_epoch_and_the_old_one_is_refused(one: Scene) -> None:
    assert (await one.select("h0", 1, epoch=1))["outcome"] == "up"
    one.world.kill(agent_node("h0"))
    await asyncio.sleep(1)
    row = await one.status("tx0")
    assert row["up"] is None
    assert "host h0 is away" in row["cause"]
    assert row["crossconnects"] == []
    one.world.start_agent("h0")
    await asyncio.sleep(3)
    assert ((await one.status("tx0"))["up"], (await one.status("tx0"))["lease"]["epoch"]) == (True, 2)
    old = await one.select("h0", 1, epoch=1)
    assert (old["outcome"], old["switches"]) == ("refused", {})
    assert "epoch 1 is not in force, epoch 2 is" in old["why"]
    assert (await one.select("h0", 1, epoch={"tx0": 2, "rx0": 2}))["outcome"] == "up"


@pytest.mark.slow
async def test_without_a_daemon_a_new_agent_sets_nothing_and_says_why(one: Scene) -> None:
    one.world.kill(DAEMON)
    assert (await one.select("h0", 1))["outcome"] == "up"
    one.world.kill(agent_node("h0"))
    one.world.start_agent("h0")
    await asyncio.sleep(1)
    answer = await one.select("h0", 2)
    assert answer["outcome"] == "refused"
    assert "epoch 1 ended with the agent before this one" in answer["why"]
    assert one.stands("tx0") == ["in-1"]


async def test_what_is_taken_back_is_set_by_nobody_until_it_is_granted_again(one: Scene) -> None:
    service = await one.world.settled()
    kicked = await service.leases.kick("tx0", KickBody(by="ada"))
    assert (kicked.state, kicked.told) == ("taken-back", True)
    refused = await one.select("h0", 2)
    assert refused["outcome"] == "refused"
    assert "ada has taken it back" in refused["why"]
    assert "hwd lease grant tx0" in refused["why"]
    assert one.stands("rx0") == ["in-1"], "half of a request was done"
    one.world.kill(agent_node("h0"))
    one.world.kill(DAEMON)
    one.world.start_daemon()
    one.world.start_agent("h0")
    await asyncio.sleep(3)
    service = await one.world.settled()
    assert (await one.select("h0", 2))["outcome"] == "refused"
    granted = await service.leases.grant("tx0", ByBody(by="ada"))
    assert (granted.epoch, granted.told) == (2, True)
    assert [each["outcome"] for each in await one.both(2)] == ["up", "up"]
    with pytest.raises(RefusedError, match="lease tx0: it was not taken back: it is in force"):
        await service.leases.grant("tx0", ByBody(by="ada"))
    with pytest.raises(RefusedError, match="it is host h0's"):
        await service.leases.release("tx0", EpochBody())


@pytest.mark.slow
async def test_an_agent_that_was_away_when_its_lease_was_taken_is_told_when_it_is_back(one: Scene) -> None:
    service = await one.world.settled()
    one.world.kill(agent_node("h0"))
    await asyncio.sleep(0.5)
    kicked = await service.leases.kick("tx0", KickBody(by="ada"))
    assert kicked.told is False
    assert "Until its agent hears of it, host h0 may still set it" in str(kicked.why)
    one.world.start_agent("h0")
    await asyncio.sleep(3)
    assert "ada has taken it back" in (await one.select("h0", 2))["why"]
    one.world.kill(agent_node("h0"))
    await asyncio.sleep(0.5)
    granted = await service.leases.grant("tx0", ByBody(by="ada"))
    assert (granted.state, granted.told) == ("granted", False)
    one.world.start_agent("h0")
    await asyncio.sleep(3)
    assert (await one.select("h0", 1))["outcome"] == "up"


async def test_selections_go_on_while_daemon_and_broker_are_away_and_all_of_them_are_recorded(one: Scene) -> None:
    done = []
    for number, output in enumerate([2, 1, 2, 1, 2, 1]):
        if number == 1:
            one.world.kill(DAEMON)
        if number == 4:
            one.world.start_daemon()
            await asyncio.sleep(0.4)
        done += await one.both(output)
    assert {each["outcome"] for each in done} == {"up"}
    await one.leased()
    await asyncio.sleep(6)
    names = sorted(each["selection"] for each in done)
    told = await one.recorded("host.selection")
    assert sorted(each["selection"] for each in told) == names
    timelines = await one.recorded("timeline")
    assert sorted(each["reconfiguration"] for each in timelines) == names
    for timeline in timelines:
        assert [link["link"] for link in timeline["links"]] == ["h0.eth0<->h1.eth0"]
        carrier = next(each for each in timeline["links"][0]["instants"] if each["name"] == "carrier")
        assert carrier["knowledge"] == "seen", timeline
    assert (await one.status("tx0"))["crossconnects"] == [{"id": "in-1", "state": "unstated"}]


async def test_a_daemon_that_died_between_telling_and_timeline_makes_it_up(one: Scene) -> None:
    (answer, _) = await one.both(2)
    await asyncio.sleep(0.5)
    one.world.kill(DAEMON)
    assert [each["selection"] for each in await one.recorded("host.selection")].count(answer["selection"]) == 1
    assert await one.recorded("timeline") == []
    one.world.start_daemon()
    await one.world.settled()
    await asyncio.sleep(4)
    assert answer["selection"] in [each["reconfiguration"] for each in await one.recorded("timeline")]
    assert len(await one.recorded("timeline")) == 2


class Synced(World):
    """Spools are synced each second: a kill of an agent, a power cut here, loses at most the last second."""

    @override
    def _config(self, host: str) -> AgentConfig:
        config = super()._config(host)
        return msgspec.structs.replace(config, spool=msgspec.structs.replace(config.spool, sync=SpoolSync.SECOND))


@pytest.mark.parametrize("world", [Synced])
async def test_a_selection_of_a_killed_agent_is_reported_by_the_next_one_with_the_present_crossconnects(
    one: Scene,
) -> None:
    job = await one.job("h0")
    job.say({"set": {"tx0": "in-2", "rx0": "in-2"}, "within_s": 30})  # h1 stays: it waits for carrier
    await asyncio.sleep(2)
    one.world.kill(agent_node("h0"))
    one.world.start_agent("h0")
    await one.leased(epoch=1)
    await asyncio.sleep(3)
    (told,) = one.told("host.selection")
    assert told["outcome"] == "unknown"
    assert "the agent was killed in the middle of it" in told["why"]
    assert "tx0: in-2, where in-2 was asked for" in told["why"]
    assert told["switches"]["tx0"]["now"] == one.stands("tx0") == ["in-2"]
    assert told["switches"]["tx0"]["commanded_ns"] is None
    (ended,) = one.told("reconfiguration.ended")
    assert (ended["outcome"], ended["reconfiguration"]) == ("failed", told["selection"])
    (started,) = one.told("reconfiguration.started")
    assert [move["add"] for move in started["moves"]] == [["in-2"], ["in-2"]]
    one.world.kill(DAEMON)
    one.world.start_daemon()
    one.world.kill(agent_node("h0"))
    one.world.start_agent("h0")
    await one.world.settled()
    await asyncio.sleep(4)
    assert len(one.told("host.selection")) == len(one.told("reconfiguration.ended")) == 1, "told twice"


@pytest.mark.parametrize("world", [Synced])
async def test_an_answered_selection_is_reported_once_by_its_own_agent_only(one: Scene) -> None:
    await one.both(2)
    await asyncio.sleep(2)
    one.world.kill(agent_node("h0"))
    one.world.start_agent("h0")
    await asyncio.sleep(4)
    assert [each["outcome"] for each in one.told("host.selection")] == ["up", "up"]


async def test_a_plan_relies_on_a_hosts_switch_and_never_moves_it(one: Scene) -> None:
    service = await one.world.settled()
    link = PlanBody(what="h0.eth0<->h1.eth0")
    plan = await service.light.plan(link)
    assert plan.empty is True, "it stands by what the hosts have set"
    await one.select("h0", 3, within_s=0.1)
    with pytest.raises(RefusedError, match=r"First on h0: hwd-agent select rx0:in-1 tx0:in-1$"):
        await service.light.plan(link)
    lease = await service.leases.take(LeaseBody(holder="ada", ports=["all"], for_s=60))
    assert lease.ports == sorted(["h0.eth0", "h1.eth0", *(f"ocs1.{port}" for port in range(1, 9))])
    with pytest.raises(ConfigError, match=r"no such port: tx0\.in"):
        await service.leases.take(LeaseBody(holder="ada", ports=["tx0.in"], for_s=60))
    one.world.kill(agent_node("h0"))
    await asyncio.sleep(1)
    with pytest.raises(RefusedError, match="what it carries is not known now"):
        await service.light.plan(link)


async def test_nonsense_on_the_socket_is_answered_in_words(one: Scene) -> None:
    job = await one.job("h0")
    for said, words in (
        (b"not json\n", "not a request"),
        (b'{"set": {"tx0": "\xff"}}\n', "not a request"),
        (b"[" * 60_000 + b"\n", "not a request"),
        ({"set": {"tx0": "in-2"}, "withn_s": 1}, "withn_s"),
        ({"set": {}}, "names no switch"),
        ({"set": {"tx1": "in-2"}}, "this host drives no such switch; it has tx0, rx0"),
        ({"set": {"tx0": "in-9"}}, "it has no 9; its ends go from in to 4"),
        ({"set": {"tx0": "1-2"}}, "cannot connect 1-2: 1 is of element 1"),
        ({"set": {"tx0": "in"}}, "write it as 1A-2B"),
        ({"set": {"tx0": "in-2"}, "within_s": 0}, "is not above 0"),
    ):
        answer = await job.ask(said)
        assert answer["outcome"] == "refused", said
        assert words in answer["why"], answer["why"]
    shown = (await job.ask({"show": True}))["switches"]
    assert shown["tx0"]["crossconnects"] == [{"id": "in-1", "state": "unstated"}]
    assert (shown["tx0"]["epoch"], shown["tx0"]["ports"]) == (1, ["eth0"])
    job.say(b"x" * 70_000)
    dark = await (await one.job("h0")).ask({"set": {"tx0": "dark"}})
    assert (dark["outcome"], dark["ports"], one.stands("tx0")) == ("up", {}, [])


@pytest.mark.slow
async def test_the_link_of_a_selection_is_known_though_the_neighbour_never_told(one: Scene) -> None:
    one.world.kill(DAEMON)
    done = [*await one.both(2), *await one.both(1), *await one.both(2)]
    one.world.kill(agent_node("h1"))  # with all that it had to tell
    one.world.start_daemon()
    await asyncio.sleep(6)
    links = {each["reconfiguration"]: each["links"] for each in await one.recorded("timeline")}
    mine = [each["selection"] for each in done if each["selection"].startswith("h0")]
    assert [*links] == mine
    for name in mine:
        assert [link["link"] for link in links[name]] == ["h0.eth0<->h1.eth0"]


async def test_a_bug_in_a_driver_or_an_error_of_the_agent_is_an_answer_and_takes_nothing_along(
    one: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(intents: Intents, selection: str, what: object) -> None:
        raise LinkError("the spool is away")

    with monkeypatch.context() as patched:
        patched.setattr(Intents, "begin", begin)
        answer = await one.select("h0", 2)
    assert (answer["outcome"], answer["why"]) == ("refused", "the spool is away")
    await asyncio.sleep(1)
    (told,) = one.told("host.selection")
    assert (told["outcome"], told["why"]) == ("failed", "the spool is away"), "the agent did not end"

    async def change(supervisor: Supervisor, **asked: Any) -> Any:
        if supervisor.name == "tx0":
            raise IndexError("no such pin")
        return await right(supervisor, **asked)

    right: Any = Supervisor.change
    with monkeypatch.context() as patched:
        patched.setattr(Supervisor, "change", change)
        answer = await one.select("h0", 2)
    assert answer["outcome"] == "failed"
    assert answer["why"] == "tx0: bug in its driver: IndexError: no such pin"
    assert {name: each["now"] for name, each in answer["switches"].items()} == {"tx0": ["in-1"], "rx0": ["in-2"]}
    assert (await one.select("h0", 1))["outcome"] == "up", "the agent is still there"


async def test_a_switch_that_somebody_else_has_turned_is_set_again_and_not_taken_as_standing_right(one: Scene) -> None:
    mirror, now_ns = one.world.rack.switches["tx0"].mirror, one.world.clock.monotonic_ns
    await asyncio.sleep(1)
    mirror.connect([Crossconnect.parse("in-4")], now_ns(), move=True)  # at its front panel; the agent looks each 5 s
    await asyncio.sleep(0.05)
    answer = await one.select("h0", 1)
    assert answer["outcome"] == "up", answer
    tx0 = answer["switches"]["tx0"]
    assert (tx0["before"], tx0["now"], tx0["commands"]) == (["in-4"], ["in-1"], 1)


async def test_a_client_that_asks_without_end_and_never_listens_is_not_read_on(one: Scene) -> None:
    job = await one.job("h0")
    job.say(b'{"set": {"tx0": "in-4"}, "within_s": 2}\n' * 1000)
    await asyncio.sleep(0.1)
    waiting = [task for task in asyncio.all_tasks() if task.get_name().endswith("/selection")]
    assert len(waiting) == PENDING_MOST
    answers = [await job.heard() for _ in range(1000)]
    assert {each["outcome"] for each in answers} <= {"not-up", "refused"}


async def test_a_birth_message_says_whether_the_select_socket_listens(one: Scene) -> None:
    async def why_not() -> str:
        assert one.world.daemon is not None
        return str(next(each for each in (await one.world.daemon.service.rack.hosts()) if each.host == "h0").selection)

    one.world.kill(agent_node("h0"))
    await asyncio.sleep(0.5)
    other = await one.world.net.listen(Job, select_address("h0"))
    one.world.start_agent("h0")
    await asyncio.sleep(5)
    assert select_address("h0") in await why_not()
    await other.close()
    await asyncio.sleep(20)
    assert await why_not() == ""


class Misled(World):
    """Its agents have files that the testbed does not stand behind."""

    @override
    def _config(self, host: str) -> AgentConfig:
        config = super()._config(host)
        own = dict(config.switches)
        if host == "h0":
            own["tx0"] = msgspec.structs.replace(own["tx0"], size="1x4", driver="osw", address="mem:nowhere")
        else:
            own |= {"rx0": own["rx1"], "ocs1": own["rx1"], "sel9": own["rx1"]}
        return msgspec.structs.replace(config, switches=own)


@pytest.mark.parametrize("world", [Misled])
async def test_a_host_that_claims_what_is_not_its_own_is_refused_and_one_that_cannot_be_opened_leaves_the_others(
    one: Scene,
) -> None:
    job = await one.job("h1")
    for name, words in (
        ("rx0", "rx0: this host may not set it now: it belongs to host h0, by the testbed file"),
        ("ocs1", "the daemon drives it, by the testbed file. Write owner: h1 there"),
        ("sel9", "testbed acos has no switch sel9. Add it there with owner: h1"),
    ):
        answer = await job.ask({"set": {name: "in-2"}})
        assert answer["outcome"] == "refused"
        assert words in answer["why"], answer["why"]
    refused = {(each["host"], each["switch"]) for each in one.told("switch.refused")}
    assert refused == {("h1", "rx0"), ("h1", "ocs1"), ("h1", "sel9")}
    assert (await one.status("rx0"))["lease"]["host"] == "h0"
    assert (await job.ask({"set": {"tx1": "in-1", "rx1": "in-1"}}))["outcome"] == "up"
    shown = (await (await one.job("h0")).ask({"show": True}))["switches"]
    assert (shown["tx0"]["up"], shown["rx0"]["up"], shown["tx0"]["crossconnects"]) == (False, True, None)
    assert "nowhere" in shown["tx0"]["cause"]
    down = await one.status("tx0")
    assert down["up"] is False
    assert "nowhere" in down["cause"]
    answer = await (await one.job("h0")).ask({"set": {"tx0": "in-2", "rx0": "in-2"}})
    assert (answer["outcome"], one.stands("rx0")) == ("refused", ["in-1"])
    assert "tx0: the switch is down" in answer["why"]
    assert (await (await one.job("h0")).ask({"set": {"rx0": "in-1"}}))["outcome"] == "up"
    service = await one.world.settled()
    assert service.rack.ready().ready is True


class Forgotten(World):
    """Its agents have switches of their own, and the testbed names no owner."""

    @override
    def _config(self, host: str) -> AgentConfig:
        config = super()._config(host)
        number = host[1:]
        own = {
            f"{side}{number}": SwitchConfig(driver="osw", model="osw", size="1x4", address="mem:x", ports=["eth0"])
            for side in ("tx", "rx")
        }
        return msgspec.structs.replace(config, switches=own)


@pytest.mark.parametrize("world", [Forgotten])
@pytest.mark.parametrize("text", [TESTBED.replace("owner: h0, ", "").replace("owner: h1, ", "")], ids=["no owner"])
async def test_a_host_whose_switches_have_no_owner_in_the_testbed_is_refused_in_words(one: Scene) -> None:
    answer = await (await one.job("h1")).ask({"set": {"tx1": "in-2"}})
    assert "the daemon drives it, by the testbed file. Write owner: h1 there" in answer["why"]
    refused = {(each["host"], each["switch"]) for each in one.told("switch.refused")}
    assert refused == {("h0", "tx0"), ("h0", "rx0"), ("h1", "tx1"), ("h1", "rx1")}
