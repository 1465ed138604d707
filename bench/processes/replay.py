"""Plays the agents of a recording: `python -m bench.processes.replay PORT RECORDING`.

It connects them, answers the daemon's clock requests and receives its acknowledgements, as agents do. For each line of
input, `PREFIX MESSAGES EVENTS`, it publishes MESSAGES messages at QoS 1 as fast as the broker takes them. EVENTS is the
number of events in each message, or 0 for the batches as recorded. It prints the time of the first and the number of
events and, where PREFIX is the daemon's, the time of the last acknowledgement (CLOCK_MONOTONIC_RAW, ns).
"""

import asyncio
import itertools
import json
import signal
import sys
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path

import msgspec

from bench.daemon.publish import BarePublisher, publish_packet
from hwd_agents.bus.mqtt import MqttBus
from hwd_agents.bus.protocol import Incoming
from hwd_agents.wire import Ack, Birth, ClockReply, ClockRequest, Event, Events, Message, State, decode, encode
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.ids import Draws, RandomIds

DAEMON = "hwd/1"
"""The prefix of the topics that the daemon listens on."""


APART_NS = 1000
"""Time between the stamps of two events; all stamps are earlier than the first send."""


class Recording:
    """Births and event messages of the agents of one testbed, with new boot ids, numbers and stamps.

    The stamps of each agent ascend: where they do not, the daemon suspects the agent's clock.
    """

    def __init__(self, path: Path, ids: RandomIds, clock: SystemClock) -> None:
        self._clock = clock
        recorded = [(topic.split("/"), decode(payload.encode())) for topic, payload in json.loads(path.read_text())]
        births = {parts[3]: message for parts, message in recorded if isinstance(message, Birth)}
        self.testbed = recorded[0][0][2]
        self.births = {
            host: msgspec.structs.replace(birth, boot=ids.uuid(), spool_oldest_seq=1, spool_next_seq=1, spool_lost=0)
            for host, birth in births.items()
        }
        self._batches = [(parts[3], message.events) for parts, message in recorded if isinstance(message, Events)]
        self._last = dict.fromkeys(births, 0)
        self._messages = dict.fromkeys(births, 0)

    @property
    def last(self) -> dict[str, int]:
        """The number of the last event of each host that `take` returned."""
        return dict(self._last)

    def take(self, messages: int, size: int) -> list[tuple[str, Events]]:
        """The next messages, each with `size` events; `size` 0: batches as they were recorded."""
        batches = itertools.cycle(self._batches if size == 0 else self._batches_of(size))
        taken = list(itertools.islice(batches, messages))
        now_ns, count = self._clock.monotonic_ns(), sum(len(events) for _, events in taken)
        stamps = iter(range(now_ns - count * APART_NS, now_ns, APART_NS))
        return [(host, self._next(host, events, stamps)) for host, events in taken]

    def _next(self, host: str, events: Sequence[Event], stamps: Iterator[int]) -> Events:
        first, boot = self._last[host] + 1, self.births[host].boot
        self._last[host] += len(events)
        self._messages[host] += 1
        numbered = [
            msgspec.structs.replace(
                event,
                seq=seq,
                at_ns=at_ns,
                earliest_ns=event.earliest_ns and at_ns - event.at_ns + event.earliest_ns,  # of the same length
            )
            for seq, (event, at_ns) in enumerate(zip(events, stamps, strict=False), start=first)
        ]
        return Events(boot=boot, seq=self._messages[host], events=numbered)

    def _batches_of(self, size: int) -> list[tuple[str, list[Event]]]:
        """The recorded events with `size` of them in each message, as from a backlog."""
        return [(host, list(itertools.islice(itertools.cycle(self._events_of(host)), size))) for host in self.births]

    def _events_of(self, host: str) -> list[Event]:
        return [event for name, events in self._batches if name == host for event in events]


