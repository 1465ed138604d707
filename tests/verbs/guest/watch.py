"""Runs in a machine: the watchers of an agent on real sources.

Lines in a named pipe are its commands; what the watchers see is its output, in lines of JSON.
"""

import asyncio
import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hwd_agents.process.config import make_config
from hwd_agents.sources.kernel.rtnetlink import RtnetlinkLinks
from hwd_agents.sources.kernel.sockets import HostSockets
from hwd_agents.sources.kernel.sysfs import SysfsFiles
from hwd_agents.sources.kernel.udp import InterfaceDatagrams
from hwd_agents.sources.sources import Sources
from hwd_agents.sources.verbs.verbs_port import RdmaDevices
from hwd_agents.watchers.watchers import Watchers
from hwd_agents.wire import Peer, SourceNote
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.structs import from_plain, to_plain


class Ear:
    """Takes what an outbox and a spool would."""

    def __init__(self) -> None:
        self.marks: dict[str, Any] = {}

    def emit(self, kind: str, port: str | None, *, data: msgspec.Struct, **more: Any) -> None:
        more.pop("marks", None)
        say({"kind": kind, "port": port, "data": to_plain(data), **more})

    def mark(self, name: str, value: Any) -> None:
        self.marks[name] = value


def say(what: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def main(host: str, ip: str, rc: str, ask: str) -> None:
    ports = {"eth0": {"interface": "data", "ip": ip, "rdma": "rxe0"}}
    config = make_config(
        {"testbed": "lab", "host": host, "broker": "mqtt://none", "ports": ports, "rc": json.loads(rc)}, where="test"
    )
    clock, sockets, ear = SystemClock(), HostSockets(), Ear()
    changed = asyncio.Event()
    watchers = Watchers(
        config,
        Sources(
            link=RtnetlinkLinks(sockets, clock),
            link_note=lambda: SourceNote(sees=["carrier"], origin="measured"),
            datagrams=InterfaceDatagrams(sockets, clock),
            datagrams_note=lambda: SourceNote(sees=["ready"], origin="measured"),
            life=lambda: "1",
            files=SysfsFiles(clock),
            verbs=RdmaDevices(clock),
        ),
        clock,
        ear,  # type: ignore[arg-type]
        ear,  # type: ignore[arg-type]
        phase=random.Random(1),
        on_change=changed.set,
    )
    async with asyncio.TaskGroup() as tasks:
        for name, run in watchers.runs():
            tasks.create_task(run(), name=name)
        tasks.create_task(tell_notes(watchers, changed))
        while True:
            for line in (await asyncio.get_running_loop().run_in_executor(None, Path(ask).read_text)).splitlines():
                await do(watchers, json.loads(line))


async def tell_notes(watchers: Watchers, changed: asyncio.Event) -> None:
    while True:
        say({"note": to_plain(watchers.note("eth0"))})
        await changed.wait()
        changed.clear()


async def do(watchers: Watchers, asked: dict[str, Any]) -> None:
    if asked["do"] == "begin":
        await watchers.begin(asked["reconfiguration"], from_plain(asked["peers"], list[Peer]))
        say({"begun": asked["reconfiguration"]})
    else:
        await watchers.recovered(("eth0",))
        watchers.end("eth0")
        say({"ended": {name: to_plain(one) for name, one in watchers.observations("eth0").items()}})


asyncio.run(main(*sys.argv[1:]))
