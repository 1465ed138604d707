"""A rack as a process: what it says of itself, its agents, its faults, what is set on its hosts, its end."""

import asyncio
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hwd.bus import EmbeddedBroker, Gateway, MqttBus
from hwd.config.run_files.places import is_held
from hwd.config.testbed.testbed import load_testbed
from hwd.fabric.fabric import Fabric
from hwd.fabric.in_use import InUse
from hwd.hosts.run_settings import HostSettings
from hwd.model.action import parse_actions
from hwd.model.fault import AgentKilled, Clear, ClockStep, Deny, Fault, Reset, Slow, SlowFirmware, Stick
from hwd.model.testbed import Testbed
from hwd.ports.claim import Claim, holder_of
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd.twin import parent_death
from hwd.twin.control import ask, ask_present
from hwd.twin.processes import AGAIN_AFTER_S
from hwd.twin.serve import is_progress_logged
from hwd_agents.process.config import load_config
from hwd_agents.sources.kernel.sockets import KeeperRequest, Verb, ask_for_descriptor
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError, DeadlineError, DeviceError, LinkError
from hwd_drivers.core.ids import Draws, RandomIds
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.abilities import CrossConnects
from hwd_drivers.transports.dial import TcpDialer

from .conftest import change, open_switch, soon, specs

SCRIPT = Path(__file__).with_name("serve_process.py")
WITHIN_S = 30.0
END_WITHIN_S = 3.0

Said = dict[str, Any]


