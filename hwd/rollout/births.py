"""Birth messages of agents at the broker, whether a daemon runs or not."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from hwd_agents.bus.mqtt import MqttBus
from hwd_agents.bus.protocol import Incoming
from hwd_agents.wire import Birth, State, decode, encode, topic
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import DeadlineError, LinkError, ProtocolError
from hwd_drivers.core.ids import Draws, RandomIds

CONNECT_S: Final = 10.0
RETAINED_S: Final = 0.5
"""A broker sends its retained messages right after it has accepted a subscription."""


@asynccontextmanager
async def connected(bus: MqttBus) -> AsyncGenerator[None]:
    """Run a client of the broker. Raises LinkError where there is none, and where it refuses user or password."""
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def answered(why: str) -> None:
        if not answer.done():
            answer.set_result(why)

    bus.on_up(lambda: answered(""))
    bus.on_refused(answered)
    running = asyncio.create_task(bus.run(), name="hwd:rollout/bus")
    try:
        try:
            async with asyncio.timeout(CONNECT_S):
                refused = await answer
        except TimeoutError:
            raise LinkError(
                f"broker {bus.address}: cannot be reached from here within {CONNECT_S:g} s. "
                "Is it running, and is its address right?"
            ) from None
        if refused:
            raise LinkError(f"broker {bus.address}: {refused}")
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])


class Births:
    """The births of agents: `birth` and `up` by host; those that cannot be read in `unreadable`, with the reason."""

    def __init__(self, testbed: str, bus: MqttBus) -> None:
        self._testbed = testbed
        self._bus = bus
        self._news = asyncio.Event()
        self.birth: dict[str, Birth] = {}
        self.state: dict[str, State] = {}
        self.unreadable: dict[str, str] = {}
        bus.subscribe(topic(testbed, "+", "birth"), self._take)
        bus.subscribe(topic(testbed, "+", "state"), self._take)

    @classmethod
    @asynccontextmanager
    async def open(cls, testbed: str, url: str) -> AsyncGenerator["Births"]:
        """Connected, with all retained messages. Raises LinkError where there is no broker."""
        bus = MqttBus(url, f"hwd-agent-{RandomIds().token(length=8)}", SystemClock(), Draws(None))
        births = cls(testbed, bus)
        async with connected(bus):
            await asyncio.sleep(RETAINED_S)
            yield births

    def is_up(self, host: str) -> bool:
        """Whether the agent of the last birth is connected."""
        birth, state = self.birth.get(host), self.state.get(host)
        return birth is not None and state is not None and state.boot == birth.boot and state.state == "up"

    def boot(self, host: str) -> str | None:
        birth = self.birth.get(host)
        return None if birth is None else birth.boot

    async def born(self, host: str, *, after: str | None, within_s: float) -> Birth:
        """The birth of a boot of the host's agent other than `after`. Raises DeadlineError where none comes."""
        try:
            async with asyncio.timeout(within_s):
                while not self.is_up(host) or self.boot(host) == after:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            why = f" What came cannot be read: {self.unreadable[host]}." if host in self.unreadable else ""
            lost = f"its agent was started, and no birth of it reached {self._bus.address} within {within_s:g} s"
            raise DeadlineError(f"{host}: {lost}.{why}") from None
        return self.birth[host]

    async def forget(self, host: str) -> None:
        """Publish that the host's ports have no settings any more, then delete the broker's retained messages of it."""
        birth = self.birth.get(host)
        if birth is not None and birth.settings:
            last = msgspec.structs.replace(birth, seq=birth.seq + 1, settings=[])
            await self._bus.publish(topic(self._testbed, host, "birth"), encode(last), qos=1, retain=True)
        for leaf in ("birth", "state"):
            await self._bus.publish(topic(self._testbed, host, leaf), b"", qos=1, retain=True)

    def _take(self, incoming: Incoming) -> None:
        host = incoming.topic.split("/")[3]
        if not incoming.payload:
            return
        try:
            message = decode(incoming.payload)
        except ProtocolError as error:
            self.unreadable[host] = str(error)
            return
        match message:
            case Birth():
                self.birth[host] = message
            case State():
                self.state[host] = message
            case _:
                return
        self._news.set()
