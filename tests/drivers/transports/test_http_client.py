"""HttpClient and HttpSession over memory: order, deadlines, deaths, cookies, faults."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from typing_extensions import override

from hwd_drivers.codecs.http import BODY_LIMIT_BYTES, HEAD_LIMIT_BYTES, HttpRequest, HttpResponse
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError, DeadlineError, LinkError, ProtocolError
from hwd_drivers.core.ids import Draws
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.transports.http_client import COOKIES_MAX, HttpClient
from hwd_drivers.transports.memory import Cut, MemoryDialer, MemoryNet
from hwd_drivers.twins.http_session import HttpSession
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.server import TwinServer
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

from ..parts import Connected, Recorder, capabilities, ends


class Old(Connected):
    """A server of HTTP/1.0: its answer ends when it closes."""

    @override
    def data_received(self, data: bytes) -> None:
        self.transport.write(b"HTTP/1.0 200 OK\r\n\r\nold")
        self.transport.close()


class World:
    """A device that answers as the test says, and its clients."""

    def __init__(self, net: MemoryNet, clock: VirtualClock, loop: VirtualLoop) -> None:
        self.loop, self.net, self.clock = loop, net, clock
        self.dialer = MemoryDialer(net)
        self.got: list[HttpRequest] = []
        self.responses: dict[str, HttpResponse] = {}
        optics = Mirror(
            name="ocs1",
            capabilities=capabilities(ends("1 2"), two_sided=False),
            timing=find_timing("ideal"),
            draws=Draws(1),
        )
        self.server = TwinServer(
            mirror=optics,
            clock=clock,
            dialer=self.dialer,
            address="mem:ocs1",
            make_session=lambda server: HttpSession(server, self.handle),
        )

    def handle(self, request: HttpRequest) -> HttpResponse:
        self.got.append(request)
        return self.responses.get(request.path, HttpResponse(status=200, body=request.path.encode()))

    async def open(self, **login: str) -> HttpClient:
        await self.server.start()
        return await self.connect(**login)

    async def connect(self, **login: str) -> HttpClient:
        return await HttpClient.open(
            self.dialer, "mem:ocs1", name="ocs1", clock=self.clock, deadline_s=self.soon, **login
        )

    async def listen_in(self) -> Recorder:
        """A connection that speaks what it wants."""
        _, recorder = await self.dialer.connect(Recorder, "mem:ocs1")
        return recorder

    @property
    def soon(self) -> float:
        return self.loop.time() + 1


@pytest.fixture(params=[None])
async def world(request: pytest.FixtureRequest, clock: VirtualClock, loop: VirtualLoop) -> AsyncIterator[World]:
    world = World(MemoryNet(latency_s=0.01, chunk_bytes=request.param), clock, loop)
    yield world
    await world.server.close()


@pytest.fixture
async def client(world: World) -> AsyncIterator[HttpClient]:
    client = await world.open()
    yield client
    await client.close()


async def test_requests_of_many_are_answered_in_order_with_their_times(world: World, client: HttpClient) -> None:
    world.responses["/0"] = HttpResponse(status=200, body=b"/0", delay_s=0.3)
    asked = [client.request("GET", f"/{n}", deadline_s=world.soon) for n in range(5)]
    assert [answer.body for answer in await asyncio.gather(*asked)] == [b"/0", b"/1", b"/2", b"/3", b"/4"]
    assert [request.path for request in world.got] == ["/0", "/1", "/2", "/3", "/4"]
    world.responses["/"] = HttpResponse(status=204, delay_s=0.1)
    told: list[int] = []
    answer = await client.request("PUT", "/", body=b"{}", deadline_s=world.soon, on_sent=told.append)
    assert told == [answer.sent_ns]
    assert answer.received_ns - answer.sent_ns == pytest.approx(120e6, abs=1e3)
    assert answer.status == 204


async def test_cookies_and_credentials_go_with_every_request(world: World) -> None:
    client = await world.open(user="admin", password="geheim")
    world.responses["/in"] = HttpResponse(
        status=200, headers=(("Set-Cookie", "session=s1; Path=/; HttpOnly"), ("Set-Cookie", "b=2"))
    )
    world.responses["/out"] = HttpResponse(status=200, headers=(("Set-Cookie", "session=; Max-Age=0"),))
    for path in ("/in", "/", "/out", "/"):
        await client.request("GET", path, deadline_s=world.soon)
    assert [request.cookies for request in world.got] == [
        {},
        {"session": "s1", "b": "2"},
        {"session": "s1", "b": "2"},
        {"b": "2"},
    ]
    assert {request.basic for request in world.got} == {("admin", "geheim")}
    await client.close()


async def test_no_more_cookies_are_sent_than_the_limit(world: World, client: HttpClient) -> None:
    for n in range(COOKIES_MAX + 1):
        world.responses[f"/{n}"] = HttpResponse(status=200, headers=(("Set-Cookie", f"c{n}=1"),))
    for path in (*(f"/{n}" for n in range(COOKIES_MAX + 1)), "/"):
        await client.request("GET", path, deadline_s=world.soon)
    assert [*world.got[-1].cookies] == [f"c{n}" for n in range(1, COOKIES_MAX + 1)]


async def test_a_silent_device_ends_the_connection_at_the_deadline(world: World, client: HttpClient) -> None:
    world.server.faults.silent = True
    started_s = world.loop.time()
    with pytest.raises(DeadlineError, match=r"ocs1: GET /: no answer within 0.5 s"):
        await client.request("GET", "/", deadline_s=started_s + 0.5)
    assert world.loop.time() == pytest.approx(started_s + 0.5)
    with pytest.raises(LinkError, match=r"not answered within 0.5 s"):
        await client.request("GET", "/", deadline_s=world.soon)
    assert isinstance(await client.lost(), LinkError)


async def test_a_request_that_waits_for_others_is_not_sent_after_its_deadline(world: World, client: HttpClient) -> None:
    world.responses["/slow"] = HttpResponse(status=200, delay_s=0.5)
    slow = asyncio.create_task(client.request("GET", "/slow", deadline_s=world.soon))
    await asyncio.sleep(0.1)
    with pytest.raises(DeadlineError, match=r"not sent|no answer"):
        await client.request("GET", "/late", deadline_s=world.loop.time() + 0.1)
    assert (await slow).status == 200
    assert (await client.request("GET", "/next", deadline_s=world.soon)).body == b"/next"
    assert [request.path for request in world.got] == ["/slow", "/next"]
    with pytest.raises(DeadlineError, match="not sent, its deadline is over"):
        await client.request("GET", "/", deadline_s=world.loop.time())


async def test_a_request_whose_turn_comes_with_its_deadline_is_not_sent(world: World, client: HttpClient) -> None:
    world.responses["/slow"] = HttpResponse(status=200, delay_s=0.5)
    slow = asyncio.create_task(client.request("GET", "/slow", deadline_s=world.soon))
    late = asyncio.create_task(client.request("GET", "/late", deadline_s=world.loop.time() + 0.52))
    assert (await slow).status == 200
    with pytest.raises(DeadlineError, match=r"GET /late: not sent in time|GET /late: no answer"):
        await late
    assert (await client.request("GET", "/next", deadline_s=world.soon)).body == b"/next"
    assert [request.path for request in world.got] == ["/slow", "/next"]


async def test_a_cancelled_request_does_not_spoil_the_next(world: World, client: HttpClient) -> None:
    world.responses["/slow"] = HttpResponse(status=200, body=b"slow", delay_s=0.5)
    given_up = asyncio.create_task(client.request("GET", "/slow", deadline_s=world.soon))
    unsent = asyncio.create_task(client.request("GET", "/unsent", deadline_s=world.soon))
    await asyncio.sleep(0.1)
    given_up.cancel()
    unsent.cancel()
    await asyncio.wait((given_up, unsent))
    assert (await client.request("GET", "/next", deadline_s=world.soon)).body == b"/next"
    assert client.late == 1
    assert [request.path for request in world.got] == ["/slow", "/next"]


async def test_a_cancelled_request_still_ends_the_connection_at_its_deadline(world: World, client: HttpClient) -> None:
    world.server.faults.silent = True
    given_up = asyncio.create_task(client.request("GET", "/", deadline_s=world.soon))
    await asyncio.sleep(0.1)
    given_up.cancel()
    assert "not answered within 1 s" in str(await client.lost())
    assert world.loop.time() == pytest.approx(1.02)


async def test_a_reset_fails_every_waiter_with_its_own_error(world: World, client: HttpClient) -> None:
    world.server.faults.silent = True
    waiters = [asyncio.create_task(client.request("GET", f"/{n}", deadline_s=world.soon)) for n in range(3)]
    await asyncio.sleep(0.1)
    world.server.faults.reset()
    for number, waiter in enumerate(waiters):
        with pytest.raises(LinkError, match=rf"connection lost.*\(in GET /{number}\)"):
            await waiter
    assert isinstance(await client.lost(), LinkError)


async def test_garbage_and_half_an_answer_are_never_answers(world: World, client: HttpClient) -> None:
    world.server.faults.garble_next = True
    with pytest.raises(ProtocolError):
        await client.request("GET", "/", deadline_s=world.soon)
    assert client.garbled == 1
    client = await world.connect()
    world.server.faults.half_next = True
    with pytest.raises(DeadlineError):
        await client.request("GET", "/", deadline_s=world.soon)


async def test_half_an_answer_and_the_end_is_a_lost_connection(world: World, client: HttpClient) -> None:
    world.server.faults.half_next = True
    waiter = asyncio.create_task(client.request("GET", "/", deadline_s=world.soon))
    await asyncio.sleep(0.1)
    for session in world.server.sessions:
        assert isinstance(session, HttpSession)
        session.hang_up()
    with pytest.raises(LinkError, match="connection lost"):
        await waiter


async def test_a_device_that_closes_after_each_answer_gets_a_connection_for_each_request(world: World) -> None:
    client = await world.open(user="admin", password="geheim")
    for path in ("/0", "/1", "/2"):
        world.responses[path] = HttpResponse(
            status=200, headers=(("Connection", "close"), ("Set-Cookie", f"at={path}")), body=path.encode()
        )
    asked = [client.request("GET", f"/{n}", deadline_s=world.soon) for n in range(4)]
    assert [answer.body for answer in await asyncio.gather(*asked)] == [b"/0", b"/1", b"/2", b"/3"]
    assert [request.cookies for request in world.got] == [{}, {"at": "/0"}, {"at": "/1"}, {"at": "/2"}]
    assert len(world.got) == 4, "nothing was sent twice"
    lost = asyncio.create_task(client.lost())
    await asyncio.sleep(1)
    assert not lost.done(), "the end of the last connection was announced"
    assert len(world.server.sessions) == 1
    await client.close()
    assert isinstance(await lost, LinkError)


async def test_an_answer_that_ends_with_the_connection_is_accepted(world: World) -> None:
    listener = await world.dialer.listen(Old, "mem:old")
    client = await HttpClient.open(world.dialer, "mem:old", name="ocs1", clock=world.clock, deadline_s=world.soon)
    for _ in range(3):
        assert (await client.request("GET", "/", deadline_s=world.soon)).body == b"old"
    await client.close()
    await listener.close()


async def test_a_new_connection_is_heard_to_end_though_the_old_one_still_had_something_to_send() -> None:
    loop = asyncio.get_running_loop()
    sessions: list[asyncio.Transport] = []

    class Full(Connected):
        """Answers before it has read the body, and reads no more; its second session it ends."""

        @override
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            sessions.append(self.transport)

        @override
        def data_received(self, data: bytes) -> None:
            self.transport.pause_reading()
            if self.transport is sessions[0]:
                self.transport.write(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            else:
                self.transport.abort()

    dialer = TcpDialer()
    listener = await dialer.listen(Full, "127.0.0.1:0")
    client = await HttpClient.open(
        dialer, listener.address, name="ocs1", clock=SystemClock(), deadline_s=loop.time() + 2
    )
    answer = await client.request("PUT", "/", body=bytes(50_000_000), deadline_s=loop.time() + 5)
    assert answer.status == 413
    started_s = loop.time()
    with pytest.raises(LinkError, match="connection lost"):
        await client.request("GET", "/", deadline_s=loop.time() + 5)
    assert isinstance(await asyncio.wait_for(client.lost(), 2), LinkError)
    assert loop.time() - started_s < 0.9, "the old connection was waited for"
    await client.close()
    await listener.close()
    for transport in sessions:
        transport.abort()


async def test_a_device_that_is_gone_after_it_closed_is_lost(world: World, client: HttpClient) -> None:
    world.responses["/"] = HttpResponse(status=200, headers=(("Connection", "close"),), body=b"last")
    await client.request("GET", "/", deadline_s=world.soon)
    await world.server.close()
    with pytest.raises(LinkError, match="cannot connect to mem:ocs1"):
        await client.request("GET", "/", deadline_s=world.soon)
    assert isinstance(await client.lost(), LinkError)
    with pytest.raises(LinkError, match=r"cannot connect.*\(in GET /\)"):
        await client.request("GET", "/", deadline_s=world.soon)


async def test_a_new_connection_has_the_deadline_of_its_request(world: World, client: HttpClient) -> None:
    world.responses["/"] = HttpResponse(status=200, headers=(("Connection", "close"),), body=b"last")
    await client.request("GET", "/", deadline_s=world.soon)
    world.net.cut("mem:ocs1", Cut.SILENT)
    started_s = world.loop.time()
    with pytest.raises(DeadlineError):
        await client.request("GET", "/", deadline_s=started_s + 0.5)
    assert world.loop.time() == pytest.approx(started_s + 0.5, abs=0.01)


async def test_a_body_that_makes_no_sense_ends_the_session(world: World) -> None:
    def reader(body: bytes) -> int:
        raise ProtocolError(f"{body!r} is no number")

    client = await world.open()
    answer = await client.request("GET", "/", deadline_s=world.soon)
    with pytest.raises(ProtocolError, match="ocs1: b'/' is no number"):
        client.read(answer, reader)
    assert client.garbled == 1
    assert isinstance(await client.lost(), ProtocolError)
    with pytest.raises(ProtocolError, match="is no number"):
        await client.request("GET", "/", deadline_s=world.soon)


async def test_invalid_http_ends_the_session_and_a_client_that_floods_a_busy_twin_is_cut(world: World) -> None:
    await world.open()
    telnet = await world.listen_in()
    telnet.transport.write(b"RTRV-CRS:::1;\r\n\r\n")
    await telnet.lost()
    assert telnet.received.startswith(b"HTTP/1.1 400 ")
    assert world.got == []
    world.responses["/"] = HttpResponse(status=200, delay_s=10)
    wrong: list[object] = []
    world.loop.set_exception_handler(lambda loop, context: wrong.append(context))
    flood = await world.listen_in()
    flood.transport.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(1)
    flood.transport.write(b"x" * (BODY_LIMIT_BYTES + HEAD_LIMIT_BYTES + 1))
    await flood.lost()
    assert world.loop.time() < 2
    assert wrong == []


async def test_pipelined_requests_are_answered_in_order_on_a_slow_device(world: World) -> None:
    await world.open()
    world.server.faults.slow_s = 0.2
    world.responses["/0"] = HttpResponse(status=200, body=b"/0", delay_s=0.3)
    client = await world.listen_in()
    client.transport.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(3)))
    client.transport.write_eof()
    await asyncio.sleep(2)
    places = [client.received.index(b"\r\n\r\n/%d" % n) for n in range(3)]
    assert places == sorted(places)
    assert len(world.server.sessions) == 1
    client.transport.close()


async def test_a_refused_connection_is_a_link_error_and_an_invalid_address_a_config_error(world: World) -> None:
    with pytest.raises(LinkError, match="cannot connect to mem:ocs1"):
        await world.connect()
    with pytest.raises(ConfigError, match="ocs1: "):
        await HttpClient.open(world.dialer, "nowhere", name="ocs1", clock=world.clock, deadline_s=world.soon)


@pytest.mark.parametrize("world", [1], indirect=True, ids=["bytes in a chunk"])
async def test_it_works_bytewise(world: World, client: HttpClient) -> None:
    answer = await client.request("POST", "/x", body=b"[{}]", deadline_s=world.soon + 100)
    assert answer.body == b"/x"
    assert world.got[0].body == b"[{}]"
    await client.close()
