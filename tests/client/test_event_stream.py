"""The event stream against a server that cuts, restarts and refuses, from both clients."""

from collections.abc import Callable
from typing import Any

import pytest

from hwd.client import AsyncClient, Client, Event
from hwd.client.event_stream import Lines
from hwd_drivers.core.errors import ConfigError, LinkError, ProtocolError

from .conftest import Scripted

EVENT = '{"kind": "switch.down", "at_ns": 1, "wall_ns": 2, "data": {"switch": "ocs1", "cause": "unplugged"}}'


def event(id: str) -> str:
    return f"event: document\nid: {id}\ndata: {EVENT}\n\n"


async def read(
    kind: type[Client] | type[AsyncClient],
    url: str,
    count: int,
    after: str | None = None,
    say: Callable[[str], None] | None = None,
) -> list[Event]:
    """The next so many events."""
    if issubclass(kind, Client):
        with kind(url) as client, client.events(after=after, say=say) as stream:
            return [next(stream) for _ in range(count)]
    async with kind(url) as aclient, aclient.events(after=after, say=say) as astream:
        return [await anext(astream) for _ in range(count)]


both = pytest.mark.parametrize("kind", [Client, AsyncClient])


@both
async def test_a_cut_stream_is_taken_up_where_it_broke(kind: Any, server: Scripted) -> None:
    missed = 'event: missed\nid: b.7\ndata: {"count": 5}\n\n'
    server.answers = [event("b.1") + event("b.2") + "event: document\nid: b.3\nda", missed, event("b.8")]
    assert [one.id for one in await read(kind, server.url, 4)] == ["b.1", "b.2", "b.7", "b.8"]
    assert server.asked_after[:3] == [None, "b.2", "b.7"]


@both
async def test_a_daemon_that_does_not_answer_is_reported_once_and_so_is_its_return(kind: Any, server: Scripted) -> None:
    said: list[str] = []
    server.answers = [event("b.1"), "", "", event("b.2"), event("b.3")]
    await read(kind, server.url, 3, say=said.append)
    assert said == [
        f"the daemon {server.url} does not answer; waiting for it, up to 0 s (Ctrl-C leaves)",
        "the daemon answers again",
    ], "and not where it reconnects at once"


@both
async def test_a_daemon_that_does_not_come_back_is_given_up(kind: Any, server: Scripted) -> None:
    server.answers = [""]
    with pytest.raises(LinkError, match="did not come back"):
        await read(kind, server.url, 1, after="b.1")
    assert server.asked_after == ["b.1"] * 4


@both
async def test_a_daemon_that_has_nothing_of_the_kinds_is_not_given_up_and_is_asked_for_what_it_has_not_said(
    kind: Any, server: Scripted
) -> None:
    beats = [f": still here\nid: b.{number}\n\n" for number in range(1, 9)]
    server.answers = [*beats, event("b.9")]
    assert [one.id for one in await read(kind, server.url, 1)] == ["b.9"]
    assert server.asked_after[:9] == [None, *(f"b.{number}" for number in range(1, 9))]


@both
async def test_a_refusal_is_raised_and_not_tried_again(kind: Any, server: Scripted) -> None:
    server.answers = ["problem"]
    with pytest.raises(ConfigError, match="no such id"):
        await read(kind, server.url, 1, after="x")
    assert len(server.asked_after) == 1


@pytest.mark.parametrize("data", ["{", '{"kind": "switch.up"}', '{"kind": "x", "at_ns": 1, "wall_ns": 2, "data": 7}'])
def test_garbage_is_a_protocol_error(data: str) -> None:
    lines = Lines(beat=lambda id: None)
    with pytest.raises(ProtocolError, match="event stream: cannot read"):
        [lines.feed(line) for line in ("event: document", "id: b.1", f"data: {data}", "")]
