"""The stage of a driver's tests: a twin or a scripted unit, sessions of the driver, other clients, and one clock."""

import asyncio
import functools
import os
import tty
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Self

import yaml
from typing_extensions import override

from hwd_drivers.codecs.http import HttpRequest, HttpResponse
from hwd_drivers.core.clock import Clock, SystemClock
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Attenuation, Capabilities, Crossconnect, Exchange, Identity, PortOverride, PortSide
from hwd_drivers.devices.abilities import Device
from hwd_drivers.devices.registry import OpenContext, find, open_device
from hwd_drivers.devices.supervisor import Supervisor
from hwd_drivers.transports.dial import Dialer, Listener, TcpDialer
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.http_session import HttpSession
from hwd_drivers.twins.server import TwinServer
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

from .parts import Recorder, context, ends, pairs, twin

WALL_NS = 1_795_169_472 * 1_000_000_000
"""Friday, 2026-11-20 10:11:12 UTC, when each virtual clock begins."""


def texts(some: Iterable[object]) -> str:
    """Values in a line of text, as `pairs` and `ends` of the parts read them."""
    return " ".join(map(str, some))


def named(words: Iterable[str]) -> dict[str, Json]:
    """Options of words such as `in_use=deny`."""
    return {name: value_of(text) for name, text in (word.split("=", 1) for word in words if "=" in word)}


def value_of(text: str) -> Json:
    try:
        return yaml.safe_load(text)  # type: ignore[no-any-return]
    except yaml.YAMLError:
        return text


class Client(Recorder):
    """Another client: it sends bytes, and takes what comes within `heard_s` for the answer."""

    def __init__(self, heard_s: float = 0.5) -> None:
        super().__init__()
        self.heard_s = heard_s

    @property
    def ended(self) -> bool:
        return bool(self.lost_with)

    async def say(self, data: bytes, *, within_s: float | None = None) -> bytes:
        self.received = b""
        self.transport.write(data)
        await asyncio.sleep(self.heard_s if within_s is None else within_s)
        return self.received

    async def ask(self, text: str, *, within_s: float | None = None) -> str:
        return (await self.say(text.encode(), within_s=within_s)).decode()


class Tap(asyncio.Protocol):
    """Stands before a server and writes down what reaches it."""

    def __init__(self, inner: asyncio.Protocol, said: list[bytes]) -> None:
        self.inner = inner
        self.said = said
        self.connection_made = inner.connection_made  # type: ignore[method-assign]
        self.connection_lost = inner.connection_lost  # type: ignore[method-assign]
        self.eof_received = inner.eof_received  # type: ignore[method-assign]
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]

    @override
    def data_received(self, data: bytes) -> None:
        self.said.append(data)
        self.inner.data_received(data)


class Tapped(MemoryDialer):
    """A dialer that writes down what servers hear."""

    def __init__(self) -> None:
        super().__init__(MemoryNet())
        self.said: list[bytes] = []

    @override
    async def listen(self, factory: Callable[[], asyncio.Protocol], address: str) -> Listener:
        return await super().listen(lambda: Tap(factory(), self.said), address)


class Scripted(Recorder):
    """A unit that answers each line with the next of its texts, in the form of its protocol, as long as it has some."""

    def __init__(self, answers: Sequence[str], form: Callable[[str, str], str], greeting: str) -> None:
        super().__init__()
        self.answers = [*answers]
        self.form = form
        self.greeting = greeting
        self.lines: list[str] = []

    @property
    def writes(self) -> list[bytes]:
        return [each for each in self.told if isinstance(each, bytes)]

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.write(self.greeting.encode())

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        for line in data.decode().splitlines():
            self.lines.append(line)
            if self.answers:
                self.transport.write(self.form(line, self.answers.pop(0)).encode())