class Served:
    """One served rack, and what it says."""

    def __init__(self, process: asyncio.subprocess.Process, run_dir: Path, testbed: Path) -> None:
        self.process = process
        self.run_dir = run_dir
        self.testbed = testbed

    async def until(self, holds: Callable[[Said], object]) -> Said:
        """Wait until what the rack says of itself is so."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                said = self.said()
                if said is not None and holds(said):
                    return said
                assert self.process.returncode is None, await self.words()
                await asyncio.sleep(0.02)

    def said(self) -> Said | None:
        try:
            said: Said = json.loads((self.run_dir / "rack.json").read_text())
        except FileNotFoundError:
            return None
        return said

    async def end(self) -> tuple[int, float]:
        """Send SIGTERM; its exit status, and how long it took."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        self.process.terminate()
        async with asyncio.timeout(WITHIN_S):
            status = await self.process.wait()
        return status, loop.time() - started_s

    async def words(self) -> str:
        assert self.process.stderr is not None
        async with asyncio.timeout(WITHIN_S):
            return (await self.process.stderr.read()).decode()


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
async def serve(tmp_path: Path, write_testbed: Callable[..., Path]) -> AsyncIterator[Serve]:
    """Starts racks, and kills what is left of them."""
    served: list[Served] = []

    async def start(
        *, hosts: str = "process", agents: str = "alone", kernel: bool = False, inside: Sequence[str] = (), **more: str
    ) -> Served:
        testbed = write_testbed(kernel=kernel, **more)
        process = await asyncio.create_subprocess_exec(
            *inside,
            sys.executable,
            str(SCRIPT),
            str(testbed),
            str(tmp_path / "run"),
            hosts,
            agents,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        served.append(Served(process, tmp_path / "run", testbed))
        return served[-1]

    yield start
    for one in served:
        if one.process.returncode is None:
            one.process.kill()
            await one.process.wait()
        await one.words()


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def until_dead(*pids: int) -> None:
    async with asyncio.timeout(WITHIN_S):
        while any(map(alive, pids)):  # noqa: ASYNC110 - they are no children of ours: nothing tells of their end
            await asyncio.sleep(0.02)


def test_progress_of_many_agents_is_told_ten_times_and_that_of_few_never() -> None:
    for total in (20, 25, 999):
        told = [up for up in range(1, total + 1) if is_progress_logged(up, total)]
        assert (len(told), told[-1]) == (10, total)
        assert max(later - earlier for earlier, later in itertools.pairwise(told)) <= total // 10 + 1
    assert not any(is_progress_logged(up, 19) for up in range(1, 20))


async def test_agents_reach_their_twins_are_started_again_after_a_clean_up_of_their_folder_too_and_end_with_the_rack(
    serve: Serve,
) -> None:
    rack = await serve(agents="agents")
    said = await rack.until(lambda said: all(host["agent"] for host in said["hosts"].values()))
    config = load_config(rack.run_dir / "agent-h1.yaml")
    assert (config.testbed, config.host, list(config.ports)) == ("small", "h1", ["eth0", "eth1"])
    assert config.clock is not None
    assert config.clock.offset_s == 1
    log_file = rack.run_dir / "agent-h0.log"
    await rack.until(lambda said: "its twin at" in log_file.read_text())
    loop = asyncio.get_running_loop()
    killed_s = loop.time()
    before = said["hosts"]["h1"]["agent"]
    os.kill(before, signal.SIGKILL)
    said = await rack.until(lambda said: said["hosts"]["h1"]["agent"] not in (before, None))
    assert loop.time() - killed_s >= AGAIN_AFTER_S
    assert "Traceback" not in log_file.read_text()

    await rack.until(lambda said: all((rack.run_dir / f"{host}.transfers.sock").exists() for host in said["hosts"]))
    shutil.rmtree(rack.run_dir)
    other = said["hosts"]["h1"]["agent"]
    os.kill(other, signal.SIGKILL)  # its successor needs a configuration, a log and its socket
    said = await rack.until(lambda said: said["hosts"]["h1"]["agent"] not in (other, None))
    sockets = [rack.run_dir / f"{host}{end}" for host in said["hosts"] for end in (".sock", ".transfers.sock")]
    await rack.until(lambda said: all(path.is_socket() for path in sockets))
    await rack.until(lambda said: "its twin at" in (rack.run_dir / "agent-h1.log").read_text())
    ask(Path(said["control"]), Clear(switch="ocs1"))
    assert is_held(rack.run_dir / "rack.json")
    assert Path(said["truth"]).exists()
    agents = [host["agent"] for host in said["hosts"].values()]
    status, took_s = await rack.end()
    assert (status, took_s < END_WITHIN_S) == (0, True)
    assert not any(map(alive, agents))
    words = await rack.words()
    assert f"h1: its agent, pid {before}, was killed by signal 9" in words
    assert "ERROR" not in words
    assert "files of the twin rack were gone, and were made again: " in words


async def test_killed_rack_leaves_no_agent_and_the_next_one_is_the_only_one_takes_faults_and_cleans_up(
    serve: Serve,
) -> None:
    killed = await serve(agents="agents")
    said = await killed.until(lambda said: all(host["agent"] for host in said["hosts"].values()))
    killed.process.kill()
    await until_dead(*(host["agent"] for host in said["hosts"].values()))
    of_agents = {
        path.name for path in killed.run_dir.iterdir() if path.name.startswith(("agent-", "spool", "h0", "h1"))
    }
    rack = await serve()
    said = await rack.until(lambda said: said["pid"] == rack.process.pid)
    assert list(said["addresses"]) == ["ocs1", "h0", "h1"]
    sockets = {name: str(rack.run_dir / f"h0.{name}.sock") for name in ("transfers", "select")}
    assert said["hosts"]["h0"] == {"kernel": False, "keeper": None, "agent": None, "machine": None, "sockets": sockets}
    assert rack.run_dir.stat().st_mode & 0o777 == 0o700
    assert is_held(rack.run_dir / "rack.json")

    second = await serve()
    async with asyncio.timeout(WITHIN_S):
        assert await second.process.wait() == 3
    assert f"with pid {rack.process.pid}" in await second.words()
    assert rack.said() is not None

    control = Path(said["control"])
    switch = await open_switch(said["addresses"]["ocs1"], TcpDialer(), SystemClock())
    assert isinstance(switch, CrossConnects)

    ask(control, Deny(switch="ocs1", code="SROF", text="mirror stuck"))
    with pytest.raises(DeviceError, match="SROF"):
        await change(switch, ["1A-3B"])
    await change(switch, ["1A-3B"])
    ask(control, Stick(switch="ocs1", ends=("5A",)))
    await change(switch, ["5A-6B"])
    readings = await switch.read_crossconnects(deadline_s=soon())
    assert [reading.crossconnect for reading in readings] == [Crossconnect.parse("1A-3B")]
    ask(control, Slow(switch="ocs1", seconds=5))
    with pytest.raises(DeadlineError):
        await switch.read_crossconnects(deadline_s=asyncio.get_running_loop().time() + 0.1)
    ask(control, Clear(switch="ocs1"))
    ask(control, Reset(switch="ocs1"))
    async with asyncio.timeout(WITHIN_S):
        assert isinstance(await switch.lost(), LinkError)
    await switch.close()

    wrong: list[tuple[Fault, str]] = [
        (Reset(switch="ocs9"), "no switch ocs9 in testbed small; it has ocs1"),
        (Stick(switch="ocs1", ends=("99A",)), "has no port 99A"),
    ]
    for fault, why in wrong:
        with pytest.raises(ConfigError, match=why):
            ask(control, fault)
    status, took_s = await rack.end()
    assert (status, took_s < END_WITHIN_S) == (0, True)
    left = {path.name for path in rack.run_dir.iterdir()}
    assert left - of_agents == {"rack.lock", "truth.jsonl"}
    for asking in (lambda: ask(control, Reset(switch="ocs1")), lambda: ask_present(control)):
        with pytest.raises(LinkError, match="Is it up"):
            asking()


@pytest.mark.kernel
async def test_kernel_hosts_become_process_hosts_where_there_are_no_namespaces(serve: Serve) -> None:
    """Inside a user namespace whose own limit of network namespaces is none, which the kernel enforces."""
    forbid = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'
    rack = await serve(
        hosts="kernel", kernel=True, inside=["unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh"]
    )
    said = await rack.until(lambda said: True)
    assert not any(host["kernel"] for host in said["hosts"].values())
    assert (await rack.end())[0] == 0
    (warning,) = [line for line in (await rack.words()).splitlines() if "WARNING" in line]
    assert "its 2 kernel hosts run as process hosts: keeper: cannot make network namespaces" in warning


@pytest.mark.kernel
async def test_kernel_hosts_have_a_keeper_whose_death_ends_the_rack_and_truth_is_written(serve: Serve) -> None:
    rack = await serve(hosts="kernel", kernel=True, agents="agents")
    said = await rack.until(lambda said: all(host["agent"] for host in said["hosts"].values()))
    assert all(host["kernel"] and host["keeper"] == str(rack.run_dir / "keeper") for host in said["hosts"].values())
    switch = await open_switch(said["addresses"]["ocs1"], TcpDialer(), SystemClock())
    await change(switch, ["1A-3B", "3A-1B"])
    await switch.close()
    truth = Path(said["truth"])
    await rack.until(lambda said: truth.read_text().count('"rdma"') == 2)
    truths = [json.loads(line) for line in truth.read_text().splitlines()]
    carriers = [one for one in truths if one["what"] == "carrier"]
    assert sorted(one["port"] for one in carriers) == ["h0.eth0", "h1.eth0"]
    assert all(one["before_ns"] < one["after_ns"] for one in carriers)
    agents = {str(host["agent"]) for host in said["hosts"].values()}
    children = {*Path(f"/proc/{rack.process.pid}/task/{rack.process.pid}/children").read_text().split()} - agents
    assert len(children) == 1, "the keeper"
    os.kill(int(children.pop()), signal.SIGKILL)
    async with asyncio.timeout(WITHIN_S):
        assert await rack.process.wait() == LinkError.exit_status
    assert "the keeper of its namespaces ended with status -9. Restart the rack" in await rack.words()
    assert rack.said() is None


AGENT = """
import signal, sys

def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("in order", flush=True)))
    print("there", flush=True)
    signal.pause()
"""
"""Prints when it is ready, and when it gets SIGTERM."""
RACK = """
import os, subprocess, sys

subprocess.Popen([sys.executable, "-P", sys.argv[1], str(os.getpid()), "--config", "none"]).wait()
"""


def test_agent_of_a_killed_rack_dies_as_it_did_and_does_not_stop_in_order(tmp_path: Path) -> None:
    process = tmp_path / "hwd_agents" / "process"
    process.mkdir(parents=True)
    for folder in (process.parent, process):
        (folder / "__init__.py").write_text("")
    (process / "main.py").write_text(AGENT)
    command = [sys.executable, "-c", RACK, parent_death.__file__]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as rack:
        assert rack.stdout is not None
        assert rack.stdout.readline() == "there\n"
        rack.kill()
        assert rack.stdout.read() == "", "the agent's end closes it"


ALIGNED_WITHIN_S = 40.0
ALLOWED = "host_actions: [mtu, autoneg, fec, address, neighbour, route]"
WANTED = {
    "mtu": 4200,
    "autoneg": "off",
    "address": "10.9.0.1/32",
    "neighbour": {"ip": "10.1.1.1", "mac": "02:00:00:00:00:07"},
    "route": {"to": "10.7.0.0/16"},
}


class Rack:
    """The rack's process, a broker, and the daemon's side of the bus."""

    def __init__(self, served: Served, testbed: Testbed, bus: MqttBus) -> None:
        clock = SystemClock()
        self.process = served.process
        self.run_dir = served.run_dir
        self.testbed = testbed
        self.documents: list[Document] = []
        self._told = asyncio.Event()
        self.gateway = Gateway(
            bus=bus, testbed=testbed.name, hosts=tuple(testbed.hosts), clock=clock, ids=RandomIds(), sink=self._take
        )
        ledger = Ledger()
        ledger.claim(Claim(id="r1", reason=Reason.RUN, owner=holder_of("r1"), ports=frozenset(), run="r1"))
        self.settings = HostSettings(self.gateway, InUse(Fabric(testbed)), ledger, clock=clock, sink=self._take)

    @property
    def control(self) -> Path:
        return self.run_dir / "control"

    async def until(self, there: Callable[[], object]) -> None:
        async with asyncio.timeout(ALIGNED_WITHIN_S):
            while not there():
                self._told.clear()
                await self._told.wait()

    def aligned(self, *hosts: str) -> bool:
        views = self.gateway.hosts()
        return all(views[host].up and views[host].alignment for host in hosts)

    def held(self, host: str) -> int:
        birth = self.gateway.hosts()[host].birth
        return 0 if birth is None else len(birth.settings)

    def steps(self, host: str) -> list[int]:
        """How far the host's clock was off each time that it was found to be stepped."""
        return [
            int(str(one.fact.to_data()["offset_ns"]))
            for one in self.documents
            if one.kind == "clock.aligned" and one.fact.to_data()["host"] == host and one.fact.to_data()["stepped"]
        ]

    def ip(self, host: str) -> dict[str, Any]:
        """What `ip` shows of a host's own network."""
        keeper = json.loads((self.run_dir / "rack.json").read_text())["hosts"][host]["keeper"]
        namespace = ask_for_descriptor(Path(keeper), KeeperRequest(verb=Verb.NAMESPACE, ns=host))
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        user = [] if os.geteuid() == 0 else [f"--user=/proc/{children[0]}/ns/user", "--preserve-credentials"]
        enter = ["nsenter", *user, f"--net=/proc/self/fd/{namespace}", "ip", "-j"]

        def show(*words: str) -> Any:
            done = subprocess.run([*enter, *words], pass_fds=[namespace], capture_output=True, check=True)
            return json.loads(done.stdout or b"[]")

        try:
            (link,) = show("link", "show", "eth0")
            (address,) = show("-4", "address", "show", "eth0")
            return {
                "mtu": link["mtu"],
                "addresses": [one["local"] for one in address["addr_info"]],
                "neighbours": {one["dst"]: one.get("lladdr") for one in show("-4", "neighbour", "show", "dev", "eth0")},
                "routes": [one["dst"] for one in show("-4", "route", "show")],
            }
        finally:
            os.close(namespace)

    def _take(self, document: Document) -> None:
        self.documents.append(document)
        self._told.set()


@pytest.fixture
async def rack(tmp_path: Path, serve: Serve) -> AsyncIterator[Rack]:
    broker = EmbeddedBroker()
    url = await broker.start()
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "run/daemon.json").write_text(json.dumps({"mqtt": url}))
    served = await serve(hosts="kernel", agents="agents", kernel=True, nic="opus-cx6dx-autoneg", extra=ALLOWED)
    testbed = load_testbed(served.testbed, specs()).require()
    rack = Rack(served, testbed, MqttBus(url, "daemon", SystemClock(), Draws(1)))
    lives = [asyncio.create_task(rack.gateway.run()), asyncio.create_task(rack.settings.run())]
    try:
        await rack.until(lambda: rack.aligned(*testbed.hosts))
        yield rack
    finally:
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)
        ended = await served.end()
        await broker.close()
    assert (ended[0], ended[1] < END_WITHIN_S) == (0, True)


