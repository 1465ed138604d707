"""Host settings through the gateway: real agents on played twin hosts, over a memory bus, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Self

import pytest

from hwd.bus.gateway import Gateway
from hwd.fabric.fabric import Fabric
from hwd.fabric.in_use import InUse
from hwd.hosts.run_settings import AGAIN_S, HOLD_S, RENEW_S, HostSettings
from hwd.model.action import Action
from hwd.model.kinds import read_document
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Setting, Testbed
from hwd.ports.claim import Claim, holder_of
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction, Reason
from hwd.reconfigure.leases.leases import Leases
from hwd.records.records import Records
from hwd_agents.bus.memory import MemoryBus
from hwd_agents.bus.protocol import Incoming
from hwd_agents.wire import Command, HeldSetting, Reply, decode, encode
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.core.errors import DeadlineError, FailedError, LinkError, ProtocolError, RefusedError
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.core.structs import from_plain

from ..agents.played_rack import LATENCY_S, PlayedRack

HOSTS = ("h0", "h1")
TESTBED = Testbed(
    name="tb", switches={}, hosts={}, strands=(), host_actions=(Setting.MTU, Setting.AUTONEG, Setting.FEC)
)


class ActiveRuns:
    """The active runs, which `hwd.playbook.runs` has in the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def add(self, run: str) -> None:
        self._ledger.claim(Claim(id=run, reason=Reason.RUN, owner=holder_of(run), ports=frozenset(), run=run))

    def clear(self) -> None:
        for claim in self._ledger.all(Reason.RUN):
            self._ledger.release(Reason.RUN, claim.id)


class Lab(PlayedRack):
    """And the gateway and its settings; each can die and live again."""

    def __init__(self) -> None:
        super().__init__()
        self.documents: list[Document] = []
        self.records = Records("sqlite://", InlineOffload())
        self._told = asyncio.Event()
        self.let_go: list[tuple[str, ...]] = []

    async def __aenter__(self) -> Self:
        await self.records.open()
        await self.rack_up()
        for name, host in self.hosts.items():
            host.states["eth0", "mtu", ""] = 1500
            self.start(name)
        self.start_daemon()
        await self.until_aligned()
        return self

    def start_daemon(self) -> None:
        self.ledger = Ledger()
        self.ledger.on_release(self._take_release)
        self.under_way = ActiveRuns(self.ledger)
        self.leases = Leases(self.ledger, store=self.records.leases, clock=self.clock, ids=self.ids, sink=self._take)
        self.gateway = Gateway(
            bus=MemoryBus(self.broker, "daemon", self.clock),
            testbed="tb",
            hosts=HOSTS,
            clock=self.clock,
            ids=self.ids,
            sink=self._take,
        )
        in_use = InUse(Fabric(TESTBED))
        self.settings = HostSettings(self.gateway, in_use, self.ledger, clock=self.clock, sink=self._take)

        async def live() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.gateway.run())
                tasks.create_task(self.settings.run())

        self.lives["daemon"] = asyncio.create_task(self.nodes.run_in_node("daemon", live()))

    def kill(self, name: str) -> None:
        self.nodes.kill(name)
        self.lives.pop(name).cancel()
        for disk in self.disks.get(name, ()):
            disk.crash()

    async def lose(self, name: str) -> None:
        """Kill an agent; the daemon knows it."""
        self.kill(name)
        await self.until(lambda: not self.gateway.hosts()[name].up)

    async def set_mtu(self, *hosts: str) -> None:
        """4200 at these hosts by run r1, which is under way."""
        self.under_way.add("r1")
        for host in hosts:
            await self.settings.do("r1", mtu(host, 4200))

    def restart_daemon(self) -> None:
        """One that knows of no run and has told nothing."""
        self.kill("daemon")
        self.under_way.clear()
        self.documents.clear()
        self.start_daemon()

    async def until_aligned(self) -> None:
        await self.until(lambda: all(view.up and view.alignment for view in self.gateway.hosts().values()))

    async def until(self, there: Callable[[], object]) -> None:
        async with asyncio.timeout(120):
            while not there():
                self._told.clear()
                await self._told.wait()

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        return [one.fact.to_data() for one in self.documents if one.kind == kind]

    def mtu(self, host: str) -> Json:
        return self.hosts[host].states["eth0", "mtu", ""]

    def held(self, host: str) -> list[str]:
        birth = self.gateway.hosts()[host].birth
        return [] if birth is None else [held.run for held in birth.settings]

    def put_back(self) -> list[tuple[Json, Json]]:
        return [(told["port"], told["after"]) for told in self.of("run.host")]

    async def __aexit__(self, *error: object) -> None:
        await self.close()
        self.records.close()

    def held_ports(self) -> list[tuple[str | None, list[str]]]:
        return [(hold.run, sorted(hold.ports)) for hold in self.settings.claims_of_ended_runs]

    def check(self, *ports: str, lease: str | None = None, run: str | None = None) -> None:
        self.ledger.check(Asker(lease=lease, run=run), ports, PortAction.CHANGE, now_wall_ns=self.clock.wall_ns())

    def _take_release(self, claim: Claim) -> None:
        if claim.reason is Reason.SETTINGS:
            self.let_go.append(tuple(one.id for one in self.settings.claims_of_ended_runs))
        self._told.set()

    def _take(self, document: Document) -> None:
        assert read_document(document.to_data()) == document
        self.documents.append(document)
        self._told.set()


