"""The process that plays recorded agents ends with its parent, also in the middle of a turn."""

import asyncio
import json
from pathlib import Path

from bench.child import child
from bench.daemon.publish import CONNACK
from hwd_agents.wire import Birth, Event, Events, Inventory, encode

WITHIN_S = 10.0


async def silent_broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accepts connections and acknowledges nothing."""
    writer.write(CONNACK)
    while await reader.read(1 << 16):
        pass
    writer.close()


async def test_replay_ends_with_its_input_while_it_waits_for_the_broker(tmp_path: Path) -> None:
    birth = Birth(
        boot="b1",
        seq=1,
        host="h0",
        testbed="lab",
        version="0",
        at_ns=1,
        ports={},
        inventory=Inventory(),
        spool_oldest_seq=1,
        spool_next_seq=1,
        spool_lost=0,
    )
    carrier = {"carrier": True}
    event = Event(seq=1, at_ns=1, earliest_ns=1, kind="carrier", port="eth0", source="n", origin="kernel", data=carrier)
    messages = {"birth": birth, "event": Events(boot="b1", seq=1, events=[event])}
    recording = tmp_path / "recording.json"
    recording.write_text(json.dumps([(f"hwd/1/lab/h0/{leaf}", encode(one).decode()) for leaf, one in messages.items()]))
    async with await asyncio.start_server(silent_broker, "127.0.0.1", 0) as broker:
        port = broker.sockets[0].getsockname()[1]
        async with child("bench.processes.replay", str(port), str(recording)) as replay:
            assert await asyncio.wait_for(replay.hear(), WITHIN_S) == "ready"
            replay.say("bare/1 1 0")
            assert replay.process.stdin is not None
            await asyncio.sleep(0.5)
            assert replay.process.returncode is None
            replay.process.stdin.close()  # as the kernel does it for a parent that was killed
            assert await asyncio.wait_for(replay.process.wait(), WITHIN_S) == 0
