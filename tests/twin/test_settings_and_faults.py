"""A whole rack in the kernel, with a broker and the daemon's side: what is set on its hosts survives the SIGKILL of an
agent, and is put back.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from hwd.bus import EmbeddedBroker, Gateway, HostSettings, MqttBus
from hwd.config.testbed.testbed import load_testbed
from hwd.model.action import parse_actions
from hwd.model.fault import AgentKilled, Clear, ClockStep, SlowFirmware
from hwd.model.testbed import Testbed
from hwd.ports.claim import Claim, holder_of
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd.twin.control import ask, ask_present
from hwd_agents.sources.kernel.sockets import KeeperRequest, Verb, ask_for_descriptor
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.ids import Draws, RandomIds

from .conftest import specs

pytestmark = pytest.mark.kernel

SCRIPT = Path(__file__).with_name("serve_process.py")
WITHIN_S = 40.0
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

    def __init__(self, process: asyncio.subprocess.Process, run_dir: Path, testbed: Testbed, bus: MqttBus) -> None:
        clock = SystemClock()
        self.process = process
        self.run_dir = run_dir
        self.testbed = testbed
        self.documents: list[Document] = []
        self._told = asyncio.Event()
        self.gateway = Gateway(
            bus=bus, testbed=testbed.name, hosts=tuple(testbed.hosts), clock=clock, ids=RandomIds(), sink=self._take
        )
        ledger = Ledger()
        ledger.claim(Claim(id="r1", reason=Reason.RUN, owner=holder_of("r1"), ports=frozenset(), run="r1"))
        self.settings = HostSettings(self.gateway, testbed, ledger, clock=clock, sink=self._take)

    @property
    def control(self) -> Path:
        return self.run_dir / "control"

    async def until(self, there: Callable[[], object]) -> None:
        async with asyncio.timeout(WITHIN_S):
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
async def rack(tmp_path: Path, write_testbed: Callable[..., Path]) -> AsyncIterator[Rack]:
    path = write_testbed(kernel=True, nic="opus-cx6dx-autoneg", extra=ALLOWED)
    testbed = load_testbed(path, specs()).require()
    broker = EmbeddedBroker()
    url = await broker.start()
    run_dir = tmp_path / "run"
    run_dir.mkdir(mode=0o700)
    (run_dir / "daemon.json").write_text(json.dumps({"mqtt": url}))
    with (tmp_path / "rack.log").open("wb") as words:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(SCRIPT), str(path), str(run_dir), "kernel", "agents", stderr=words
        )
    clock = SystemClock()
    rack = Rack(process, run_dir, testbed, MqttBus(url, "daemon", clock, Draws(1)))
    lives = [asyncio.create_task(rack.gateway.run()), asyncio.create_task(rack.settings.run())]
    try:
        await rack.until(lambda: rack.aligned(*testbed.hosts))
        yield rack
    finally:
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)
        process.terminate()
        async with asyncio.timeout(WITHIN_S):
            await process.wait()
        await broker.close()


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

    (aligned_ns,) = [view.alignment.offset_ns for view in [rack.gateway.hosts()["h2"]] if view.alignment is not None]
    ask(rack.control, SlowFirmware(port="h1.eth0", seconds=4))
    ask(rack.control, ClockStep(host="h2", seconds=30))
    assert list(map(str, ask_present(rack.control))) == [
        "h1.eth0 slow-firmware seconds=4.0",
        "h2 clock-step seconds=30.0",
    ]
    assert not rack.steps("h2")
    await rack.until(lambda: rack.steps("h2"))
    assert rack.steps("h2")[0] - aligned_ns == pytest.approx(30e9, abs=1e9)
    ask(rack.control, Clear())
    assert ask_present(rack.control) == ()