@pytest.mark.kernel
async def test_settings_survive_a_killed_agent_and_all_is_as_before_when_they_are_put_back(rack: Rack) -> None:
    before = rack.ip("h0")
    states = {}
    for action in parse_actions({"ports": "h0.eth0", "set": WANTED}, rack.testbed):
        states[str(action.setting)] = await rack.settings.do("r1", action)
    assert states["mtu"] == {"before": before["mtu"], "after": 4200}
    assert states["autoneg"]["after"] == {**states["autoneg"]["before"], "autoneg": False}  # type: ignore[dict-item]
    during = rack.ip("h0")
    assert during["mtu"] == 4200
    assert "10.9.0.1" in during["addresses"]
    assert during["neighbours"]["10.1.1.1"] == "02:00:00:00:00:07"
    assert "10.7.0.0/16" in during["routes"]

    await rack.until(lambda: rack.held("h0") == len(WANTED))
    boot = rack.gateway.hosts()["h0"].boot
    ask(rack.control, AgentKilled(host="h0"))
    await rack.until(lambda: rack.gateway.hosts()["h0"].boot != boot)
    await rack.until(lambda: rack.aligned("h0"))
    assert rack.held("h0") == len(WANTED), "the next life of the agent says what is still set"
    assert rack.ip("h0") == during

    await rack.settings.put_back("r1")
    assert rack.ip("h0") == before
    await rack.until(lambda: rack.held("h0") == 0)
    told = [one.fact.to_data()["setting"] for one in rack.documents if one.kind == "run.host"]
    assert told == list(reversed(WANTED))

    (aligned_ns,) = [view.alignment.offset_ns for view in [rack.gateway.hosts()["h1"]] if view.alignment is not None]
    ask(rack.control, SlowFirmware(port="h1.eth0", seconds=4))
    ask(rack.control, ClockStep(host="h1", seconds=30))
    assert list(map(str, ask_present(rack.control))) == [
        "h1.eth0 slow-firmware seconds=4.0",
        "h1 clock-step seconds=30.0",
    ]
    assert not rack.steps("h1")
    await rack.until(lambda: rack.steps("h1"))
    assert rack.steps("h1")[0] - aligned_ns == pytest.approx(30e9, abs=1e9)
    ask(rack.control, Clear())
    assert ask_present(rack.control) == ()
