"""Broker, daemon and agents are killed at random while the light moves: no spooled event is lost, each flap is counted.

Half a minute of it is part of `make test-all`. Ten minutes:

    HWD_CHAOS_S=600 make test-slow TESTS=tests/system/test_chaos.py PYTEST_ARGS=--log-cli-level=info

What a seed draws is drawn again with `HWD_CHAOS_SEED`; what the processes make of it is theirs.
"""

import asyncio
import functools
import logging
import os
import signal
import socket
import struct
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE
from pyroute2.netlink.rtnl import RTM_GETLINK
from pyroute2.netlink.rtnl.marshal import MarshalRtnl

from hwd_agents.sources.kernel.sockets import NamespaceSockets
from hwd_drivers.core.frames import decode_frames
from hwd_drivers.core.ids import Draws, RandomIds

from .conftest import CROSSED, STRAIGHT, Lab, Mosquitto

LASTS_S = float(os.environ.get("HWD_CHAOS_S", "30"))
SEED = int(os.environ.get("HWD_CHAOS_SEED", "0")) or int(RandomIds().uuid()[:8], 16)
SETTLES_WITHIN_S = 120.0
HOSTS = ("h0", "h1")

log = logging.getLogger(__name__)

Spooled = dict[tuple[str, str, int], dict[str, Any]]
"""By host, boot and number."""


class Chaos:
    """All that is done to one lab, each at its own random times."""

    def __init__(self, lab: Lab, broker: Mosquitto) -> None:
        self._lab = lab
        self._broker = broker
        self._draws = Draws(SEED)
        self.spooled: Spooled = {}
        self.killed = {"broker": 0, "daemon": 0, "agent": 0}
        self.moved = 0
        self._http = ""

    async def rage(self) -> None:
        """For `LASTS_S`; then everything is up again."""
        place = self._lab.said("daemon")
        assert place is not None
        self._http = place["http"].removeprefix("http://")
        until_s = asyncio.get_running_loop().time() + LASTS_S
        works: dict[str, Work] = {"light": self._move_light, "broker": self._kill_broker, "daemon": self._kill_daemon}
        works |= {host: functools.partial(self._kill_agent, host) for host in HOSTS}
        async with asyncio.TaskGroup() as tasks:
            for name, work in works.items():
                tasks.create_task(self._again(work, self._draws.stream(name).uniform, until_s))

    async def _again(self, work: "Work", draw: "Draw", until_s: float) -> None:
        while asyncio.get_running_loop().time() < until_s:
            await work(draw)

    async def _move_light(self, draw: "Draw") -> None:
        await self._lab.patch((STRAIGHT, CROSSED)[self.moved % 2])
        self.moved += 1
        await asyncio.sleep(draw(0.02, 1.0))

    async def _kill_broker(self, draw: "Draw") -> None:
        await asyncio.sleep(draw(1.0, 12.0))
        await self._broker.kill()
        self.killed["broker"] += 1
        await asyncio.sleep(draw(0.0, 6.0))
        await self._broker.start()

    async def _kill_daemon(self, draw: "Draw") -> None:
        await asyncio.sleep(draw(1.0, 15.0))
        daemon = next(program for program in reversed(self._lab.programs) if program.log.stem == "daemon")
        await daemon.end(signal.SIGKILL)
        self.killed["daemon"] += 1
        await asyncio.sleep(draw(0.0, 5.0))
        await self._lab.serve(mqtt=self._broker.url, http=self._http)
        if draw(0, 1) < 0.7:  # the others are killed while they start, on a busy machine
            await self._lab.until("the daemon answers", bool, within_s=SETTLES_WITHIN_S)

    async def _kill_agent(self, host: str, draw: "Draw") -> None:
        await asyncio.sleep(draw(0.0, 8.0))
        pid = self._lab.rack["hosts"][host]["agent"]
        if pid is None:  # it is dead as yet, and comes back a second after its end
            return
        os.kill(pid, signal.SIGKILL)
        self.killed["agent"] += 1

        async def dead() -> bool | None:
            return self._lab.rack["hosts"][host]["agent"] != pid or None

        await self._lab.found("the agent is dead", dead)
        self.note(host)

    def note(self, host: str) -> None:
        """Remember all that the spool of a host holds; the end of a file that is written just now may be cut."""
        data = (self._lab.folder / "run" / "lab" / "spool" / host / "events").read_bytes()
        for payload in decode_frames(data).payloads:
            frame = msgspec.json.decode(payload)
            for event in frame.get("events", ()):
                self.spooled[host, frame["boot"], event["seq"]] = event


Draw = Callable[[float, float], float]
Work = Callable[[Draw], Coroutine[Any, Any, None]]