def mtu(host: str, value: int) -> Action:
    return Action(port=NicPortId(host=host, port="eth0"), setting=Setting.MTU, value=value)


class Stranger:
    """Somebody on the broker who answers commands for h0 before its agent does: with `answer`, if there is one."""

    def __init__(self, lab: Lab) -> None:
        self.answer: dict[str, Any] | None = None
        self._lab = lab
        self._bus = MemoryBus(lab.broker, "stranger", lab.clock)
        self._bus.subscribe("hwd/1/tb/h0/command", self._take)
        lab.lives["stranger"] = asyncio.create_task(self._bus.run())

    def reply(self, command: Command) -> Reply | None:
        if self.answer is None:
            return None
        return Reply(boot=command.boot, seq=0, id=command.id, outcome="done", data=self.answer)

    def _take(self, incoming: Incoming) -> None:
        command = decode(incoming.payload)
        assert isinstance(command, Command)
        if (reply := self.reply(command)) is not None:
            self._lab.broker.take(command.reply_to, encode(reply), 0, False)


class Older(Stranger):
    """Refuses `hold`, as an agent of before does."""

    def reply(self, command: Command) -> Reply | None:
        if command.verb != "hold":
            return None
        why = "hold: this agent does not know it; there are observe, settle, resend, refresh, set and put-back"
        return Reply(boot=command.boot, seq=0, id=command.id, outcome="refused", why=why)


@pytest.fixture
async def lab(virtual_time: None) -> AsyncIterator[Lab]:
    async with Lab() as lab:
        yield lab


async def test_run_sets_and_puts_back(lab: Lab) -> None:
    lab.under_way.add("r1")
    for host in HOSTS:
        assert await lab.settings.do("r1", mtu(host, 4200)) == {"before": 1500, "after": 4200}
    await lab.until(lambda: lab.held("h0") == lab.held("h1") == ["r1"])
    held = {"run": "r1", "port": "eth0", "setting": "mtu", "value": 4200, "before": 1500}
    assert lab.gateway.status("h0", {}, skew="").settings == [from_plain(held, HeldSetting)]
    assert lab.of("host.birth")[-1]["settings"] == [held]
    await asyncio.sleep(2.5 * HOLD_S)
    assert [lab.mtu(host) for host in HOSTS] == [4200, 4200], "it is under way"
    assert lab.put_back() == []
    await lab.settings.put_back("r1")
    assert [lab.mtu(host) for host in HOSTS] == [1500, 1500]
    assert sorted(lab.put_back()) == [("h0.eth0", 1500), ("h1.eth0", 1500)]
    told = [one["seconds"] for one in lab.of("run.host")]
    assert all(isinstance(seconds, float) and 0 < seconds < 20 for seconds in told)
    await lab.until(lambda: not lab.held("h0") and not lab.held("h1"))


async def test_one_host_gets_its_settings_back_while_others_keep_theirs_and_one_that_is_away_is_told(lab: Lab) -> None:
    await lab.set_mtu(*HOSTS)
    await lab.settings.put_back("r1", hosts=["h0"])
    assert [lab.mtu(host) for host in HOSTS] == [1500, 4200]
    lab.kill("h1")
    with pytest.raises((LinkError, DeadlineError), match="h1"):
        await lab.settings.put_back("r1", hosts=["h1"])
    await lab.until(lambda: not lab.gateway.hosts()["h1"].up)
    with pytest.raises(LinkError, match="h1: its agent is not connected"):
        await lab.settings.put_back("r1", hosts=["h1"])


