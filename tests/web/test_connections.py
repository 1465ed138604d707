"""Connections that do nothing end, those beyond the most make room or wait, and none of it touches who is served."""

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from hwd.model.limit import Limit
from hwd.web.connection import BODY_WITHIN_S, HEAD_WITHIN_S, Connection
from hwd.web.door import Door
from hwd.web.server import CONNECTIONS_MAX, HttpServer, listen, most_connections

MOST = 6
SCALE = 0.02
"""A head has 0.2 s, a body 0.6 s, and who reads nothing 1.2 s."""
NO_TLS = False
TOKEN = "a-long-enough-token"


class Served:
    """A server with few connections and short limits.

    `/slow` answers when `go` is set, `/stream` never ends, `/much` is more than buffers hold.
    """

    def __init__(self) -> None:
        self.reached: list[Limit] = []
        self.details: list[str] = []
        self.go = asyncio.Event()
        self.url = ""
        self.slow_ones = 0
        self.much_begun = 0

    def tell(self, limit: Limit, detail: str) -> None:
        self.reached.append(limit)
        self.details.append(detail)

    async def slow(self, request: Request) -> PlainTextResponse:
        self.slow_ones += 1
        await self.go.wait()
        return PlainTextResponse("slow")

    async def quick(self, request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"{len(await request.body())}")

    async def stream(self, request: Request) -> StreamingResponse:
        async def ticks() -> AsyncIterator[bytes]:
            while True:
                yield b"tick\n"
                await asyncio.sleep(0.01)

        return StreamingResponse(ticks())

    async def much(self, request: Request) -> StreamingResponse:
        self.much_begun += 1

        async def flood() -> AsyncIterator[bytes]:
            for _ in range(1000):
                yield b"x" * 65536

        return StreamingResponse(flood())

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/slow", self.slow),
                Route("/quick", self.quick, methods=["GET", "POST"]),
                Route("/stream", self.stream),
                Route("/much", self.much),
                Route("/metrics", self.much),
            ]
        )

    @property
    def place(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").partition(":")
        return host, int(port)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.place)

    def server(self, app: ASGIApp) -> HttpServer:
        sock = listen("127.0.0.1", 0)
        return HttpServer(app, sock, before_stop=lambda: None, reached=self.tell, most=MOST, time_scale=SCALE)

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.url, trust_env=False, verify=NO_TLS)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    made = Served()
    server = made.server(made.app())
    made.url = await server.start()
    yield made
    await server.stop()


async def closed(reader: asyncio.StreamReader) -> bytes:
    """What came until the other side closed or cut it."""
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize(
    ("sent", "within_s"),
    [
        (b"", HEAD_WITHIN_S),
        (b"G", HEAD_WITHIN_S),
        (b"GET /quick HTTP/1.1\r\nHost: x\r\nX-Half: ", HEAD_WITHIN_S),
        (b"POST /quick HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf", BODY_WITHIN_S),
        (b"POST /quick HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", BODY_WITHIN_S),
    ],
)
async def test_a_request_that_is_not_whole_in_time_ends(served: Served, sent: bytes, within_s: float) -> None:
    loop = asyncio.get_running_loop()
    reader, writer = await served.connect()
    began_s = loop.time()
    writer.write(sent)
    assert await closed(reader) == b""
    assert loop.time() - began_s >= 0.9 * within_s * SCALE
    assert served.reached == [Limit.HTTP_LATE]
    writer.close()


@pytest.mark.parametrize(
    "drip", [b"GET /quick HTTP/1.1\r\nHost: x\r\n", b"POST /quick HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n"]
)
async def test_a_byte_now_and_then_gains_no_time(served: Served, drip: bytes) -> None:
    reader, writer = await served.connect()
    writer.write(drip)
    ended = asyncio.create_task(closed(reader))
    while not ended.done():
        writer.write(b"x")
        await asyncio.sleep(0.01)
    assert served.reached == [Limit.HTTP_LATE]
    writer.close()


