"""Daemon and agent of different versions: an agent that writes what this daemon does not know, or less."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from hwd_agents.wire import Message, Refresh, decode, encode, topic
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.structs import to_json

from .world import LAB, World

NOVELTY = b'{"type":"novelty","v":1,"boot":"b","seq":1,"what":[]}'
"""A type of message that nobody knows yet."""


def ahead(data: dict[str, Any]) -> dict[str, Any]:
    """With fields that the version after this one may have, at the top and inside."""
    for port in data.get("ports", {}).values():
        port["novel"] = 7
    return data | {"novel": [1, {"a": None}]}


def behind(data: dict[str, Any]) -> dict[str, Any]:
    """Without what was added since the version before this one."""
    return {name: value for name, value in data.items() if name not in ("settings", "switches", "v")}


@pytest.mark.parametrize(("written", "novelties"), [(ahead, 2), (behind, 0)])
async def test_an_agent_one_version_away_is_heard_aligned_and_asked(
    world: World, written: Callable[[dict[str, Any]], dict[str, Any]], novelties: int
) -> None:
    async def say(leaf: str, message: Message, *, qos: int = 0, retain: bool = False) -> None:
        data = to_json(written(json.loads(encode(message))))
        await peer.bus.publish(topic(LAB, "h0", leaf), data, qos=qos, retain=retain)

    peer = world.peer()
    peer.say = say  # type: ignore[method-assign]
    await world.until("clock.aligned", host="h0")
    for leaf in ("event", "reply")[:novelties]:
        await peer.bus.publish(topic(LAB, "h0", leaf), NOVELTY, qos=1)
    await peer.send(peer.event())
    await world.until("host.event")
    view = world.gateway.hosts()["h0"]
    assert view.birth is not None
    assert (view.up, view.birth.ports["eth0"].present, view.birth.settings) == (True, True, [])
    reply, answer = await world.gateway.command("h0", Refresh(), within_s=10.0)
    assert answer is not None
    assert (reply.outcome, [*answer.ports]) == ("done", ["eth0"])
    await asyncio.sleep(3)
    garbage = world.of("host.garbage")
    assert sum(one["count"] for one in garbage) == novelties, "what is not known is counted, and nothing else is"
    assert all("novelty" in one["why"] for one in garbage)


@pytest.mark.parametrize("version", [0, 2])
def test_messages_of_a_version_that_is_not_read_are_refused(version: int) -> None:
    message = {"type": "state", "v": version, "boot": "b", "seq": 1, "state": "up"}
    with pytest.raises(ProtocolError, match=f"version {version}, where 1 to 1 are read"):
        decode(json.dumps(message).encode())