class Agents:
    """All agents of a recording, over one connection."""

    def __init__(self, bus: MqttBus, recording: Recording, clock: SystemClock) -> None:
        self._bus = bus
        self._recording = recording
        self._clock = clock
        self._seqs: Iterator[int] = itertools.count(1)
        self._boots = {host: birth.boot for host, birth in recording.births.items()}
        self._acked = dict.fromkeys(self._boots, 0)
        self._came = asyncio.Event()
        self._tasks = asyncio.TaskGroup()
        bus.subscribe(f"{DAEMON}/{recording.testbed}/+/clock", self._take_request)
        bus.subscribe(f"{DAEMON}/{recording.testbed}/+/ack", self._take_ack)
        bus.on_up(lambda: self._say(self._greet()))

    async def run(self) -> None:
        async with self._tasks as tasks:
            tasks.create_task(self._bus.run())

    async def acked(self) -> int:
        """Wait until the daemon has acknowledged all events; returns that time."""
        while any(self._acked[host] < last for host, last in self._recording.last.items()):
            self._came.clear()
            await self._came.wait()
        return self._clock.monotonic_ns()

    def _say(self, words: Coroutine[None, None, None]) -> None:
        self._tasks.create_task(words)

    async def _greet(self) -> None:
        for host, birth in self._recording.births.items():
            await self._publish(host, "state", State(boot=birth.boot, seq=1, state="up"), retain=True)
            await self._publish(host, "birth", birth, retain=True)

    def _take_request(self, incoming: Incoming) -> None:
        request = decode(incoming.payload)
        host = incoming.topic.split("/")[3]
        if isinstance(request, ClockRequest) and request.boot == self._boots[host]:
            reply = ClockReply(
                boot=request.boot,
                seq=next(self._seqs),
                id=request.id,
                t1_ns=request.t1_ns,
                t2_ns=incoming.at_ns,
                t3_ns=self._clock.monotonic_ns(),
            )
            self._say(self._publish(host, "reply", reply))

    def _take_ack(self, incoming: Incoming) -> None:
        ack = decode(incoming.payload)
        host = incoming.topic.split("/")[3]
        if isinstance(ack, Ack) and ack.boot == self._boots[host]:
            self._acked[host] = ack.upto
            self._came.set()

    async def _publish(self, host: str, leaf: str, message: Message, *, retain: bool = False) -> None:
        topic = f"{DAEMON}/{self._recording.testbed}/{host}/{leaf}"
        await self._bus.publish(topic, encode(message), qos=int(retain), retain=retain)


async def main(port: str, path: str) -> None:
    """Replay until the end of the input, also in the middle of a turn: a killed parent leaves nothing running."""
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    turns: asyncio.Queue[str] = asyncio.Queue()
    playing = asyncio.create_task(play(int(port), Path(path), turns))
    reading = asyncio.create_task(read(lines, turns))
    loop.add_signal_handler(signal.SIGTERM, reading.cancel)
    await asyncio.wait([playing, reading], return_when=asyncio.FIRST_COMPLETED)
    playing.cancel()
    reading.cancel()
    await asyncio.wait([playing, reading])
    if not playing.cancelled():
        playing.result()


async def read(lines: asyncio.StreamReader, turns: asyncio.Queue[str]) -> None:
    while line := (await lines.readline()).decode():
        turns.put_nowait(line)


async def play(port: int, path: Path, turns: asyncio.Queue[str]) -> None:
    """Play the agents and, as they are asked for, turns; until cancelled."""
    clock, ids = SystemClock(), RandomIds()
    recording, bare = Recording(path, ids, clock), Recording(path, ids, clock)
    agents = Agents(MqttBus(f"mqtt://127.0.0.1:{port}", "bench-agents", clock, Draws(None)), recording, clock)
    async with asyncio.TaskGroup() as tasks, BarePublisher.open(port, "bench-load") as publisher:
        tasks.create_task(agents.run())
        print("ready", flush=True)
        while True:
            prefix, messages, size = (await turns.get()).split()
            taken = (recording if prefix == DAEMON else bare).take(int(messages), int(size))
            packets = [
                publish_packet(f"{prefix}/{recording.testbed}/{host}/event", encode(message), number % 65535 + 1)
                for number, (host, message) in enumerate(taken)
            ]
            began_ns = clock.monotonic_ns()
            await publisher.send(packets)
            ended_ns = await agents.acked() if prefix == DAEMON else 0
            print(began_ns, ended_ns, sum(len(message.events) for _, message in taken), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
