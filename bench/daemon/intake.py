"""Events a second from the broker until the daemon acknowledges them, against a bare subscriber that does nothing."""

import asyncio
import contextlib
import json
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import aiomqtt
import httpx2

from bench.broker import mosquitto
from bench.child import Child, child
from bench.lab import NAME, WANTED, Daemon, Lab, all_aligned, all_up
from bench.measure import Bar, Summary, ratios
from bench.processes.replay import DAEMON
from bench.progress import Progress
from hwd.config.run_files.places import records_path
from hwd_agents.wire import EVENTS_MAX

LIMIT = 0.5
EVENTS_LIMIT = 25_000.0
"""Events a second, in batches."""
LOST_LIMIT = 0
GROWTH_LIMIT_MB = 20.0
READY_WITHIN_S = 20.0
BARE = "bare/1"
MESSAGES, BACKLOG_MESSAGES = 40_000, 100
"""Messages in a turn: enough that the wait for the last acknowledgement, some 60 ms, is only 2 % of it."""
TURN_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The receipt of all messages of one turn."""

    seconds: float
    messages: int
    events: int


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds, messages = (2, MESSAGES // 200) if quick else (11, MESSAGES)
    recording = folder / "recording.json"
    async with mosquitto(folder) as port:
        progress.say("intake: record what the agents of the demo's rack send")
        await _record(_made(folder / "record"), port, recording, applies=1 if quick else 2)
    async with (
        mosquitto(folder) as port,
        Lab(_made(folder / "replay")).daemon(mqtt=f"mqtt://127.0.0.1:{port}") as daemon,
        child("bench.processes.subscriber", str(port), f"{BARE}/+/+/event") as bare,
        child("bench.processes.replay", str(port), str(recording)) as agents,
    ):
        await bare.hear()
        await agents.hear()
        await daemon.until(all_aligned)
        fresh_mb, _ = daemon.memory_mb()
        progress.say(f"intake: {rounds} turns of {messages} messages as the agents sent them")
        ours, floor, sent = await _alternate(agents, bare, rounds, messages, 0)
        warm_mb, _ = daemon.memory_mb()
        progress.say(f"intake: {rounds} turns of backlogs, {EVENTS_MAX} events a message")
        ours_backlog, floor_backlog, more = await _alternate(agents, bare, rounds, BACKLOG_MESSAGES, EVENTS_MAX)
        now_mb, most_mb = daemon.memory_mb()
        lost = sent + more - await asyncio.to_thread(taken, daemon)
    return [
        _bar("messages taken, as agents send them", ours, floor, LIMIT),
        _bar(f"messages taken, {EVENTS_MAX} events in each", ours_backlog, floor_backlog, None),
        _events_bar(ours_backlog),
        Bar(
            name="events lost of all that were sent",
            value=lost,
            limit=LOST_LIMIT,
            unit="",
            spread=f"{sent + more} sent; acknowledged, in the records and in the metrics",
            n=sent + more,
        ),
        Bar(
            name=f"memory that {more} events left",
            value=now_mb - warm_mb,
            limit=GROWTH_LIMIT_MB,
            unit="MB",
            spread=(
                f"{fresh_mb:.0f} MB before any, {warm_mb:.0f} after {sent}, "
                f"{now_mb:.0f} after all, {most_mb:.0f} at most"
            ),
            n=more,
        ),
    ]


async def _record(folder: Path, port: int, path: Path, *, applies: int) -> None:
    """Record the birth and event messages of the agents while links are applied and become ready."""
    lab, said = Lab(folder), list[tuple[str, str]]()

    async def listen(client: aiomqtt.Client) -> None:
        async for message in client.messages:
            assert isinstance(message.payload, bytes)
            said.append((message.topic.value, message.payload.decode()))

    async with (
        aiomqtt.Client("127.0.0.1", port) as client,
        lab.rack(),
        lab.daemon(mqtt=f"mqtt://127.0.0.1:{port}") as daemon,
    ):
        await client.subscribe([(f"{DAEMON}/{NAME}/+/{leaf}", 1) for leaf in ("birth", "event")])
        listening = asyncio.create_task(listen(client))
        await daemon.until(all_up)
        for number in range(applies):
            await asyncio.to_thread(daemon.apply, WANTED[number % len(WANTED)], ready_within_s=READY_WITHIN_S)
        listening.cancel()
        await asyncio.wait([listening])
    path.write_text(json.dumps(said))


async def _alternate(
    agents: Child, bare: Child, rounds: int, messages: int, size: int
) -> tuple[list[Turn], list[Turn], int]:
    """Turns of daemon and bare subscriber, after one of each to warm up; the number of events for the daemon."""
    ours, floor, sent = list[Turn](), list[Turn](), 0
    for number in range(-1, rounds):
        async with asyncio.timeout(TURN_WITHIN_S):
            agents.say(f"{DAEMON} {messages} {size}")
            began_ns, ended_ns, events = map(int, (await agents.hear()).split())
            taken = Turn(seconds=(ended_ns - began_ns) / 1e9, messages=messages, events=events)
            bare.say(f"{messages}")
            agents.say(f"{BARE} {messages} {size}")
            began_ns, _, events = map(int, (await agents.hear()).split())
            ended_ns = int(await bare.hear())
            thrown = Turn(seconds=(ended_ns - began_ns) / 1e9, messages=messages, events=events)
        if number >= 0:
            ours.append(taken)
            floor.append(thrown)
        sent += taken.events
    return ours, floor, sent


def taken(daemon: Daemon) -> int:
    """The number of events in the records without a gap, or in the metrics, whichever is less."""
    with contextlib.closing(sqlite3.connect(records_path(Path(daemon.place.data_dir)))) as records:
        (held,) = records.execute("SELECT sum(upto) FROM seen").fetchone()
    text = httpx2.get(f"{daemon.place.http}/metrics", trust_env=False).text
    counted = sum(float(value) for value in re.findall(r"^hwd_agent_events_total{.*} (.*)$", text, re.MULTILINE))
    lost = sum(float(value) for value in re.findall(r"^hwd_agent_events_lost_total{.*} (.*)$", text, re.MULTILINE))
    return min(int(held), int(counted)) - int(lost)


def _bar(name: str, ours: list[Turn], floor: list[Turn], limit: float | None) -> Bar:
    rates, bare = ([turn.messages / turn.seconds for turn in turns] for turns in (ours, floor))
    events = Summary.of([turn.events / turn.seconds for turn in ours])
    ratio, rate, floor_rate = ratios(rates, bare), Summary.of(rates), Summary.of(bare)
    return Bar(
        name=name,
        value=ratio.median,
        limit=limit,
        unit="x",
        spread=(
            f"quartiles {ratio.p25:.2f}-{ratio.p75:.2f}; "
            f"{rate.median:.0f} over {floor_rate.median:.0f} messages a second; {events.median:.0f} events a second"
        ),
        n=ratio.n,
        at_least=True,
        detail={
            "messages_per_s": rate.to_data(),
            "floor_per_s": floor_rate.to_data(),
            "events_per_s": events.to_data(),
        },
    )


def _events_bar(ours: list[Turn]) -> Bar:
    events = Summary.of([turn.events / turn.seconds for turn in ours])
    return Bar(
        name=f"events a second, {EVENTS_MAX} in each message",
        value=events.median,
        limit=EVENTS_LIMIT,
        unit="/s",
        spread=f"quartiles {events.p25:.0f}-{events.p75:.0f}",
        n=events.n,
        at_least=True,
        detail={"events_per_s": events.to_data()},
    )


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
