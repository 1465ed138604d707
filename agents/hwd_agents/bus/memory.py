"""MemoryBus: broker and clients in one loop, without sockets; it can lose, delay and repeat messages, reproducibly."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable

from hwd_agents.bus.protocol import Incoming, Will
from hwd_agents.bus.subscriptions import Subscriptions, matches
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import LinkError
from hwd_drivers.transports.memory import NodeKills

RETRY_S = 0.1
"""The pause before a client connects again; constant, so that a run can be replayed."""


class MemoryBroker:
    """An MQTT 3.1.1 broker without bytes: retained messages, wills, QoS 1 acknowledgements, order by topic.

    `latency_s` is drawn for each message and each way. With `nodes`, the clients of a node that is killed lose
    their connections, and their wills are published. `repeat_qos1` delivers every QoS 1 message twice, as brokers may.

    ```
    broker = MemoryBroker()
    daemon, agent = MemoryBus(broker, "daemon", clock), MemoryBus(broker, "h0", clock, will=Will(...))
    broker.cut("h0")  # the agent's will is published; it connects again by itself
    ```
    """

    def __init__(self, *, latency_s: Callable[[], float] | None = None, nodes: NodeKills | None = None) -> None:
        self.address = "memory:"
        self.repeat_qos1 = False
        self._latency_s = latency_s
        self._nodes = nodes
        self._running = True
        self._sessions: dict[str, _Session] = {}
        self._retained: dict[str, bytes] = {}
        if nodes is not None:
            nodes.on_kill(self._node_killed)

    def stop(self) -> None:
        """Disconnect all clients and drop all retained messages; nobody can connect until `start`."""
        self._running = False
        self._retained.clear()
        for session in list(self._sessions.values()):
            session.lose("the broker was stopped")
        self._sessions.clear()

    def start(self) -> None:
        self._running = True

    def cut(self, client_id: str) -> None:
        """Cut the connection of one client, if it has one: its will is published, messages in flight are lost."""
        if (session := self._sessions.pop(client_id, None)) is not None:
            session.lose("the connection was cut")
            self._publish_will(session)

    def clients(self) -> tuple[str, ...]:
        return tuple(self._sessions)

    def connect(
        self,
        client_id: str,
        will: Will | None,
        receive: Callable[[str, bytes, bool], None],
        lost: Callable[[str], None],
    ) -> "_Session":
        """Open a session; an open one of the same client is cut. Raises LinkError where the broker is stopped."""
        if not self._running:
            raise LinkError(f"{self.address} {client_id}: cannot connect: the broker is stopped")
        self.cut(client_id)
        node = None if self._nodes is None else self._nodes.current()
        session = _Session(self, client_id, will, node, receive, lost, self._latency_s)
        self._sessions[client_id] = session
        return session

    def leave(self, session: "_Session") -> None:
        """End a session in order: its will is not published."""
        if self._sessions.get(session.client_id) is session:
            del self._sessions[session.client_id]
        session.lose("closed")

    def take(self, topic: str, payload: bytes, qos: int, retain: bool) -> None:
        """Forward a message to all subscribers."""
        if retain and payload:
            self._retained[topic] = payload
        elif retain:
            self._retained.pop(topic, None)
        for session in self._sessions.values():
            if any(matches(topic_filter, topic) for topic_filter in session.filters):
                for _ in range(2 if qos and self.repeat_qos1 else 1):
                    session.send(topic, payload, retained=False)

    def retained(self, topic_filter: str) -> list[tuple[str, bytes]]:
        return [(topic, payload) for topic, payload in self._retained.items() if matches(topic_filter, topic)]

    def _publish_will(self, session: "_Session") -> None:
        if session.will is not None:
            self.take(session.will.topic, session.will.payload, 1, session.will.retain)

    def _node_killed(self, node: str) -> None:
        for session in [each for each in self._sessions.values() if each.node == node]:
            self.cut(session.client_id)


class MemoryBus(Subscriptions):
    """One client of a `MemoryBroker`; see `Bus`."""

    def __init__(self, broker: MemoryBroker, client_id: str, clock: Clock, will: Will | None = None) -> None:
        super().__init__(broker.address)
        self._broker = broker
        self._client_id = client_id
        self._clock = clock
        self._will = will
        self._session: _Session | None = None
        self._ended: asyncio.Future[str] | None = None

    def subscribe(self, topic_filter: str, handler: Callable[[Incoming], None]) -> None:
        if self.add(topic_filter, handler) and self._session is not None:
            self._session.subscribe([topic_filter], lambda: None)

    async def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None:
        if not self.connected or self._session is None:
            raise LinkError(f"{self.address} {self._client_id}: cannot publish {topic}: not connected")
        await self._session.publish(topic, payload, qos, retain)

    async def run(self) -> None:
        try:
            while True:
                self.down(await self._run_once())
                await asyncio.sleep(RETRY_S)
        finally:
            self.connected = False

    async def _run_once(self) -> str:
        """Serve one connection; return why it ended, or why it could not be made."""
        self._ended = asyncio.get_running_loop().create_future()
        try:
            session = self._broker.connect(self._client_id, self._will, self._receive, self._lost)
        except LinkError as error:
            return str(error)
        self._session = session
        session.subscribe(list(self.filters), self._subscribed)
        try:
            return await self._ended
        finally:
            self._session = None
            self._broker.leave(session)

    def _subscribed(self) -> None:
        self._call(self.up)

    def _receive(self, topic: str, payload: bytes, retained: bool) -> None:
        incoming = Incoming(topic=topic, payload=payload, retained=retained, at_ns=self._clock.monotonic_ns())
        self._call(lambda: self.deliver(incoming))

    def _call(self, call: Callable[[], None]) -> None:
        """Call a handler. Its error ends `run`."""
        try:
            call()
        except Exception as error:
            if self._ended is None or self._ended.done():
                raise
            self._ended.set_exception(error)

    def _lost(self, cause: str) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(cause)


class _Session:
    """One connection of a client: a lane to the broker, outside all nodes, and one to the client, in its node."""

    def __init__(
        self,
        broker: MemoryBroker,
        client_id: str,
        will: Will | None,
        node: str | None,
        receive: Callable[[str, bytes, bool], None],
        lost: Callable[[str], None],
        latency_s: Callable[[], float] | None,
    ) -> None:
        self.client_id = client_id
        self.will = will
        self.node = node
        self.filters: list[str] = []
        self._broker = broker
        self._receive = receive
        self._lost = lost
        self._context = contextvars.copy_context()
        self._up = _Lane(latency_s, contextvars.Context())
        self._down = _Lane(latency_s, self._context)
        self._unacknowledged: dict[asyncio.Future[None], str] = {}
        self._open = True

    def subscribe(self, filters: list[str], done: Callable[[], None]) -> None:
        def subscribe() -> None:
            self.filters += filters
            self._down.send(done)
            for topic_filter in filters:
                for topic, payload in self._broker.retained(topic_filter):
                    self.send(topic, payload, retained=True)

        self._up.send(subscribe)

    async def publish(self, topic: str, payload: bytes, qos: int, retain: bool) -> None:
        if not self._open:
            raise LinkError(f"{self._broker.address} {self.client_id}: cannot publish {topic}: the connection is lost")
        if qos == 0:
            self._up.send(lambda: self._broker.take(topic, payload, 0, retain))
            return
        acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unacknowledged[acknowledged] = topic

        def take() -> None:
            self._broker.take(topic, payload, qos, retain)
            self._down.send(acknowledge)

        def acknowledge() -> None:
            if self._unacknowledged.pop(acknowledged, None) and not acknowledged.done():
                acknowledged.set_result(None)

        self._up.send(take)
        try:
            await acknowledged
        finally:
            self._unacknowledged.pop(acknowledged, None)

    def send(self, topic: str, payload: bytes, *, retained: bool) -> None:
        self._down.send(lambda: self._receive(topic, payload, retained))

    def lose(self, cause: str) -> None:
        """Drop the messages in flight both ways, and inform the client."""
        if not self._open:
            return
        self._open = False
        self._up.close()
        self._down.close()
        asyncio.get_running_loop().call_soon(self._report_lost, cause, context=self._context)

    def _report_lost(self, cause: str) -> None:
        self._lost(cause)
        for acknowledged, topic in self._unacknowledged.items():
            if not acknowledged.done():
                text = f"{self._broker.address} {self.client_id}: {topic} was not acknowledged: {cause}"
                acknowledged.set_exception(LinkError(text))
        self._unacknowledged.clear()


class _Lane:
    """One direction of a connection: calls run in order, each after its latency, in one context."""

    def __init__(self, latency_s: Callable[[], float] | None, context: contextvars.Context) -> None:
        self._latency_s = latency_s
        self._context = context
        self._pending: deque[Callable[[], None]] = deque()
        self._last_at_s = 0.0
        self._closed = False

    def send(self, call: Callable[[], None]) -> None:
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        self._pending.append(call)
        if self._latency_s is None:
            loop.call_soon(self._arrive, context=self._context)
        else:
            self._last_at_s = max(self._last_at_s, loop.time() + self._latency_s())
            loop.call_at(self._last_at_s, self._arrive, context=self._context)

    def close(self) -> None:
        self._closed = True
        self._pending.clear()

    def _arrive(self) -> None:
        if self._pending:
            self._pending.popleft()()
