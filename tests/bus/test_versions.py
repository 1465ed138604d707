"""Daemon and agent of different versions: a real agent process that writes what this daemon does not know, and is
written to in the same way.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import distribution
from pathlib import Path

import pytest

from hwd.bus.gateway import Gateway
from hwd_agents.bus.mqtt import MqttBus
from hwd_agents.wire import Refresh, decode
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.ids import Draws, RandomIds

CONFIG = """
testbed: lab
host: h0
broker: {url}
spool: {{directory: {folder}/spool}}
ports: {{eth0: {{interface: lo}}}}
"""
WITHIN_S = 40.0
ENCODE = "    return _encoder.encode(message)\n"

AHEAD = """    data = msgspec.to_builtins(message) | {"type": message.__struct_config__.tag, "novel": [1, {"a": None}]}
    if "ports" in data:
        for port in data["ports"].values():
            port["novel"] = 7
    return msgspec.json.encode(data)
"""
"""Fields that the version after this one may have, at the top and inside."""

BEHIND = """    data = msgspec.to_builtins(message) | {"type": message.__struct_config__.tag}
    for added in ("settings", "switches", "v"):
        data.pop(added, None)
    return msgspec.json.encode(data)
"""
"""Without what was added since the version before this one."""


def agent_of(folder: Path, number: str, encode: str, more: str = "") -> Path:
    """Our agent's source under another version, whose messages are written in another way."""
    target = folder / "hwd_agents"
    source = Path(__file__).parents[2] / "agents" / "hwd_agents"
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    info = folder / f"hwd_agents-{number}.dist-info"
    info.mkdir()
    metadata = distribution("hwd-agents").read_text("METADATA") or ""
    (info / "METADATA").write_text(metadata.replace("\nVersion: 0.1.0\n", f"\nVersion: {number}\n"))
    for name, old, new in (
        ("wire/messages.py", ENCODE, encode),
        (
            "process/agent.py",
            "    async def _publish_birth(self) -> None:\n",
            f"    async def _publish_birth(self) -> None:\n{more}",
        ),
    ):
        text = (target / name).read_text()
        assert old in text
        (target / name).write_text(text.replace(old, new))
    return folder


@asynccontextmanager
async def living(path: Path, folder: Path, url: str) -> AsyncIterator[None]:
    """The agent of this source, as a process."""
    config = folder / "agent.yaml"
    config.write_text(CONFIG.format(url=url, folder=folder))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from hwd_agents.process.main import main; main()",
        "--config",
        str(config),
        "--log",
        "error",
        env={**os.environ, "PYTHONPATH": str(path)},
    )
    try:
        yield
    finally:
        process.terminate()
        assert await process.wait() == 0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not holds():  # noqa: ASYNC110 - what other processes do sets no event of ours
            await asyncio.sleep(0.02)


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[tuple[Gateway, list[Document]]]:
    """This version's side of the bus."""
    documents: list[Document] = []
    clock = SystemClock()
    bus = MqttBus(url, "daemon", clock, Draws(1))
    gateway = Gateway(bus=bus, testbed="lab", hosts=("h0",), clock=clock, ids=RandomIds(), sink=documents.append)
    running = asyncio.create_task(gateway.run())
    try:
        yield gateway, documents
    finally:
        running.cancel()
        await asyncio.wait([running])


NOVELTY = """        for leaf in ("event", "reply"):
            await self._bus.publish(self._topic(leaf), b'{"type":"novelty","v":1,"boot":"b","seq":1,"what":[]}', qos=1)
"""
"""A type of message that nobody knows yet."""


@pytest.mark.parametrize(
    ("number", "encode", "more", "unknown"), [("0.2.0", AHEAD, NOVELTY, True), ("0.0.9", BEHIND, "", False)]
)
async def test_an_agent_one_minor_version_away_is_heard_aligned_and_asked(
    number: str, encode: str, more: str, unknown: bool, url: str, tmp_path: Path
) -> None:
    source = agent_of(tmp_path / "source", number, encode, more)
    async with living(source, tmp_path, url), listening(url) as (gateway, documents):
        await until(lambda: gateway.hosts()["h0"].up and gateway.hosts()["h0"].alignment is not None)
        view = gateway.hosts()["h0"]
        assert view.birth is not None
        assert (view.birth.version, view.birth.ports["eth0"].present, view.birth.settings) == (number, True, [])
        reply, answer = await gateway.command("h0", Refresh(), within_s=10.0)
        assert reply.outcome == "done"
        assert answer is not None
        assert [*answer.ports] == ["eth0"]
        garbage = [one.fact.to_data() for one in documents if "garbage" in one.kind]
        assert bool(garbage) is unknown, "what is not known is counted, and nothing else is"
        assert all("novelty" in str(one) for one in garbage)


@pytest.mark.parametrize("version", [0, 2])
def test_messages_of_a_version_that_is_not_read_are_refused(version: int) -> None:
    message = {"type": "state", "v": version, "boot": "b", "seq": 1, "state": "up"}
    with pytest.raises(ProtocolError, match=f"version {version}, where 1 to 1 are read"):
        decode(json.dumps(message).encode())
