"""The client of jobs against the socket of an agent, on a real Unix socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hwd_agents.switches.select_client import Selector
from hwd_drivers.core.errors import DeadlineError, LinkError, NotReadyError, ProtocolError, RefusedError
from hwd_drivers.core.offload import ThreadOffload

UP = b'{"outcome":"up","requested_ns":1,"answered_ns":5,"id":%d,"ports":{"eth0":{"up":true,"at_ns":4}}}\n'
LATE = b'{"outcome":"not-up","why":"eth0: no carrier","requested_ns":1,"answered_ns":5,"id":%d}\n'
REFUSED = b'{"outcome":"refused","why":"its turn did not come","requested_ns":1,"answered_ns":5,"id":%d}\n'


@asynccontextmanager
async def answering(path: Path, *answers: bytes) -> AsyncIterator[list[bytes]]:
    """Says these, one a request, and then hangs up."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            heard.append(await reader.readline())
            writer.write(answer % len(heard) if b"%d" in answer else answer)
        await reader.readline()
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        yield heard


async def test_outcomes_are_an_answer_or_its_error(tmp_path: Path, thread: ThreadOffload) -> None:
    async with answering(tmp_path / "s", UP, LATE, REFUSED) as heard:
        with Selector(f"unix:{tmp_path}/s") as selector:
            answer = await thread(lambda: selector.select({"sel0": "in-2"}, within_s=2, epoch=7))
            assert answer.ports["eth0"].at_ns == 4
            with pytest.raises(NotReadyError, match="eth0: no carrier"):
                await thread(lambda: selector.select({"sel0": "in-2"}))
            with pytest.raises(RefusedError, match="its turn did not come"):
                await thread(lambda: selector.select({"sel0": "in-2"}))
            with pytest.raises(LinkError, match="disconnected before it answered"):
                await thread(lambda: selector.select({"sel0": "in-2"}))
    assert b'"set":{"sel0":"in-2"}' in heard[0]
    assert b'"epoch":7' in heard[0]
    assert b'"by_s":' in heard[0]


@pytest.mark.parametrize(
    ("answer", "words"),
    [(b"nonsense\n", "cannot parse the answer"), (UP.replace(b"%d", b"9"), "is to request 9, not to 1")],
    ids=["nonsense", "to another request"],
)
async def test_an_answer_that_makes_no_sense_is_an_error(
    thread: ThreadOffload, tmp_path: Path, answer: bytes, words: str
) -> None:
    async with answering(tmp_path / "s", answer):
        with Selector(str(tmp_path / "s")) as selector, pytest.raises(ProtocolError, match=words):
            await thread(lambda: selector.ask({"sel0": "in-2"}))


async def test_an_agent_that_is_silent_or_away_is_told(
    thread: ThreadOffload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hwd_agents.switches.select_client.GRACE_S", 0.01)
    async with answering(tmp_path / "s", b""):
        with Selector(str(tmp_path / "s")) as selector, pytest.raises(DeadlineError, match="did not answer within"):
            await thread(lambda: selector.ask({"sel0": "in-2"}, within_s=0.01))
    with Selector(str(tmp_path / "none")) as selector, pytest.raises(LinkError, match="cannot reach the agent"):
        await thread(selector.show)