class Session:
    """A session of the driver in the words of tests: crossconnects and ends are text, deadlines begin now."""

    def __init__(self, device: Any, within_s: float) -> None:
        self.device = device
        self.within_s = within_s
        self.close: Callable[[], Coroutine[Any, Any, None]] = device.close
        self.lost: Callable[[], Coroutine[Any, Any, Exception]] = device.lost

    def soon(self, within_s: float | None = None) -> float:
        return asyncio.get_running_loop().time() + (self.within_s if within_s is None else within_s)

    async def change(
        self,
        *,
        remove: str = "",
        add: str = "",
        within_s: float | None = None,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        exchange: Exchange = await self.device.change_crossconnects(
            remove=pairs(remove), add=pairs(add), deadline_s=self.soon(within_s), on_commanded=on_commanded
        )
        return exchange

    async def read(self) -> list[str]:
        """`1A-2B tuned`, ..."""
        return [*map(str, await self.device.read_crossconnects(deadline_s=self.soon()))]

    async def pairs(self) -> str:
        """`1A-2B 3A-3B`."""
        return texts(each.crossconnect for each in await self.device.read_crossconnects(deadline_s=self.soon()))

    async def power(self, text: str) -> list[float | None]:
        return [each.power_dbm for each in await self.device.read_power(ends(text), deadline_s=self.soon())]

    async def override(self, text: str, override: PortOverride) -> None:
        await self.device.override(ends(text), override, deadline_s=self.soon())

    async def overrides(self, text: str) -> dict[str, PortOverride]:
        found = await self.device.read_overrides(ends(text), deadline_s=self.soon())
        return {str(end): override for end, override in found.items()}

    async def attenuate(self, *wanted: Attenuation) -> None:
        await self.device.attenuate(wanted, deadline_s=self.soon())

    async def attenuation(self, text: str) -> tuple[Attenuation, ...]:
        found: tuple[Attenuation, ...] = await self.device.read_attenuation(ends(text), deadline_s=self.soon())
        return found

    async def identify(self) -> Identity:
        found: Identity = await self.device.identify(deadline_s=self.soon())
        return found

    async def capabilities(self) -> Capabilities:
        found: Capabilities = await self.device.capabilities(deadline_s=self.soon())
        return found


class Stage:
    """A switch before its tests: `start` its twin or `script` a unit, then `open` sessions and `connect` other clients.

    Its clock is virtual where the loop is. `answered` and `greeting` give the answers of a scripted unit the form of
    their protocol. What was started and opened is closed at the end.
    """

    def __init__(
        self,
        driver: str,
        model: str | None = None,
        size: str | None = None,
        *,
        timing: str = "ideal",
        login: tuple[str | None, str | None] = ("admin", "root"),
        options: dict[str, Json] | None = None,
        within_s: float = 5.0,
        heard_s: float = 0.5,
        answered: Callable[[str, str], str] = lambda line, text: text,
        greeting: str = "",
        dialer: Dialer | None = None,
        address: str | None = None,
    ) -> None:
        self.spec = find(driver)
        self.model = model or next(iter(self.spec.models))
        self.size = size or self.spec.sizes.get(self.model)
        self.timing = timing
        self.user, self.password = login
        self.options = options or {}
        self.within_s = within_s
        self.heard_s = heard_s
        self.answered = answered
        self.greeting = greeting
        self.dialer = dialer or MemoryDialer(MemoryNet())
        self.address = address or ("127.0.0.1:0" if isinstance(self.dialer, TcpDialer) else "mem:ocs1")
        self.sink: Callable[[Document], None] = _no_document
        self.documents: list[Document] = []
        self._came = asyncio.Event()
        self.twin: Any = None
        self._ends = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._ends.aclose()

    @functools.cached_property
    def clock(self) -> Clock:
        loop = asyncio.get_running_loop()
        return VirtualClock(loop, wall_start_ns=WALL_NS) if isinstance(loop, VirtualLoop) else SystemClock()

    @property
    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def capabilities(self) -> Capabilities:
        return self.spec.capabilities(self.model, self.size)

    def make(self, **options: Json) -> Any:
        """A twin that is not started yet."""
        driver = self.spec.name
        return twin(self.context(), driver, address=self.address, timing=self.timing, **self.options | options)

    async def start(self, **options: Json) -> Any:
        """The twin, with these options too."""
        self.twin = self.make(**options)
        self._ends.push_async_callback(self.twin.close)
        self.address = await self.twin.start()
        return self.twin

    async def start_and_open(self, **options: Json) -> tuple[Any, Session]:
        """The twin, with these options too, and a session."""
        return await self.start(**options), await self.open()

    async def script(self, *answers: str) -> Scripted:
        """A unit in place of a twin."""
        unit = Scripted(answers, self.answered, self.greeting)
        await self.dialer.listen(lambda: unit, self.address)
        return unit

    async def serve(self, handle: Callable[[HttpRequest], HttpResponse]) -> None:
        """A unit that answers HTTP, in place of a twin."""
        server = TwinServer(
            mirror=self.make().mirror,
            clock=self.clock,
            dialer=self.dialer,
            address=self.address,
            make_session=lambda server: HttpSession(server, handle),
        )
        self._ends.push_async_callback(server.close)
        await server.start()

    def context(self, **other: Any) -> OpenContext:
        usual = {"address": self.address, "sink": self.sink, "user": self.user, "password": self.password}
        return context(self.spec.name, self.model, self.size, self.dialer, self.clock, **usual | other)

    async def open(self, opening: OpenContext | None = None, /, **options: Any) -> Session:
        """A session of the driver, with these options of it."""
        opening = opening or self.context(options=self.spec.options.model_validate(options))
        session = Session(await self.spec.open(opening), self.within_s)
        self._ends.push_async_callback(session.close)
        return session

    def supervise(self, open_: Callable[[], Awaitable[Device]] | None = None, **more: Any) -> Supervisor:
        """A supervisor that does not run yet; its documents are in `documents`."""
        self.sink = self._take
        return Supervisor(
            name="ocs1",
            open=open_ or (lambda: open_device(self.spec, self.context())),
            clock=self.clock,
            sink=self.sink,
            draws=Draws(7),
            **more,
        )

    def run(self, supervisor: Supervisor) -> asyncio.Task[None]:
        """Until it is cancelled, at the end at the latest."""
        running = asyncio.create_task(supervisor.run(), name="hwd:ocs1/supervisor")
        self._ends.push_async_callback(ended, running)
        return running

    def _take(self, document: Document) -> None:
        self.documents.append(document)
        self._came.set()

    async def until(self, what: Callable[[], bool]) -> None:
        """Until that is so of the documents."""
        async with asyncio.timeout(30):
            while not what():
                self._came.clear()
                await self._came.wait()

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [document.fact.to_data() for document in self.documents if document.kind == kind]

    async def connect(self, address: str | None = None) -> Client:
        transport, client = await self.dialer.connect(lambda: Client(self.heard_s), address or self.address)
        self._ends.callback(transport.abort)
        return client

    def passes(self, pair: str) -> bool:
        """Whether light passes."""
        passes: bool = self.twin.mirror.passes(Crossconnect.parse(pair), self.clock.monotonic_ns())
        return passes

    def lit(self) -> str:
        """The crossconnects of the optics."""
        return texts(self.twin.mirror.crossconnects())

    def light(self, end: str, dbm: float | None, *, from_now: bool = False) -> None:
        """Let so much light come in, as if it always had."""
        self.twin.mirror.set_input(PortSide.parse(end), dbm, self.clock.monotonic_ns() if from_now else None)


@asynccontextmanager
async def terminal_to(address: str) -> AsyncIterator[str]:
    """A pseudo-terminal that leads to `address`: what the driver opens is a serial port."""
    device, port = os.openpty()
    tty.setraw(port)
    os.set_blocking(device, False)
    reader, writer = await asyncio.open_connection(*address.rsplit(":", 1))
    loop = asyncio.get_running_loop()

    def from_port() -> None:
        with suppress(BlockingIOError):
            writer.write(os.read(device, 4096))

    async def to_port() -> None:
        while data := await reader.read(4096):
            os.write(device, data)

    loop.add_reader(device, from_port)
    pump = asyncio.create_task(to_port(), name="hwd:test/pump")
    try:
        yield os.ttyname(port)
    finally:
        loop.remove_reader(device)
        pump.cancel()
        await asyncio.wait([pump])
        writer.close()
        await writer.wait_closed()
        os.close(device)
        os.close(port)


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait((task,))


def _no_document(document: Document) -> None:
    raise AssertionError(f"a driver reports nothing by itself: {document}")