@pytest.mark.slow
@pytest.mark.timeout(LASTS_S + SETTLES_WITHIN_S + 120)
async def test_no_spooled_event_is_lost_and_every_unseen_flap_counted(lab: Lab, mosquitto: Mosquitto) -> None:
    await lab.up(mqtt=mosquitto.url)
    before = {host: kernel_carrier_changes(lab, host) for host in HOSTS}
    chaos = Chaos(lab, mosquitto)
    try:
        await chaos.rage()
        await lab.settled(within_s=SETTLES_WITHIN_S)
        truth = await all_recorded(lab)
        for host in HOSTS:
            chaos.note(host)
        now = {host: kernel_carrier_changes(lab, host) for host in HOSTS}
        kernel = {
            f"{host}.{port}": changes - before[host][port] for host in HOSTS for port, changes in now[host].items()
        }
        assert {port: truth[port] for port in kernel} == kernel, "the kernel counted as many as the rack made"
        events = await all_as_spooled(lab, chaos.spooled)
        unseen = sum(event["data"].get("unseen", 0) for event in events)
        lost = await lab.documents("host.lost")
        assert sum(each["count"] for each in lost) == unseen, lost
        log.info(
            "seed %d, %g s: killed %s; %d moves of light, %d carrier changes, %d of them unseen and counted; "
            "all of %d spooled events recorded once",
            SEED,
            LASTS_S,
            chaos.killed,
            chaos.moved,
            sum(truth.values()),
            unseen,
            len(chaos.spooled),
        )
        assert all(chaos.killed.values()), chaos.killed
    except BaseException as error:
        error.add_note(f"again: HWD_CHAOS_SEED={SEED} HWD_CHAOS_S={LASTS_S:g}; killed so far: {chaos.killed}")
        raise


async def all_recorded(lab: Lab) -> dict[str, int]:
    """Wait until all carrier changes of each port are recorded, seen or counted, and no event has a gap before it."""

    async def look() -> dict[str, int] | None:
        truth = lab.carrier_changes()
        return truth if carrier_changes(await lab.documents("host.event")) == truth else None

    try:
        truth = await lab.found("all carrier changes are recorded", look, SETTLES_WITHIN_S)
    except AssertionError as error:
        error.add_note(f"recorded {carrier_changes(await lab.documents('host.event'))}, true {lab.carrier_changes()}")
        raise
    await lab.no_gap()
    return truth


async def all_as_spooled(lab: Lab, spooled: Spooled) -> list[dict[str, Any]]:
    """Wait until all that was in a spool is recorded: samples of light may come after the last carrier change."""
    unlike: list[str] = []

    async def look() -> list[dict[str, Any]] | None:
        events = await lab.documents("host.event")
        unlike[:] = missing(spooled, events)
        return None if unlike else events

    try:
        return await lab.found("all spooled events are recorded", look, SETTLES_WITHIN_S)
    except AssertionError as error:
        error.add_note(f"{len(unlike)} of {len(spooled)} spooled events: {unlike[:5]}")
        raise


def carrier_changes(events: list[dict[str, Any]]) -> dict[str, int]:
    """The events of each port in the order in which they happened, by the one clock of the host.

    Events of an agent that was killed may be recorded after those of the next one.
    """
    changes: Counter[str] = Counter()
    carrier: dict[str, bool] = {}
    for event in sorted(events, key=lambda event: int(event["agent_ns"])):
        if event["type"] == "carrier":
            port, now = f"{event['host']}.{event['port']}", event["data"]["carrier"]
            changes[port] += event["data"]["unseen"] + (now != carrier.get(port, False))
            carrier[port] = now
    return dict(changes)


def missing(spooled: Spooled, events: list[dict[str, Any]]) -> list[str]:
    """What of the spools is not recorded as it was spooled, exactly once."""
    recorded: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for event in events:
        recorded.setdefault((event["host"], event["boot"], event["seq"]), []).append(event)
    unlike = [f"{key} {len(found)} times" for key, found in recorded.items() if len(found) > 1]
    for key, event in spooled.items():
        found = recorded.get(key)
        if not found:
            unlike.append(f"{key} {event['kind']} is not recorded")
        elif (found[0]["type"], found[0]["port"], found[0]["agent_ns"], found[0]["data"]) != (
            event["kind"],
            event["port"],
            event["at_ns"],
            event["data"],
        ):
            unlike.append(f"{key} is {found[0]}, was {event}")
    return unlike


def kernel_carrier_changes(lab: Lab, host: str) -> dict[str, int]:
    """By interface: what the kernel counted, by a socket of our own in the namespace of the host."""
    links = NamespaceSockets(lab.rack["hosts"][host]["keeper"], host).open(
        socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE
    )
    found: dict[str, int] = {}
    with links:
        links.setblocking(True)
        links.settimeout(5.0)
        links.send(struct.pack("=IHHIIBxHiII", 32, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0, 0, 0, 0, 0, 0))
        while True:
            for told in MarshalRtnl().parse(links.recv(1 << 16)):
                if told["header"]["type"] == NLMSG_DONE:
                    return {name: changes for name, changes in found.items() if name.startswith("eth")}
                found[told.get_attr("IFLA_IFNAME")] = told.get_attr("IFLA_CARRIER_CHANGES")
