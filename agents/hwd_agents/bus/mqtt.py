"""MqttBus: a client of any MQTT 3.1.1 broker, by URL (aiomqtt 2.x)."""

import asyncio
import contextlib
import logging
import math
import socket
import ssl
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

import aiomqtt
from paho.mqtt.reasoncodes import ReasonCode
from typing_extensions import override

from hwd_agents.bus.protocol import Incoming, Will
from hwd_agents.bus.subscriptions import Subscriptions
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ConfigError, LinkError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.tls_context import client_context

log = logging.getLogger(__name__)

RETRY_FIRST_S = 0.1
RETRY_MOST_S = 5.0
"""Full jitter between 0 and a limit that doubles, so that the clients of a broker do not all reconnect at once."""
KEEPALIVE_S = 10
"""A connection whose broker is silent for twice this is lost. That bounds every wait for an acknowledgement."""
CONNECT_S = 5.0
"""paho's own time limit for the TCP connect, and ours for CONNACK, SUBACK and the end of a connection."""
ABANDON_S = 0.2
"""The time limit for a DISCONNECT to a broker that never sent CONNACK."""
CALLS_MOST = 8
"""Publications at a time; more wait in their order. paho reads as many packets in one iteration of the loop."""
REFUSED_CREDENTIALS = frozenset({"Bad user name or password", "Not authorized"})
"""paho's words for the CONNACK return codes 4 and 5."""
REFUSED_REMEDY = (
    ". It does not take this user and password: `hwd agent deploy` brings an agent its own, "
    "`hwd broker acl` writes those of all for a Mosquitto"
)
LOST_WORDS = {
    "Unspecified error": "the broker closed the connection, or it broke",
    "Keep alive timeout": "the broker was silent for too long",
}
"""paho's words for the end of a connection without a packet with the reason, and ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUrl:
    """The address of a broker: `mqtt://user:password@host:port`, `mqtts://...` (TLS), `unix:/path`.

    Its text is without the password.
    """

    host: str  # of a Unix socket: its path
    port: int  # of a Unix socket: any that paho accepts
    transport: Literal["tcp", "unix"]
    user: str | None
    password: str | None
    tls: bool

    def __str__(self) -> str:
        if self.transport == "unix":
            return f"unix:{self.host}"
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{user}{host}:{self.port}"

    @classmethod
    def parse(cls, url: str) -> "BrokerUrl":
        """Raises ConfigError for any other text."""
        if url.startswith("unix:/"):
            return cls(host=url.removeprefix("unix:"), port=1, transport="unix", user=None, password=None, tls=False)
        wrong = ConfigError(
            f"broker {_hide(url)}: cannot use this address: write mqtt://host:port, mqtts://host:port or unix:/path"
        )
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise wrong from error
        if parts.scheme not in {"mqtt", "mqtts"} or not parts.hostname or parts.path.strip("/") or parts.query:
            raise wrong
        tls = parts.scheme == "mqtts"
        user = None if parts.username is None else unquote(parts.username)
        password = None if parts.password is None else unquote(parts.password)
        port = port or (8883 if tls else 1883)
        return cls(host=parts.hostname, port=port, transport="tcp", user=user, password=password, tls=tls)


class MqttBus(Subscriptions):
    """One client of a broker; see `Bus`. It connects again with full jitter and subscribes again.

    `url` may be a callable that is called before each connect, for a broker whose address is found late; it may
    raise LinkError.
    `tls` overrides the default context of `mqtts`. Subscriptions have QoS 1. Each message is
    stamped and passed to its handlers inside paho's read callback, and acknowledged after that.

    ```
    bus = MqttBus("mqtt://127.0.0.1:1883", "h0", SystemClock(), Draws(None), will=Will(topic=..., payload=...))
    bus.subscribe("hwd/1/+/h0/command", take)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bus.run())
    ```
    """

    def __init__(
        self,
        url: str | Callable[[], str],
        client_id: str,
        clock: Clock,
        draws: Draws,
        will: Will | None = None,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__("mqtt" if callable(url) else str(BrokerUrl.parse(url)))
        self._url = url
        self._client_id = client_id
        self._clock = clock
        self._jitter = draws.stream(f"mqtt {client_id}")
        self._will = will
        self._tls = tls
        self._filters_changed = asyncio.Event()
        self._client: aiomqtt.Client | None = None
        self._unacknowledged: set[asyncio.Timeout] = set()
        self._calls = asyncio.Semaphore(CALLS_MOST)
        self._refused_calls: list[Callable[[str], None]] = []

    def subscribe(self, topic_filter: str, handler: Callable[[Incoming], None]) -> None:
        if self.add(topic_filter, handler):
            self._filters_changed.set()

    def on_refused(self, call: Callable[[str], None]) -> None:
        """Call `call` with the cause each time that the broker refuses our user and password."""
        self._refused_calls.append(call)

    async def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None:
        if not self.connected or self._client is None:
            raise LinkError(f"{self.address}: cannot publish {topic}: not connected")
        try:
            # aiomqtt goes on waiting for PUBACK when the connection is lost: `_lost` ends this scope.
            async with asyncio.timeout(None) as waiting:
                self._unacknowledged.add(waiting)
                try:
                    # A message of QoS 0, a clock's answer for instance, does not wait for acknowledgements of others.
                    async with self._calls if qos else contextlib.nullcontext():
                        if self._client is None:
                            raise LinkError(f"{self.address}: cannot publish {topic}: not connected")
                        await self._client.publish(topic, payload, qos, retain, timeout=math.inf)
                finally:
                    self._unacknowledged.discard(waiting)
        except (TimeoutError, aiomqtt.MqttError) as error:
            why = "the connection was lost" if isinstance(error, TimeoutError) else reason_of(error)
            raise LinkError(f"{self.address}: {topic} was not taken by the broker: {why}") from error

    async def run(self) -> None:
        failures = 0
        try:
            while True:
                try:
                    await self._run_once()
                except _ConnectionLost as lost:
                    failures = 1 if self.connected else failures + 1
                    self._lost()
                    self.down(str(lost))
                    for call in self._refused_calls if lost.refused else ():
                        call(str(lost))
                    most_s = RETRY_MOST_S if lost.refused else min(RETRY_MOST_S, RETRY_FIRST_S * 2 ** (failures - 1))
                    await asyncio.sleep(self._jitter.uniform(0, most_s))
        finally:
            self.connected = False
            self._lost()

    async def _run_once(self) -> None:
        """Serve one connection. Raises _ConnectionLost at its end or without one, and what handlers raise."""
        failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        client = self._new_client(failure)
        await _enter(client)
        self._client = client
        self._filters_changed.set()
        tasks = (
            asyncio.create_task(_watch(client), name=f"hwd:{self._client_id}/mqtt-watch"),
            asyncio.create_task(self._keep_subscribed(client), name=f"hwd:{self._client_id}/mqtt-subscribe"),
        )
        try:  # no TaskGroup: that of Python 3.11 loses a cancellation that comes together with the failure of a task
            await asyncio.wait((failure, *tasks), return_when=asyncio.FIRST_COMPLETED)
            for each in (failure, *tasks):
                if each.done():
                    each.result()  # each ends by an exception only
        finally:
            self._client = None
            for task in tasks:
                task.cancel()
            try:
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:
                await _leave(client, within_s=CONNECT_S)

    async def _keep_subscribed(self, client: aiomqtt.Client) -> None:
        subscribed: set[str] = set()
        while True:
            await self._filters_changed.wait()
            self._filters_changed.clear()
            if missing := [each for each in self.filters if each not in subscribed]:
                await _subscribe(client, missing)
                subscribed.update(missing)
            if not self.connected:
                self.up()

    def _new_client(self, failure: asyncio.Future[None]) -> aiomqtt.Client:
        """`failure` gets the first error of a handler."""
        try:
            url = BrokerUrl.parse(self._url() if callable(self._url) else self._url)
        except LinkError as error:
            raise _ConnectionLost(str(error)) from error
        self.address = str(url)
        library = log.getChild("library")
        # MqttBus logs the rest
        library.setLevel(logging.DEBUG if log.isEnabledFor(logging.DEBUG) else logging.CRITICAL)
        return aiomqtt.Client(
            url.host,
            url.port,
            username=url.user,
            password=url.password,
            identifier=self._client_id,
            queue_type=_queue_type(lambda message: self._take(message, failure)),
            protocol=aiomqtt.ProtocolVersion.V311,
            clean_session=True,
            transport=url.transport,
            timeout=CONNECT_S,
            keepalive=KEEPALIVE_S,
            tls_context=(self._tls or client_context()) if url.tls else None,
            socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)] if url.transport == "tcp" else None,
            will=None
            if self._will is None
            else aiomqtt.Will(self._will.topic, self._will.payload, 1, self._will.retain),
            logger=library,
        )

    def _take(self, message: aiomqtt.Message, failure: asyncio.Future[None]) -> None:
        at_ns = self._clock.monotonic_ns()
        if failure.done():
            return
        incoming = Incoming(topic=message.topic.value, payload=message.payload, retained=message.retain, at_ns=at_ns)
        try:
            self.deliver(incoming)
        except Exception as error:  # noqa: BLE001 - `run` raises it: here, paho would take the message again
            failure.set_exception(error)

    def _lost(self) -> None:
        for waiting in self._unacknowledged:
            waiting.reschedule(asyncio.get_running_loop().time())
        self._unacknowledged.clear()


class _ConnectionLost(Exception):
    """A connection ended, or was not made. `refused`: an early retry is useless."""

    def __init__(self, cause: str, *, refused: bool = False) -> None:
        super().__init__(cause)
        self.refused = refused


def _queue_type(take: Callable[[aiomqtt.Message], None]) -> type[asyncio.Queue[aiomqtt.Message]]:
    """A class for the queue into which aiomqtt puts each message inside paho's read callback; it calls `take` there.

    That is the earliest moment for a stamp. `Client.messages` would make a task for each message, and yields none here.
    """

    class Inbox(asyncio.Queue[aiomqtt.Message]):
        @override
        def put_nowait(self, item: aiomqtt.Message) -> None:
            take(item)

    return Inbox


async def _enter(client: aiomqtt.Client) -> None:
    """Connect the client. Raises _ConnectionLost. aiomqtt connects in a thread that cannot be stopped: a cancellation
    waits for its end.
    """
    entering = asyncio.ensure_future(client.__aenter__())
    try:
        await asyncio.shield(entering)
    except aiomqtt.MqttError as error:
        await _leave(client, within_s=ABANDON_S)  # aiomqtt 2.5.1 leaves the socket open where no CONNACK comes
        refused = isinstance(error, aiomqtt.MqttCodeError) and str(error.rc) in REFUSED_CREDENTIALS
        remedy = ". Nothing listens there: is the broker running?" if _is_refused_by_host(error) else ""
        remedy = REFUSED_REMEDY if refused else remedy
        raise _ConnectionLost(f"cannot connect: {reason_of(error)}{remedy}", refused=refused) from error
    except asyncio.CancelledError:
        client.timeout = ABANDON_S  # for the wait for CONNACK, where that has not begun
        await asyncio.wait([entering])
        failed = not entering.cancelled() and entering.exception() is not None
        await _leave(client, within_s=ABANDON_S if failed else CONNECT_S)
        raise


async def _watch(client: aiomqtt.Client) -> None:
    """Wait until the connection ends, then raise _ConnectionLost."""
    try:
        await anext(client.messages)
    except aiomqtt.MqttError as error:
        raise _ConnectionLost(_lost_words(error)) from error


async def _subscribe(client: aiomqtt.Client, filters: list[str]) -> None:
    try:
        with _recovering_cancel():
            codes = await client.subscribe([(each, 1) for each in filters])
    except aiomqtt.MqttError as error:
        raise _ConnectionLost(f"cannot subscribe: {reason_of(error)}") from error
    for topic_filter, code in zip(filters, codes, strict=True):
        if isinstance(code, ReasonCode) and code.is_failure:
            raise _ConnectionLost(f"the broker refuses the subscription {topic_filter}", refused=True)


async def _leave(client: aiomqtt.Client, *, within_s: float) -> None:
    """Send DISCONNECT behind all messages that wait, so that no will is published.

    Where that fails, paho closes the connection after `KEEPALIVE_S`.
    """
    client.timeout = within_s
    try:
        await client.__aexit__(None, None, None)
        await anext(client.messages)  # ends at once: else asyncio would log a loss that came together with our end
    except aiomqtt.MqttError as error:
        log.debug("the end of a connection: %s", reason_of(error))


@contextlib.contextmanager
def _recovering_cancel() -> Generator[None, None, None]:
    """Raise the cancellation that asyncio.wait_for of Python 3.11 loses when it comes together with the result.

    aiomqtt uses wait_for.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError


def _is_refused_by_host(error: BaseException | None) -> bool:
    # aiomqtt raises its own error without a cause
    return isinstance(error, ConnectionRefusedError) or (error is not None and _is_refused_by_host(error.__context__))


def _lost_words(error: aiomqtt.MqttError) -> str:
    cause = error.__cause__ or error
    words = LOST_WORDS.get(str(cause.rc)) if isinstance(cause, aiomqtt.MqttCodeError) else None
    return words or f"connection lost: {cause}"


def _hide(url: str) -> str:
    """The URL without a part that may be a password."""
    head, at, tail = url.rpartition("@")
    scheme, slashes, _ = head.partition("://")  # without a scheme, the text before "@" is a user and a password
    return f"{scheme + slashes if slashes and scheme.isalpha() else ''}...@{tail}" if at else url