async def test_ports_of_a_lease_are_set_by_who_acts_under_it(lab: Lab) -> None:
    lab.under_way.add("j1")
    lease = await lab.leases.take(holder="job j1 (train)", ports=["h0.eth0"], for_s=600)
    with pytest.raises(RefusedError, match=r"h0\.eth0: leased to job j1"):
        await lab.settings.do("j1", mtu("h0", 4200))
    await lab.settings.do("j1", mtu("h0", 4200), lease=lease.id)
    with pytest.raises(RefusedError, match=r"h0\.eth0: leased to job j1"):
        await lab.settings.put_back("j1", hosts=["h0"])
    await lab.settings.put_back("j1", hosts=["h0"], lease=lease.id)
    assert lab.mtu("h0") == 1500
    await lab.settings.do("j1", mtu("h0", 4200), lease=lease.id)
    await lab.settings.put_back("j1", lease=lease.id)
    assert lab.mtu("h0") == 1500


async def test_agent_puts_back_by_itself_what_a_dead_daemon_does_not_hold_any_more(lab: Lab) -> None:
    await lab.set_mtu("h0")
    await asyncio.sleep(100)
    lab.kill("daemon")
    await asyncio.sleep(HOLD_S - RENEW_S - AGAIN_S - 1)
    assert lab.mtu("h0") == 4200, "a daemon that is started anew meanwhile still finds it"
    await asyncio.sleep(RENEW_S + AGAIN_S + 2)
    assert lab.mtu("h0") == 1500
    lab.under_way.clear()
    lab.documents.clear()
    lab.start_daemon()
    await lab.until_aligned()
    await lab.until(lambda: lab.of("host.event"))
    (told,) = lab.of("host.event")
    assert (told["type"], told["data"]) == ("put-back", {"run": "r1", "setting": "mtu", "state": 1500})
    assert (lab.held("h0"), lab.held_ports()) == ([], [])


async def test_run_whose_host_was_cut_off_for_too_long_is_told_that_its_setting_is_gone(lab: Lab) -> None:
    await lab.set_mtu("h0")
    lab.broker.stop()
    await asyncio.sleep(HOLD_S + 10)
    lab.broker.start()
    await lab.until(lambda: lab.of("run.note"))
    (note,) = lab.of("run.note")
    assert note["run"] == "r1"
    assert str(note["text"]).startswith("h0: its agent has put back h0.eth0 mtu of this run by itself")
    assert (lab.mtu("h0"), lab.put_back()) == (1500, [("h0.eth0", 1500)])
    await lab.settings.put_back("r1")
    assert lab.held_ports() == []


async def test_run_whose_host_was_started_anew_is_told_once_that_its_setting_is_gone(lab: Lab) -> None:
    await lab.set_mtu("h0")
    lab.kill("h0")
    lab.hosts["h0"].life = "2"
    lab.hosts["h0"].states["eth0", "mtu", ""] = 1500  # a kernel that starts knows nothing of before
    lab.start("h0")
    await asyncio.sleep(HOLD_S)
    (note,) = lab.of("run.note")
    assert note["run"] == "r1"
    assert str(note["text"]).startswith("h0: nothing of what this run set stands there any more")
    await lab.settings.put_back("r1")
    assert lab.held_ports() == []


