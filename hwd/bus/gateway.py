"""Gateway: the daemon's one way to the agents.

Their messages become documents on the daemon's clock; its commands go out with an expiry on theirs.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from hwd.bus.allowance import BIRTH_MOST_BYTES, Allowance
from hwd.bus.asks import Asks
from hwd.bus.clocks.clock_udp import ClockUdp
from hwd.bus.clocks.timekeeper import Timekeeper
from hwd.bus.commands import Commands
from hwd.bus.containment import Containment
from hwd.bus.host_agent import HostAgent
from hwd.bus.host_events import EventStore, HostEvents
from hwd.bus.intake import check_events
from hwd.bus.refresher import WITHIN_S as REFRESH_WITHIN_S
from hwd.bus.refresher import Refresher
from hwd.bus.rejected_messages import RejectedMessages, wrong_topic
from hwd.model.daemon import BusDown, BusUp
from hwd.model.host import HostPort, HostStatus, HostTrouble
from hwd.model.limit import Limit, Reached
from hwd.timeline.alignment import Alignment
from hwd_agents.bus.protocol import Bus, Incoming
from hwd_agents.wire import (
    Ack,
    Answer,
    AnyMessage,
    Arguments,
    Ask,
    Birth,
    ClockReply,
    Events,
    Message,
    Reply,
    State,
    client_id,
    decode,
    encode,
    topic,
)
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import ConfigError, LinkError, ProtocolError
from hwd_drivers.core.ids import Ids

log = logging.getLogger(__name__)

A = TypeVar("A", bound=msgspec.Struct)

PAYLOAD_MOST_BYTES = 1 << 20
"""256 events and their data take some 100 kB."""


def _ignore(limit: Limit, detail: str) -> None:
    """The default of `reached`: limits are not counted."""


class Gateway:
    """Runs the bus client, and everything that is sent and received with it.

    `event_store`: what the records hold of earlier events, and whether they take more; by default nothing is stored and
    everything taken. `clocks_by_udp`: measure the clocks by UDP, without the broker, where an agent can be reached so.
    `reached` is called for each limit that is reached.

    ```
    gateway = Gateway(bus=bus, testbed="lab", hosts=("h0", "h1"), clock=clock, ids=ids, sink=sink)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(gateway.run())
        reply, answer = await gateway.command("h0", Refresh(), within_s=2.0)
    ```
    """

    def __init__(
        self,
        *,
        bus: Bus,
        testbed: str,
        hosts: Sequence[str],
        clock: Clock,
        ids: Ids,
        sink: Sink,
        event_store: EventStore | None = None,
        clocks_by_udp: bool = False,
        reached: Reached = _ignore,
    ) -> None:
        self._clocks_by_udp = clocks_by_udp
        self._bus = bus
        self._testbed = testbed
        self._clock = clock
        self._ids = ids
        self._emit = Emitter(clock, sink)
        self._commands = Commands(bus=bus, testbed=testbed, clock=clock, ids=ids)
        store = event_store or EventStore()
        alignments = dict(store.alignments)
        self._hosts = {
            name: HostAgent(name, self._emit, partial(self._commands.fail, name), Allowance(name, reached), alignments)
            for name in hosts
        }
        self._deferred: dict[str, tuple[Birth, bool]] = {}  # by host: the newest birth over its allowance, and retained
        self._rejected = RejectedMessages(self._emit, hosts)
        self.containment = Containment(lambda host, task, why: self._emit(HostTrouble(host=host, task=task, why=why)))
        self._events = HostEvents(
            self._hosts,
            store=store,
            alignments=alignments,
            command=self.command,
            acknowledge=self._acknowledge,
            emit=self._emit,
            containment=self.containment,
        )
        self._refresher = Refresher(partial(self.command, within_s=REFRESH_WITHIN_S), self.containment)
        self._timekeepers = {name: self._new_timekeeper(host) for name, host in self._hosts.items()}
        self.asks = Asks(clock=clock, answer=self._answer, containment=self.containment)
        """What agents ask: call `asks.serve` for each verb."""
        self._birth_calls: list[Callable[[str], None]] = []
        for leaf, handler in (
            ("state", self._take_state),
            ("birth", self._take_birth),
            ("event", self._take_events),
            ("reply", self._take_reply),
            ("ask", self._take_ask),
        ):
            bus.subscribe(topic(testbed, "+", leaf), self._checked(leaf, handler))
        bus.on_up(self._bus_up)
        bus.on_down(self._bus_down)

    @property
    def address(self) -> str:
        return self._bus.address

    @property
    def connected(self) -> bool:
        return self._bus.connected

    def hosts(self) -> Mapping[str, HostAgent]:
        """The agents of all hosts of the testbed, whether one ever connected or not. They change while others await."""
        return self._hosts

    def status(
        self, host: str, ports: Mapping[str, HostPort], *, since_wall_ns: int | None = None, skew: str
    ) -> HostStatus:
        """The status of a host with the present state of its ports, and since when it is up or down; `skew`: why its
        version does not fit the daemon's.
        """
        agent = self._hosts[host]
        silent_ns = round(agent.silent_s(self._now_s()) * 1e9)
        return agent.status(
            ports,
            heard_wall_ns=None if agent.last_message_s is None else self._clock.wall_ns() - silent_ns,
            since_wall_ns=since_wall_ns,
            trouble=self.containment.why(host),
            skew=skew,
        )

    def refused(self, id: str, why: str) -> None:
        """The broker refused a client with this id."""
        for host in self._hosts.values():
            if id.partition(".")[0] == client_id(self._testbed, host.name):
                host.refused(why)

    def on_birth(self, call: Callable[[str], None]) -> None:
        """Call `call` with the host's name at each birth, at repeated ones too."""
        self._birth_calls.append(call)

    async def run(self) -> None:
        """Serve until cancelled; runs the bus too."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self.containment.group = tasks
                tasks.create_task(self._events.run(), name="hwd:bus/acks")
                tasks.create_task(self._bus.run(), name="hwd:bus/client")
                tasks.create_task(self._tick(), name="hwd:bus/tick")
                for name, timekeeper in self._timekeepers.items():
                    contained = self.containment.keep(name, "clock", timekeeper.run)
                    tasks.create_task(contained, name=f"hwd:{name}/clock")
        finally:
            self.containment.group = None

    async def command(
        self, host: str, arguments: Arguments[A], *, within_s: float, lease: str | None = None
    ) -> tuple[Reply, A | None]:
        """Send a command to an agent; return its reply, and what it answers where the outcome is `done`.

        The command expires on the agent's own clock within `within_s`. Raises LinkError where the host is down, not
        aligned yet, or disconnects meanwhile, DeadlineError where no reply came, ProtocolError where the reply is
        malformed, ConfigError for a host that is not in this testbed.
        """
        verb = arguments.VERB
        if (agent := self._hosts.get(host)) is None:
            raise ConfigError(f"{host}: cannot {verb}: no such host; there are {', '.join(self._hosts) or 'none'}")
        asked_ns = self._clock.monotonic_ns()
        replied = await self._commands.send(agent, arguments, within_s=within_s, lease=lease)
        if await self._timekeepers[host].check(replied, since_ns=asked_ns) and replied.outcome == "expired":
            return await self.command(host, arguments, within_s=within_s, lease=lease)  # its clock was stepped
        if replied.outcome != "done":
            return replied, None
        try:
            return replied, arguments.answer(replied.data)
        except ProtocolError as error:
            self._reject(host, topic(self._testbed, host, "reply"), f"an answer to {verb}: {error}")
            raise ProtocolError(f"{host}: {verb}: the answer of its agent makes no sense: {error}") from error

    # --- messages of the agents

    def _checked(
        self, leaf: str, handler: Callable[[HostAgent, AnyMessage, Incoming], None]
    ) -> Callable[[Incoming], None]:
        """Wrap a handler: a message that is malformed is counted and reported, and never ends the daemon."""
        is_birth = leaf == "birth"
        task = f"its {leaf} messages"

        def take(incoming: Incoming) -> None:
            name = incoming.topic.split("/")[3]
            try:
                if (host := self._hosts.get(name)) is None:
                    raise ProtocolError("no such host in this testbed")
                if incoming.retained and not incoming.payload:
                    return
                if len(incoming.payload) > PAYLOAD_MOST_BYTES:
                    size, most = len(incoming.payload), PAYLOAD_MOST_BYTES
                    raise ProtocolError(f"{size} bytes are over the limit of {most} bytes")
                if is_birth and not host.allowance.birth_of(size := len(incoming.payload)):
                    raise ProtocolError(f"a birth of {size} bytes is over the limit of {BIRTH_MOST_BYTES} bytes")
                message = decode(incoming.payload, lambda why: self._reject(name, incoming.topic, why))
                with self.containment.of(name, task):
                    try:
                        handler(host, message, incoming)
                    except ProtocolError as error:
                        self._reject(name, incoming.topic, str(error))
            except ProtocolError as error:
                self._reject(name, incoming.topic, str(error))

        return take

    def _take_state(self, host: HostAgent, message: AnyMessage, incoming: Incoming) -> None:
        if not isinstance(message, State):
            raise wrong_topic(message)
        host.take_state(message, self._now_s())
        self._promote_rival(host)

    def _take_birth(self, host: HostAgent, message: AnyMessage, incoming: Incoming) -> None:
        if not isinstance(message, Birth):
            raise wrong_topic(message)
        if (message.host, message.testbed) != (host.name, self._testbed):
            raise ProtocolError(f"the birth of {message.host} of testbed {message.testbed}")
        self._deferred.pop(host.name, None)
        if host.is_new(message.boot) and not host.allowance.boot():
            self._deferred[host.name] = message, incoming.retained
            return
        self._accept_birth(host, message, retained=incoming.retained)

    def _accept_deferred_births(self) -> None:
        for name, (birth, retained) in list(self._deferred.items()):
            if self._hosts[name].allowance.boot(quietly=True):
                del self._deferred[name]
                with self.containment.of(name, "its birth messages"):
                    self._accept_birth(self._hosts[name], birth, retained=retained)

    def _accept_birth(self, host: HostAgent, birth: Birth, *, retained: bool) -> None:
        now_s = self._now_s()
        if host.take_birth(birth, now_s, retained=retained):
            self._events.begin(host, birth, retained=retained)
        elif host.rival is not None and host.rival.asked_s == now_s:
            self._ask_alive(host)
        self._timekeepers[host.name].wake()
        for call in self._birth_calls:
            call(host.name)

    def _ask_alive(self, host: HostAgent) -> None:
        """Ask whether the current boot still runs, since another one claims to be this host."""
        self.containment.begin(host.name, "its clock", self._timekeepers[host.name].ask_alive, name="alive")

    def _promote_rival(self, host: HostAgent) -> None:
        """Make the rival of a host its current boot where that one has ended or does not answer."""
        if (rival := host.promote_rival(self._now_s(), connected=self._bus.connected)) is not None:
            self._events.begin(host, rival.birth, retained=rival.retained)
            self._timekeepers[host.name].wake()
            for call in self._birth_calls:
                call(host.name)
        elif host.rival is not None and not host.rival.refused:
            self._ask_alive(host)

    def _take_events(self, host: HostAgent, message: AnyMessage, incoming: Incoming) -> None:
        if not isinstance(message, Events):
            raise wrong_topic(message)
        check_events(message.events)
        if not host.allowance.events(len(incoming.payload)):
            return
        if message.boot == host.boot and not message.clock and not incoming.retained:  # sent by that boot itself
            host.alive(self._now_s())
            self._timekeepers[host.name].see(message.events[-1].at_ns, now_ns=incoming.at_ns)
        self._events.take(host, message)

    def _take_reply(self, host: HostAgent, message: AnyMessage, incoming: Incoming) -> None:
        match message:
            case ClockReply():
                exchange = host.exchange
                if message.boot == host.boot and exchange is not None and exchange.take(message, incoming.at_ns):
                    host.alive(self._now_s())
            case Reply():
                if self._commands.take(host.name, message):
                    host.alive(self._now_s())
            case _:
                raise wrong_topic(message)

    def _take_ask(self, host: HostAgent, message: AnyMessage, incoming: Incoming) -> None:
        if not isinstance(message, Ask):
            raise wrong_topic(message)
        if incoming.retained:
            raise ProtocolError("an ask is for the daemon that runs when it is sent: it cannot be retained")
        if message.boot == host.boot:
            host.alive(self._now_s())
        self.asks.take(host, message)

    # --- clocks

    def _new_timekeeper(self, host: HostAgent) -> Timekeeper:
        def aligned(alignment: Alignment) -> None:
            self._events.align(host, alignment)
            self._refresher.ask(host)

        reject = partial(self._reject, host.name, "udp")
        return Timekeeper(
            host,
            clock=self._clock,
            is_up=lambda: self._bus.connected,
            send=lambda request: self._send(host.name, "clock", request),
            aligned=aligned,
            emit=self._emit,
            udp=ClockUdp(clock=self._clock, ids=self._ids, reject=reject) if self._clocks_by_udp else None,
        )

    # --- connection and documents

    def _bus_up(self) -> None:
        self._emit(BusUp(address=self._bus.address))
        for host in self._hosts.values():
            host.bus_up()
        for timekeeper in self._timekeepers.values():
            timekeeper.wake()

    def _bus_down(self, cause: str) -> None:
        self._emit(BusDown(address=self._bus.address, cause=cause))
        for host in self._hosts.values():
            host.bus_down()

    async def _acknowledge(self, host: str, boot: str, upto: int) -> None:
        await self._send(host, "ack", Ack(boot=boot, seq=self._hosts[host].next_seq(boot, "ack"), upto=upto))

    async def _answer(self, host: str, answer: Answer) -> None:
        try:
            await self._bus.publish(topic(self._testbed, host, "answer"), encode(answer), qos=1)
        except LinkError as error:  # its asker gives up at its expiry
            log.debug("%s: the answer to %s: %s", host, answer.id, error)

    async def _send(self, host: str, leaf: str, message: Message) -> bool:
        """Send at QoS 0; False where the bus is down. What matters is sent again when it is up."""
        try:
            await self._bus.publish(topic(self._testbed, host, leaf), encode(message))
        except LinkError as error:
            log.debug("%s", error)
            return False
        return True

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._rejected.flush(self._clock.monotonic_ns())
            self.containment.heal()
            self._accept_deferred_births()
            for host in self._hosts.values():
                with self.containment.of(host.name, "its birth messages"):
                    host.emit_birth(quietly=True)
                    self._promote_rival(host)
                self._events.check(host)

    def _reject(self, host: str, on_topic: str, why: str) -> None:
        self._rejected.note(host, on_topic, why, self._clock.monotonic_ns())

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()
