"""A lab of real processes with two virtual machines with soft-RoCE as hosts, and a witness in each without agents."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hwd_drivers.core.clock import SystemClock

from ..machines.door import HOST_IP
from ..machines.fixtures import Machines
from ..machines.machine import Machine
from ..system.conftest import Lab

UP_WITHIN_S = 150.0
TESTBED = Path(__file__).parents[2] / "examples/soft-roce.yaml"
HOSTS = ("h0", "h1")
PORTS = ("eth0", "eth1")
GIVEN = "/sys/firmware/qemu_fw_cfg/by_name/opt/hwd/agent.yaml/raw"
CONFIG = "/etc/hwd/agent.yaml"
AGENT = "import sys; sys.path.append('/mnt/hwd'); from hwd_agents.process.main import main; main()"
SLOWER = {
    "sampling": {"light_fast_s": 0.05, "rdma_fast_s": 0.02},
    "probe": {"first_s": 0.02, "most_s": 0.1, "packets_per_s": 100.0},
}
"""An emulated processor does a 50th of a real one's work: at the usual rates sampling would take all its time."""

WITNESS = """
import socket, struct, sys
links = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
links.bind((0, 1))  # RTMGRP_LINK
here = socket.create_connection((sys.argv[1], int(sys.argv[2])))
here.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
here.sendall(b"hello\\n")
known = {}
while True:
    data = links.recv(65536)
    while data:
        length, kind = struct.unpack_from("IH", data)
        flags, = struct.unpack_from("I", data, 24)
        at, name = 32, ""
        while at < length:
            size, attribute = struct.unpack_from("HH", data, at)
            if attribute == 3:
                name = data[at + 4 : at + size - 1].decode()
            at += size + 3 & ~3
        carrier = bool(flags & 1 << 16)  # IFF_LOWER_UP
        if known.get(name) != carrier:
            known[name] = carrier
            here.sendall(f"{name} {int(carrier)}\\n".encode())
        data = data[length + 3 & ~3 :]
"""
"""What the kernel of a machine tells of its links, on its way to us at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a witness told: a carrier that came or went before `by_ns`, on the clock of this machine."""

    port: str
    up: bool
    by_ns: int


class SoftRoce:
    """Started as an operator would, machine by machine."""

    def __init__(self, lab: Lab, machines: Machines, agent: Path) -> None:
        self.lab = lab
        self.hosts: dict[str, Machine] = {}
        self.seen: list[Seen] = []
        self._machines = machines
        self._agent = agent
        self._clock = SystemClock()

    async def up(self, mqtt: str) -> None:
        """All of it, the agents inside and their clocks aligned."""
        self.lab.testbed.write_text(TESTBED.read_text().replace("testbed: soft-roce", "testbed: lab"))
        await self.lab.hwd_process("rack", "twin", "up", str(self.lab.testbed))
        await self.lab.found("the rack is up", self._is_said("rack"))
        await self.lab.serve(mqtt=mqtt)
        await self.lab.found("the daemon is ready", self._is_said("daemon"))
        for name in HOSTS:
            self._start(name)
        await asyncio.gather(*(self._begin(name) for name in HOSTS))
        await self.lab.found("both machines are up and their clocks aligned", self._is_settled, UP_WITHIN_S)

    def _start(self, name: str) -> None:
        become = [sys.executable, "-m", "hwd.cli", "twin", "machine", str(self.lab.testbed), name, "--"]
        nics: dict[str, Any] = self.lab.rack["hosts"][name]["machine"]["nics"]
        self.hosts[name] = self._machines.start(
            name,
            through=become,
            environment=self.lab.environment,
            names={nic["address"]: port for port, nic in nics.items()},
            luggage={"hwd": self._agent},
        )

    async def _begin(self, name: str) -> None:
        """What an operator sets up in a machine."""
        host = self.hosts[name]
        await host.up()
        await host.run("modprobe", "-a", "qemu_fw_cfg", "rdma_rxe", "ib_uverbs")
        await host.run("sysctl", "-q", "-w", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")
        for number, port in enumerate(PORTS):
            # A port may be joined with either port of the other host: all are on one net.
            await host.run("ip", "addr", "add", f"10.1.{number}.{HOSTS.index(name) + 1}/16", "dev", port)
            await host.run("ip", "link", "set", port, "up")
            await host.run("rdma", "link", "add", f"rxe{number}", "type", "rxe", "netdev", port)
        config = yaml.safe_load(await host.read(GIVEN))
        for section, values in SLOWER.items():
            config[section] |= values
        await host.write(CONFIG, yaml.safe_dump(config).encode())
        await host.spawn("python3", "-c", AGENT, "--config", CONFIG, log="/root/agent.log")

    @contextlib.asynccontextmanager
    async def witnesses(self) -> AsyncIterator[None]:
        """Let the kernels of both machines tell of their links, to `seen`."""
        ready = asyncio.Semaphore(0)
        names = iter(HOSTS)

        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            name = next(names)
            await reader.readline()
            ready.release()
            while line := await reader.readline():
                by_ns = self._clock.monotonic_ns()
                port, up = line.decode().split()
                self.seen.append(Seen(port=f"{name}.{port}", up=up == "1", by_ns=by_ns))
            writer.close()

        server = await asyncio.start_server(hear, "127.0.0.1", 0)
        place = server.sockets[0].getsockname()[1]
        pids = {}
        for name in HOSTS:  # in this order, as they are named
            command = ("python3", "-E", "-S", "-c", WITNESS, HOST_IP, str(place))
            pids[name] = await self.hosts[name].spawn(*command, log="/root/witness.log")
            await ready.acquire()
        try:
            yield
        finally:
            for name, pid in pids.items():
                await self.hosts[name].run("kill", str(pid), status=None)
            server.close()
            await server.wait_closed()

    @contextlib.asynccontextmanager
    async def telling(self) -> AsyncIterator[None]:
        """Whatever fails inside is raised with the ends of the agents' logs."""
        try:
            yield
        except AssertionError as error:
            for name, host in self.hosts.items():
                said = await host.run("tail", "-c", "4000", "/root/agent.log", status=None)
                error.add_note(f"--- agent in {name}\n{said.out}")
            error.add_note(self.lab.words())
            raise

    def truths(self, what: str) -> list[dict[str, Any]]:
        """What the twins really did, and when; of `carrier`, that the cable of a machine was plugged in or pulled."""
        lines = map(json.loads, Path(self.lab.rack["truth"]).read_text().splitlines())
        return [truth for truth in lines if truth["what"] == what]

    def _is_said(self, who: str) -> Any:
        async def look() -> bool | None:
            return self.lab.said(who) is not None or None

        return look

    async def _is_settled(self) -> bool | None:
        now: dict[str, Any] = await self.lab.get("/api/v1/status")
        is_up = all(one["up"] for one in now["switches"]) and all(one["up"] and one["clock"] for one in now["hosts"])
        return is_up or None
