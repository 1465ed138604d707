"""Retained states of runs, on a broker that comes and goes."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Self

import pytest

from hwd.bus.runtopics import RunTopics
from hwd.model.run import RunState, RunStatus
from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_drivers.core.documents import Document
from hwd_drivers.twins.virtual_time import VirtualClock


class Board:
    """The states that shall have a topic, and the topics."""

    def __init__(self, clock: VirtualClock) -> None:
        self.kept: dict[str, RunStatus] = {}
        self.broker = MemoryBroker(latency_s=lambda: 0.001)
        self.bus = MemoryBus(self.broker, "daemon", clock)
        self.topics = RunTopics(self.bus, "lab", lambda: self.kept)

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self.bus.run()), asyncio.create_task(self.topics.run())]
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def tell(self, run: str, state: str) -> None:
        self.kept[run] = RunStatus(run=run, playbook="p.yaml", state=RunState(state), steps=1, queued_wall_ns=0)
        self.topics(Document(at_ns=0, wall_ns=0, fact=self.kept[run]))

    def retained(self) -> dict[str, str]:
        found = self.broker.retained("hwd/1/lab/runs/+")
        return {topic.rpartition("/")[2]: json.loads(payload)["state"] for topic, payload in found}


@pytest.fixture
async def lab(clock: VirtualClock) -> AsyncIterator[Board]:
    async with Board(clock) as lab:
        yield lab


async def test_all_is_published_again_to_a_broker_that_forgot_it(lab: Board) -> None:
    await asyncio.sleep(0.1)
    lab.tell("a", "running")
    await lab.topics.flush()
    lab.broker.stop()
    lab.tell("a", "paused")
    lab.tell("b", "queued")
    await asyncio.sleep(1.0)
    await lab.topics.flush()  # a bus that is away is not waited for
    lab.broker.start()
    await asyncio.sleep(1.0)
    assert lab.retained() == {"a": "paused", "b": "queued"}


async def test_topics_of_runs_that_are_kept_no_more_are_cleared(lab: Board) -> None:
    lab.broker.take("hwd/1/lab/runs/of-another-life", b'{"state": "running"}', 1, retain=True)
    await asyncio.sleep(0.1)
    lab.tell("a", "succeeded")
    await lab.topics.flush()
    assert lab.retained() == {"a": "succeeded"}
    del lab.kept["a"]
    lab.tell("b", "running")
    await lab.topics.flush()
    assert lab.retained() == {"b": "running"}