async def test_half_a_second_request_on_a_connection_that_stays_ends_too(served: Served) -> None:
    reader, writer = await served.connect()
    writer.write(b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.write(b"GET /qui")
    await closed(reader)
    assert served.reached == [Limit.HTTP_LATE]
    writer.close()


async def test_who_reads_nothing_of_an_answer_is_let_go(served: Served) -> None:
    reader, writer = await served.connect()
    writer.write(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(10):
        while served.reached != [Limit.HTTP_LATE]:  # noqa: ASYNC110 - the other side of a full buffer hears of nothing
            await asyncio.sleep(0.01)
    assert "reads nothing of its answer" in served.details[0]
    writer.transport.abort()
    await closed(reader)


async def test_a_long_answer_and_a_stream_take_the_time_that_they_take(served: Served) -> None:
    async with served.client() as client, client.stream("GET", "/stream") as stream:
        lines = stream.aiter_lines()
        slow = asyncio.create_task(client.get("/slow"))
        for _ in range(100):
            assert await anext(lines) == "tick"
        served.go.set()
        assert (await slow).text == "slow"
        assert (await client.get("/much")).content == b"x" * 65536 * 1000
        assert await anext(lines) == "tick"
    assert served.reached == []


async def test_a_connection_that_spoke_no_http_may_make_room_at_any_moment() -> None:
    """In the moment between its first bytes and its end there is neither a request nor an answer."""
    waited: list[bool] = []

    class Looked(Connection):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            waited.append(self.waits)

    loop, config = asyncio.get_running_loop(), uvicorn.Config(PlainTextResponse("done"), http="h11", log_config=None)
    config.load()
    server = await loop.create_server(
        lambda: Looked(config, ServerState(), reached=lambda limit, detail: None, lost=lambda connection: None),
        "127.0.0.1",
        0,
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"\x16\x03\x01 no HTTP\r\n\r\n")
    assert b" 400 " in await closed(reader)
    assert waited[0] is True
    writer.close()
    server.close()
    await server.wait_closed()


async def test_connections_that_ask_for_nothing_make_room_for_those_that_do(served: Served) -> None:
    idle = [await served.connect() for _ in range(MOST)]
    async with served.client() as client, client.stream("GET", "/stream") as stream:
        lines = stream.aiter_lines()
        assert await anext(lines) == "tick"
        more = [await served.connect() for _ in range(2 * MOST)]
        async with served.client() as another:
            assert (await another.get("/quick")).text == "0"
        assert await anext(lines) == "tick", "a stream is never the one that makes room"
    assert served.reached.count(Limit.HTTP_CONNECTIONS) >= MOST
    for _, writer in [*idle, *more]:
        writer.transport.abort()


async def test_who_comes_when_all_are_busy_is_told_so(served: Served) -> None:
    async with served.client() as client:
        slow = [asyncio.create_task(client.get("/slow")) for _ in range(MOST)]
        while served.slow_ones < MOST:  # noqa: ASYNC110 - the six are under way when the server has them
            await asyncio.sleep(0.01)
        async with served.client() as another:
            answer = await another.get("/quick")
        assert (answer.status_code, answer.json()["exit_status"]) == (503, 4)
        assert answer.headers["retry-after"] == "1"
        served.go.set()
        assert {(await one).text for one in slow} == {"slow"}
        assert (await client.get("/quick")).text == "0"
    assert served.reached.count(Limit.HTTP_CONNECTIONS) >= 1


async def test_strangers_that_read_no_answer_keep_nobody_out_who_has_a_token(served: Served) -> None:
    door = Door(served.app(), tokens=frozenset({TOKEN}), session="s" * 16, local=True)
    server = served.server(door)
    first, served.url = served.url, await server.start()
    strangers = [await served.connect() for _ in range(MOST)]
    for _, writer in strangers:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with served.client() as client:
        while served.much_begun < MOST:  # noqa: ASYNC110 - an answer without an end has begun for each
            await asyncio.sleep(0.01)
        answer = await client.get("/quick", headers={"Authorization": f"Bearer {TOKEN}"})
        assert (answer.status_code, answer.text) == (200, "0")
    for _, writer in strangers:
        writer.transport.abort()
    await server.stop()
    served.url = first


async def test_out_of_descriptors_it_rests_says_so_once_and_serves_again(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with served.client() as client, client.stream("GET", "/stream") as stream:
        lines = stream.aiter_lines()
        assert await anext(lines) == "tick"
        for _ in range(2):  # it comes and goes: the second time says nothing more
            served.reached.clear()
            reader, writer = await served.connect()
            spare = os.dup(0)
            os.close(spare)
            waiting = [socket.socket() for _ in range(3)]  # their descriptors are there before the limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
            try:
                for one in waiting:  # the kernel takes them; whether they are accepted is another thing
                    one.setblocking(False)
                    await asyncio.get_running_loop().sock_connect(one, served.place)
                async with asyncio.timeout(10):
                    while Limit.DESCRIPTORS not in served.reached:
                        assert await anext(lines) == "tick"
                assert await closed(reader) == b"", "one that waits makes room"
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            async with served.client() as another:
                assert (await another.get("/quick")).text == "0"
            assert await anext(lines) == "tick"
            writer.close()
            for one in waiting:
                one.close()
    said = [record.getMessage() for record in caplog.records if record.name.startswith("hwd")]
    assert len([line for line in said if "no connection can be accepted: Too many open files" in line]) == 1
    assert len([line for line in said if "connections are accepted again" in line]) == 1


def test_the_most_follows_from_the_descriptors_of_the_process() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (400, hard))
        assert most_connections() == 100
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard > 0 else 4096, hard))
        assert most_connections() == CONNECTIONS_MAX
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
