"""Forged commands, acknowledgements and clock requests: the agent goes on, and does what it is asked afterwards."""

import asyncio
import logging

import msgspec
import pytest

from hwd_agents import wire

from ..wire import samples
from ..wire.forgeries import forgeries
from .conftest import Lab


async def test_forged_messages_of_a_daemon_end_no_agent(one: Lab, caplog: pytest.LogCaptureFixture) -> None:
    agent = one.agents["h0"]
    messages: list[tuple[str, wire.AnyMessage]] = [
        ("ack", wire.Ack(boot=agent.boot, seq=1, upto=0)),
        ("clock", wire.ClockRequest(boot=agent.boot, seq=1, id=4, t1_ns=7)),
    ]
    for asked in samples.ARGUMENTS:
        command = wire.Command(
            boot=agent.boot,
            seq=1,
            id="@@id@@",
            reply_to="hwd/1/tb/h0/reply",
            expires_at_ns=0,
            verb=asked.VERB,
            arguments=msgspec.to_builtins(asked),
        )
        messages.append(("command", command))
    known = [(leaf, msgspec.json.decode(wire.encode(message))) for leaf, message in messages]
    for number, (leaf, payload) in enumerate(forgeries(3, 2000, known), 1):
        expires_at_ns = one.clock.monotonic_ns() + 10 * 10**9
        payload = payload.replace(b"@@id@@", str(number + 10_000).encode())
        payload = payload.replace(b'"expires_at_ns":0', f'"expires_at_ns":{expires_at_ns}'.encode())
        await one.bus.publish(wire.topic("tb", "h0", leaf), payload)
        if number % 20 == 0:
            await asyncio.sleep(0.05)
    await asyncio.sleep(5)
    assert agent.garbage > 300
    assert not one.lives["h0"].done()
    assert (await one.ask("h0", "refresh")).outcome == "done"
    for name in ("h0", "h1"):
        assert (await one.ask(name, "settle", reconfiguration="r1")).outcome == "done"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
