"""What is longer, deeper or bigger than any call takes is answered as such, and counted."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hwd.model.limit import Limit
from hwd.web.bounds import BODY_BYTES_MAX, DEPTH_MAX, URL_BYTES_MAX, Bounds, depth_of
from hwd.web.connection import HEAD_BYTES_MAX
from hwd.web.server import HttpServer, listen

NO_TLS = False


async def size(request: Request) -> JSONResponse:
    return JSONResponse({"bytes": len(await request.body())})


@pytest.fixture
def reached() -> list[tuple[Limit, str]]:
    return []


@pytest.fixture
async def url(reached: list[tuple[Limit, str]]) -> AsyncIterator[str]:
    """A server that tells the size of a body."""

    def tell(limit: Limit, detail: str) -> None:
        reached.append((limit, detail))

    app = Bounds(Starlette(routes=[Route("/{path:path}", size, methods=["GET", "POST"])]), reached=tell)
    server = HttpServer(app, listen("127.0.0.1", 0), before_stop=lambda: None, reached=tell)
    yield await server.start()
    await server.stop()


@pytest.fixture
async def client(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=url, trust_env=False, verify=NO_TLS) as client:
        yield client


async def raw(url: str, data: bytes) -> bytes:
    """What a server answers to these bytes, until it closes."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    await writer.drain()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def pieces(count: int, piece: bytes = b" " * 65536) -> AsyncIterator[bytes]:
    """A body that does not say how long it is."""
    for _ in range(count):
        yield piece


async def test_bodies_up_to_the_limit_are_taken_and_more_is_refused(
    client: httpx2.AsyncClient, reached: list[tuple[Limit, str]]
) -> None:
    most = BODY_BYTES_MAX // 65536
    assert (await client.post("/", content=b" " * BODY_BYTES_MAX)).json() == {"bytes": BODY_BYTES_MAX}
    assert (await client.post("/", content=pieces(most))).json() == {"bytes": BODY_BYTES_MAX}
    assert reached == []
    for body in (b" " * (BODY_BYTES_MAX + 1), pieces(most + 1)):
        answer = await client.post("/", content=body)
        assert (answer.status_code, answer.json()["title"]) == (413, "bad input")
        assert answer.headers["content-type"] == "application/problem+json"
        assert f"{BODY_BYTES_MAX}" in answer.json()["detail"]
    assert (await client.post("/", content=b"{}")).json() == {"bytes": 2}, "the next is served as ever"
    assert [limit for limit, _ in reached] == [Limit.HTTP_BODY] * 2


async def test_a_stated_length_is_believed_before_a_byte_of_it_is_read(
    url: str, reached: list[tuple[Limit, str]]
) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 99999999999999999999\r\n\r\n"
    assert (await raw(url, head)).startswith(b"HTTP/1.1 413 ")
    assert [limit for limit, _ in reached] == [Limit.HTTP_BODY]
    assert (await raw(url, head.replace(b"99", b"9" * 5000))).startswith(b"HTTP/1.1 400 ")


async def test_a_head_has_its_limits(client: httpx2.AsyncClient, reached: list[tuple[Limit, str]]) -> None:
    assert (await client.get("/" + "x" * (URL_BYTES_MAX - 3))).status_code == 200
    assert (await client.get("/" + "x" * URL_BYTES_MAX)).status_code == 414
    assert (await client.get("/?" + "x" * URL_BYTES_MAX)).status_code == 414
    assert (await client.get("/", headers={"X": "x" * (HEAD_BYTES_MAX - 500)})).status_code == 200
    many = {f"X{number}": "x" * 100 for number in range(HEAD_BYTES_MAX // 100)}
    for headers in ({"X": "x" * HEAD_BYTES_MAX}, many):
        answer = await client.get("/", headers=headers)
        assert (answer.status_code, answer.json()["title"]) == (431, "bad input")
    assert [limit for limit, _ in reached] == [Limit.HTTP_HEAD] * 4


async def test_a_head_without_end_is_refused_when_it_is_too_long(url: str, reached: list[tuple[Limit, str]]) -> None:
    answer = await raw(url, b"GET / HTTP/1.1\r\nX: " + b"x" * (HEAD_BYTES_MAX + 1))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert json.loads(body)["status"] == 431
    assert [limit for limit, _ in reached] == [Limit.HTTP_HEAD]


async def test_what_is_no_http_is_told_so_and_is_no_limit(url: str, reached: list[tuple[Limit, str]]) -> None:
    assert (await raw(url, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    answer = await raw(url, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n\0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 "), "what follows a good request changes nothing of its answer"
    assert reached == []


async def test_json_that_goes_too_deep_is_refused(client: httpx2.AsyncClient, reached: list[tuple[Limit, str]]) -> None:
    deep = b"[" * DEPTH_MAX + b"]" * DEPTH_MAX
    assert (await client.post("/", content=deep)).status_code == 200
    for body in (b"[%b]" % deep, b'{"a":' * 100_000, b"[" * BODY_BYTES_MAX, b'["\\' + b"[" * 40 + b'",' + deep):
        answer = await client.post("/", content=body)
        assert (answer.status_code, answer.json()["exit_status"]) == (422, 2)
    assert (await client.post("/", content=b'"' + b"[" * 1000 + b'"')).status_code == 200
    assert [limit for limit, _ in reached] == [Limit.HTTP_DEPTH] * 4


JSONS = st.recursive(
    st.none() | st.text('"\\[]{}x\u00e9', max_size=6) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('"\\[]{}', max_size=4), inner, max_size=3),
)


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


@given(JSONS)
def test_the_depth_of_json_is_that_of_its_values(value: Any) -> None:
    assert depth_of(json.dumps(value).encode()) == depth(value)
    assert depth_of(json.dumps(value, ensure_ascii=False, indent=1).encode()) == depth(value)


@given(st.binary(max_size=200))
@example(b'"\\')
@example(b'"\\"')
@example(b"]]]][")
def test_what_is_no_json_has_a_depth_too(text: bytes) -> None:
    assert 0 <= depth_of(text + b"[]") <= len(text) + 1


def test_the_depth_is_found_in_time_linear_in_the_length() -> None:
    """The largest body takes well below a second of the processor, whatever is in it."""
    for piece in (b'"', b'\\"', b'"\\', b"[", b"[]", b'["', b'"\\"', b"\\", b'""'):
        text = piece * (BODY_BYTES_MAX // len(piece))
        began_s = time.thread_time()
        depth_of(text)
        assert time.thread_time() - began_s < 2.0, piece