async def test_agent_that_knows_no_limit_is_not_complained_of(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    await lab.set_mtu("h0")
    Older(lab)
    await asyncio.sleep(1.5 * HOLD_S)
    assert not lab.lives["daemon"].done()
    assert [record.message for record in caplog.records if "not held" in record.message] == []


async def test_what_the_testbed_does_not_allow_is_not_asked_for_and_what_the_host_refuses_is_told_in_its_words(
    lab: Lab,
) -> None:
    action = Action(port=NicPortId(host="h0", port="eth0"), setting=Setting.ADDRESS, value="10.9.0.1/32")
    with pytest.raises(RefusedError, match="address is not among the host_actions of testbed tb"):
        await lab.settings.do("r1", action)
    action = Action(port=NicPortId(host="h0", port="eth0"), setting=Setting.FEC, value="rs")
    with pytest.raises(RefusedError, match=r"h0: h0\.eth0 fec rs: set: eth0: fec: not supported"):
        await lab.settings.do("r1", action)
    missing = Action(port=NicPortId(host="h0", port="eth7"), setting=Setting.MTU, value=4200)
    with pytest.raises(RefusedError, match=r"h0\.eth7 is no port of this host; there are h0\.eth0"):
        await lab.settings.do("r1", missing)


async def test_interface_that_is_gone_is_put_back_when_it_is_there_again(lab: Lab) -> None:
    await lab.set_mtu("h0")
    lab.hosts["h0"].unplug("eth0")
    with pytest.raises(FailedError, match=r"h0: eth0 mtu: h0: there is no interface eth0"):
        await lab.settings.put_back("r1")
    lab.under_way.clear()
    lab.hosts["h0"].plug("eth0", ifindex=7)
    await lab.until(lambda: lab.put_back())
    assert lab.mtu("h0") == 1500


async def test_change_whose_answer_was_lost_is_put_back(lab: Lab) -> None:
    lab.under_way.add("r1")
    lab.kill("h1")
    asking = asyncio.ensure_future(lab.settings.do("r1", mtu("h0", 4200)))
    while lab.mtu("h0") != 4200:  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(LATENCY_S)
    assert not asking.done(), "its answer is on the way"
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await lab.settings.put_back("r1")
    assert lab.mtu("h0") == 1500
    with pytest.raises(LinkError):
        await lab.settings.do("r1", mtu("h1", 4200))
    await lab.settings.put_back("r1")
    assert (await lab.leases.take(holder="ada", ports=["h1.eth0"], for_s=60)).owner == "ada", "it was never asked"


async def test_port_that_a_run_has_set_is_nobody_elses_until_it_is_put_back(lab: Lab) -> None:
    await lab.set_mtu("h0")
    with pytest.raises(RefusedError, match=r"h0\.eth0: settings of run r1 are not put back yet: run r1 is under way"):
        await lab.leases.take(holder="ada", ports=["h0.eth0", "h1.eth0"], for_s=60)
    lab.check("h0.eth0", run="r1")
    own = await lab.leases.take(holder="run r1", ports=["h0.eth0"], for_s=60, lasting=False)
    lab.check("h0.eth0", lease=own.id)
    await lab.leases.release(own.id)
    with pytest.raises(RefusedError, match=r"settings of run r1"):
        await lab.settings.do("r2", mtu("h0", 9000))
    await lab.settings.put_back("r1")
    assert (await lab.leases.take(holder="ada", ports=["h0.eth0"], for_s=60)).owner == "ada"
    with pytest.raises(RefusedError, match=r"h0\.eth0: leased to ada"):
        await lab.settings.do("r1", mtu("h0", 4200))
    assert lab.mtu("h0") == 1500


async def test_port_of_a_host_that_is_away_is_held_until_it_is_put_back(lab: Lab) -> None:
    await lab.set_mtu(*HOSTS)
    await lab.lose("h0")
    words = r"run r1: not all settings of hosts are put back: h0: .*its agent is down.*the ports are held until then"
    with pytest.raises(FailedError, match=words):
        await lab.settings.put_back("r1")
    assert (lab.mtu("h0"), lab.mtu("h1")) == (4200, 1500)
    lab.under_way.clear()
    assert lab.held_ports() == [("r1", ["h0.eth0"])]
    why = r"h0\.eth0: settings of run r1 are not put back yet: its agent is down.* `hwd lease kick settings-r1-h0`"
    with pytest.raises(RefusedError, match=why):
        await lab.leases.take(holder="ada", ports=["h0.eth0"], for_s=60)
    assert (await lab.leases.take(holder="ada", ports=["h1.eth0"], for_s=60)).owner == "ada"
    lab.start("h0")
    await lab.until(lambda: not lab.held_ports())
    assert (lab.mtu("h0"), lab.let_go[-1]) == (1500, ())
    await lab.leases.take(holder="ada", ports=["h0.eth0"], for_s=60)


async def test_refusal_says_what_the_put_back_waits_for_now(lab: Lab) -> None:
    await lab.set_mtu("h0")
    await lab.lose("h0")
    text = "h0.eth0: settings of run r1 are not put back yet: "

    async def refused() -> str:
        await asyncio.sleep(0.1)
        with pytest.raises(RefusedError) as raised:
            lab.check("h0.eth0")
        return str(raised.value)

    assert (await refused()).startswith(text + "run r1 is under way. ")
    lab.under_way.clear()
    assert (await refused()).startswith(text + "its agent is down: ")
    lab.broker.stop()
    assert (await refused()).startswith(text + "the broker is not connected")


async def test_the_next_daemon_holds_the_ports_of_settings_in_birth_messages(lab: Lab) -> None:
    await lab.set_mtu("h0")
    await lab.until(lambda: lab.held("h0") == ["r1"])
    lab.kill("h0")
    lab.restart_daemon()
    await lab.until(lab.held_ports)
    assert lab.held_ports() == [("r1", ["h0.eth0"])]
    with pytest.raises(RefusedError, match=r"h0\.eth0: settings of run r1 are not put back yet: "):
        await lab.leases.take(holder="ada", ports=["h0.eth0"], for_s=60)
    lab.start("h0")
    await lab.until(lambda: not lab.held_ports())
    assert (lab.mtu("h0"), lab.put_back()) == (1500, [("h0.eth0", 1500)])


async def test_what_is_found_set_under_a_lease_waits_for_its_end(lab: Lab) -> None:
    await lab.set_mtu("h0")
    lab.restart_daemon()
    theirs = await lab.leases.take(holder="ada", ports=["h0.eth0"], for_s=600)
    await lab.until(lab.held_ports)
    await asyncio.sleep(60)
    assert lab.mtu("h0") == 4200, "it is ada's port"
    lab.check("h0.eth0", lease=theirs.id)
    with pytest.raises(RefusedError, match=rf"h0\.eth0: leased to ada \({theirs.id}\)"):
        lab.check("h0.eth0")
    await lab.leases.release(theirs.id)
    with pytest.raises(RefusedError, match=r"settings of run r1 .*what run r1 set waits: h0\.eth0: leased to ada"):
        await lab.leases.take(holder="bob", ports=["h0.eth0"], for_s=60)
    await lab.until(lambda: not lab.held_ports())
    assert lab.mtu("h0") == 1500


async def test_kicked_hold_frees_the_port_and_it_is_put_back_when_nobody_has_it(lab: Lab) -> None:
    await lab.set_mtu("h0")
    with pytest.raises(RefusedError, match="settings-r1-h0: run r1 is under way"):
        lab.settings.kick("settings-r1-h0")
    lab.kill("h0")
    lab.under_way.clear()
    await lab.until(lambda: not lab.gateway.hosts()["h0"].up)
    assert lab.settings.kick("settings-r2-h0") is None
    kicked = lab.settings.kick("settings-r1-h0")
    assert kicked is not None
    told = lab.of("lease.released")
    assert [(one["lease"], one["ports"], one["why"]) for one in told] == [("settings-r1-h0", ["h0.eth0"], "kicked")]
    assert (kicked.run, sorted(kicked.ports), lab.held_ports()) == ("r1", ["h0.eth0"], [])
    theirs = await lab.leases.take(holder="ada", ports=["h0.eth0"], for_s=600)
    lab.start("h0")
    await lab.until_aligned()
    await asyncio.sleep(30)
    assert (lab.mtu("h0"), lab.held_ports()) == (4200, []), "it is ada's port"
    await lab.leases.release(theirs.id)
    await lab.until(lab.put_back)
    assert lab.mtu("h0") == 1500


async def test_answer_of_a_wrong_shape_ends_nothing_and_is_asked_for_again(lab: Lab) -> None:
    stranger = Stranger(lab)
    await asyncio.sleep(0.1)
    wrong: list[dict[str, Any]] = [{"back": 7}, {"left": [None]}, {"back": [{"port": "eth0"}], "left": []}, {}]
    wrong += [{"back": ["x"]}, {"before": 1}]
    for answer in wrong:
        await lab.set_mtu("h0")
        stranger.answer = answer
        with pytest.raises(ProtocolError, match=r"h0: set: the answer of its agent makes no sense: its data cannot be"):
            await lab.settings.do("r1", mtu("h0", 9000))
        with pytest.raises(FailedError, match="h0: put-back: the answer of its agent makes no sense"):
            await lab.settings.put_back("r1")
        lab.under_way.clear()
        await asyncio.sleep(12)
        assert lab.held_ports() == [("r1", ["h0.eth0"])], answer
        assert not lab.lives["daemon"].done()
        stranger.answer = None
        await lab.until(lambda: not lab.held("h0") and not lab.held_ports())
        assert lab.mtu("h0") == 1500
