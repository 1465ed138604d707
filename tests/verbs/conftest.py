"""Two virtual machines with soft-RoCE on one cable, and the real watchers in them."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ..machines.agent import missing_for_agent, pack_agent
from ..machines.fixtures import Machines, machine_image, pytest_runtest_makereport
from ..machines.image import Image
from ..machines.machine import Machine, cable

__all__ = ["machine_image", "pytest_runtest_makereport"]

ADDRESSES = ("02:00:00:00:00:01", "02:00:00:00:00:02")
IPS = ("10.1.0.1", "10.1.0.2")
WITHIN_S = 60.0
LOOK_S = 0.2
LOG = "/tmp/watched"
ASK = "/tmp/ask"


class Watched:
    """A machine whose port `eth0` is the card `data` with the device `rxe0`, and what its watchers say."""

    def __init__(self, name: str, machine: Machine) -> None:
        self.name = name
        self.machine = machine
        self._begun = 0
        self._pid = 0

    async def begin(self, ip: str) -> None:
        await self.machine.up()
        await self.machine.run("modprobe", "-a", "rdma_rxe", "ib_uverbs")
        await self.machine.run("ip", "addr", "add", f"{ip}/24", "dev", "data")
        await self.machine.run("ip", "link", "set", "data", "up")
        await self.add_device()

    async def add_device(self) -> None:
        await self.machine.run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "data")

    async def watch(self, ip: str, *python: str, **rc: int) -> None:
        """Start the watchers; `python`: options of the interpreter."""
        if self._pid:
            await self.machine.run(
                "sh", "-c", f"kill {self._pid}; while grep -q . /proc/{self._pid}/cmdline; do sleep 0.05; done"
            )
        await self.machine.run("sh", "-c", f"rm -f {LOG} {ASK}; mkfifo {ASK}")
        self._begun = 0
        command = ["env", "PYTHONPATH=/mnt/hwd", "python3", *python, "/mnt/verbs/watch.py"]
        self._pid = await self.machine.spawn(*command, self.name, ip, json.dumps(rc), ASK, log=LOG)

    async def observe(self, reconfiguration: str, other: "Watched") -> None:
        note = await other.note()
        peer = {
            "port": f"{self.name}.eth0",
            "peer": f"{other.name}.eth0",
            "peer_ip": note["ip"],
            "peer_probe_port": note["probe_port"],
            "kept": False,
            "peer_verbs": note["verbs"],
        }
        await self._ask({"do": "begin", "reconfiguration": reconfiguration, "peers": [peer]})
        self._begun += 1
        await self.found("it observes", lambda said: sum("begun" in one for one in said) == self._begun or None)

    async def end(self) -> dict[str, Any]:
        """The last observations."""
        await self._ask({"do": "end"})
        ended = await self.found("it ended", lambda said: next((one["ended"] for one in said if "ended" in one), None))
        return dict(ended)

    async def note(self) -> dict[str, Any]:
        """What would stand in the birth, once the port can be probed."""

        def opened(said: list[dict[str, Any]]) -> dict[str, Any] | None:
            notes = [one["note"] for one in said if "note" in one]
            return notes[-1] if notes and notes[-1]["probe_port"] else None

        return dict(await self.found("its note", opened))

    async def events(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in await self._said() if one.get("kind") == kind]

    async def back(self, kind: str, field: str) -> list[dict[str, Any]]:
        """All events of that kind, once the newest two say that it went down and came up again."""

        def look(said: list[dict[str, Any]]) -> Any:
            told = [one for one in said if one.get("kind") == kind]
            return told if [one["data"][field] for one in told[-2:]] == [False, True] else None

        return list(await self.found(f"{kind} away and there again", look))

    async def found(self, what: str, look: Callable[[list[dict[str, Any]]], Any]) -> Any:
        """The first thing that `look` finds in what was said."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while (found := look(await self._said())) is None:  # noqa: ASYNC110 - what is waited for is in another machine
                    await asyncio.sleep(LOOK_S)
                return found
        except TimeoutError:
            raise AssertionError(f"{self.name}: not found: {what}\n{await self._text()}") from None

    async def event(self, kind: str, reconfiguration: str) -> dict[str, Any]:
        """The first event of that kind in that reconfiguration."""

        def look(said: list[dict[str, Any]]) -> Any:
            of = (one for one in said if one.get("kind") == kind)
            return next((one for one in of if one["data"].get("reconfiguration") == reconfiguration), None)

        return dict(await self.found(f"{kind} in {reconfiguration}", look))

    def carrier(self, on: bool) -> None:
        self.machine.monitor.set_carrier("data", on)

    async def _ask(self, what: dict[str, Any]) -> None:
        await self.machine.run("sh", "-c", f"cat >{ASK}", stdin=json.dumps(what).encode() + b"\n")

    async def _text(self) -> str:
        return (await self.machine.run("cat", LOG, status=None)).out

    async def _said(self) -> list[dict[str, Any]]:
        lines = (await self._text()).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


class Pair:
    """Both machines."""

    def __init__(self, h0: Watched, h1: Watched) -> None:
        self.h0, self.h1 = self.both = (h0, h1)

    async def watch(self, *python: str, **rc: int) -> None:
        await asyncio.gather(*(one.watch(ip, *python, **rc) for one, ip in zip(self.both, IPS, strict=True)))
        await asyncio.gather(*(one.note() for one in self.both))

    async def observe(self, reconfiguration: str) -> None:
        await asyncio.gather(self.h0.observe(reconfiguration, self.h1), self.h1.observe(reconfiguration, self.h0))

    def carrier(self, on: bool) -> None:
        for one in self.both:
            one.carrier(on)

    async def dark(self, reconfiguration: str, for_s: float) -> None:
        """A reconfiguration that takes the carrier of both for so long."""
        await self.observe(reconfiguration)
        self.carrier(False)
        await asyncio.sleep(for_s)
        self.carrier(True)


@pytest.fixture(scope="module")
def shared_machines(machine_image: Image) -> Iterator[Machines]:
    """Killed after the last test of a module: they take a minute to start on a busy machine."""
    with Machines(machine_image) as made:
        yield made


@pytest.fixture(scope="module")
def pair(shared_machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Both, with their devices."""
    if why := missing_for_agent():
        pytest.skip(why)
    agent = pack_agent(tmp_path_factory.mktemp("agent"))
    luggage = {"hwd": agent, "verbs": Path(__file__).parent / "guest"}
    both = [
        Watched(name, shared_machines.start(name, nics=[nic], luggage=luggage))
        for name, nic in zip(("h0", "h1"), cable("data", *ADDRESSES), strict=True)
    ]

    async def begin() -> None:
        await asyncio.gather(*(one.begin(ip) for one, ip in zip(both, IPS, strict=True)))

    asyncio.run(begin())
    return Pair(*both)
