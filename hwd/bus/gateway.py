"""Gateway: the daemon's one way to the agents.

Their messages become documents on the daemon's clock; its commands go out with an expiry on theirs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from hwd.bus.acks import Acks
from hwd.bus.allowance import BIRTH_MOST_BYTES, Allowance
from hwd.bus.clocks.clock_udp import ClockUdp
from hwd.bus.clocks.timekeeper import Timekeeper
from hwd.bus.commands import Commands
from hwd.bus.containment import Containment
from hwd.bus.event import event_data
from hwd.bus.gaps import WITHIN_S as RESEND_WITHIN_S
from hwd.bus.gaps import Gaps
from hwd.bus.garbage import Garbage, misplaced
from hwd.bus.host import Host, HostView
from hwd.bus.intake import Intake, check_events
from hwd.bus.refresher import WITHIN_S as REFRESH_WITHIN_S
from hwd.bus.refresher import Refresher
from hwd.model.limit import Limit, Reached
from hwd.timeline.alignment import Alignment
from hwd_agents.bus.protocol import Bus, Incoming
from hwd_agents.wire import (
    Ack,
    AnyMessage,
    Birth,
    ClockReply,
    Command,
    Event,
    Events,
    Message,
    Reply,
    State,
    checked_answer,
    client_id,
    decode,
    encode,
    topic,
)
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Json, Sink
from hwd_drivers.core.errors import ConfigError, DeadlineError, LinkError, ProtocolError
from hwd_drivers.core.ids import Ids

log = logging.getLogger(__name__)

PAYLOAD_MOST_BYTES = 1 << 20
"""256 events and their data take some 100 kB."""
UNALIGNED_S = 10.0
"""Events of a boot that is not the present one, and whose clock nobody knows, wait so long for its birth, or for the
records."""
UNALIGNED_KEPT_S = 60.0
"""So long is known that they were let go: twice the patience of an agent that was not told."""
UNALIGNED_BOOTS_MOST, SAME_CLOCK_BOOTS_MOST = 4, 256
"""A host's boots whose clock was never asked; with the present one's clock they are soon done with. Events of more are
garbage, and sent again later."""
SEEN_BOOTS_MOST = 1024
"""Past boots of a host of which it is known how far their events were taken: 4 times what a spool may hold. Of older
ones, what came again would be new."""


def _nobody(limit: Limit, detail: str) -> None:
    """Who does not count limits."""


class Gateway:
    """Runs the bus and everything that goes over it.

    `known` (by boot) and `seen` (by host and boot) are what the records hold of earlier lives of the daemon:
    alignments, and how far the events were taken, the oldest boot first. An acknowledgement goes out after the sink
    took the events and after `durable`, where that is given. While `full`, the sink gets no events: they wait here and
    in the spools of the agents. `clocks_by_udp`: ask for the time past the broker where an agent can be. `reached`
    hears of limits.

    ```
    gateway = Gateway(bus=bus, testbed="lab", hosts=("h0", "h1"), clock=clock, ids=ids, sink=sink)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(gateway.run())
        reply = await gateway.command("h0", "refresh", {}, within_s=2.0)
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
        known: Mapping[str, Alignment] | None = None,
        seen: Mapping[tuple[str, str], int] | None = None,
        durable: Callable[[], Awaitable[None]] | None = None,
        full: Callable[[], bool] = lambda: False,
        clocks_by_udp: bool = False,
        reached: Reached = _nobody,
    ) -> None:
        self._clocks_by_udp = clocks_by_udp
        self._bus = bus
        self._testbed = testbed
        self._clock = clock
        self._ids = ids
        self._sink = sink
        self._known = dict(known or {})
        self._seen: dict[str, dict[str, int]] = {name: {} for name in hosts}  # by boot: the oldest first
        for (name, boot), upto in (seen or {}).items():
            self._seen.setdefault(name, {})[boot] = upto
        self._full = full
        self._commands = Commands()
        self._hosts = {
            name: Host(name, self._tell, partial(self._commands.fail, name), Allowance(name, reached)) for name in hosts
        }
        self._deferred: dict[
            str, tuple[Birth, bool]
        ] = {}  # by host: the newest that may not begin yet, and if retained
        self._garbage = Garbage(self._tell_garbage, hosts)
        self.containment = Containment(self._tell_trouble)
        self._refresher = Refresher(
            lambda host, verb, data: self.command(host, verb, data, within_s=REFRESH_WITHIN_S),
            contain=self.containment.of,
        )
        self._gaps = Gaps(
            lambda host, verb, data: self.command(host, verb, data, within_s=RESEND_WITHIN_S),
            full=full,
            lost=self._missing,
            pass_on=self._pass_on,
            contain=self.containment.of,
        )
        self._acks = Acks(durable=durable, send=self._acknowledge)
        self._timekeepers = {name: self._new_timekeeper(host) for name, host in self._hosts.items()}
        self._tasks: asyncio.TaskGroup | None = None
        self._birth_calls: list[Callable[[str], None]] = []
        for leaf, handler in (
            ("state", self._take_state),
            ("birth", self._take_birth),
            ("event", self._take_events),
            ("reply", self._take_reply),
        ):
            bus.subscribe(topic(testbed, "+", leaf), self._checked(leaf, handler))
        bus.on_up(self._bus_up)
        bus.on_down(self._bus_down)

    @property
    def connected(self) -> bool:
        """Whether there is a broker."""
        return self._bus.connected

    def hosts(self) -> Mapping[str, HostView]:
        """All hosts of the testbed, heard of or not, each as it is when it is looked at."""
        return _Views(self._hosts, self._view)

    def refused(self, id: str, why: str) -> None:
        """The broker refused a client of this id."""
        for host in self._hosts.values():
            if id.partition(".")[0] == client_id(self._testbed, host.name):
                host.refused(why)

    def on_birth(self, call: Callable[[str], None]) -> None:
        """Call with the host's name at each birth, the repeated ones too."""
        self._birth_calls.append(call)

    async def run(self) -> None:
        """Serve until cancelled; runs the bus too."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                tasks.create_task(self._bus.run(), name="hwd:bus/client")
                tasks.create_task(self._acks.run(), name="hwd:bus/acks")
                tasks.create_task(self._tick(), name="hwd:bus/tick")
                for name, timekeeper in self._timekeepers.items():
                    kept = self.containment.keep(name, "clock", timekeeper.run)
                    tasks.create_task(kept, name=f"hwd:{name}/clock")
        finally:
            self._tasks = None

    async def command(
        self, host: str, verb: str, arguments: dict[str, Any], *, within_s: float, lease: str | None = None
    ) -> Reply:
        """Ask an agent, and return what it answers.

        Where that is `done`, its data has the fields of `hwd_agents.wire.answers`, and no others.

        The command expires on the agent's own clock within `within_s`. Raises LinkError where the host is down, not
        aligned yet, or lost meanwhile, DeadlineError where no answer came, ProtocolError where it makes no sense,
        ConfigError for a host that is not of this testbed.
        """
        known = self._hosts.get(host)
        if known is None:
            raise ConfigError(f"{host}: cannot {verb}: no such host; there are {', '.join(self._hosts) or 'none'}")
        alignment = None if known.boot is None else self._known.get(known.boot)
        if known.boot is None or not known.up:
            raise LinkError(f"{host}: cannot {verb}: {known.why_down}")
        if alignment is None:
            raise LinkError(f"{host}: cannot {verb}: its clock is not aligned yet, so no expiry can be given")
        asked_ns = self._clock.monotonic_ns()
        expires_ns, error_ns = alignment.to_agent(asked_ns + round(within_s * 1e9))
        id = self._ids.uuid()
        command = Command(
            boot=known.boot,
            seq=known.next_seq(known.boot, "command"),
            id=id,
            reply_to=topic(self._testbed, host, "reply"),
            expires_at_ns=expires_ns - error_ns,
            verb=verb,
            lease=lease,
            arguments=arguments,
        )
        try:
            with self._commands.waiting(id, host=host, boot=known.boot) as reply:
                async with asyncio.timeout(within_s):
                    await self._bus.publish(topic(self._testbed, host, "command"), encode(command), qos=1)
                    answer = await reply
        except TimeoutError as error:
            raise DeadlineError(f"{host}: {verb}: its agent did not answer within {within_s} s") from error
        if await self._timekeepers[host].check(answer, since_ns=asked_ns) and answer.outcome == "expired":
            return await self.command(host, verb, arguments, within_s=within_s, lease=lease)  # by a clock that was set
        return self._checked_answer(host, verb, answer)

    def _checked_answer(self, host: str, verb: str, answer: Reply) -> Reply:
        if answer.outcome != "done":
            return answer
        try:
            return msgspec.structs.replace(answer, data=checked_answer(verb, answer.data))
        except ProtocolError as error:
            self._note_garbage(host, topic(self._testbed, host, "reply"), f"an answer to {verb}: {error}")
            raise ProtocolError(f"{host}: {verb}: the answer of its agent makes no sense: {error}") from error

    # --- messages of the agents

    def _checked(self, leaf: str, handler: Callable[[Host, AnyMessage, Incoming], None]) -> Callable[[Incoming], None]:
        """Whatever comes, from whomever, is taken or counted; it is never an error of ours."""
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
                message = decode(incoming.payload, lambda why: self._note_garbage(name, incoming.topic, why))
                with self.containment.of(name, task):
                    try:
                        handler(host, message, incoming)
                    except ProtocolError as error:
                        self._note_garbage(name, incoming.topic, str(error))
            except ProtocolError as error:
                self._note_garbage(name, incoming.topic, str(error))

        return take

    def _take_state(self, host: Host, message: AnyMessage, incoming: Incoming) -> None:
        if not isinstance(message, State):
            raise misplaced(message)
        host.take_state(message, self._now_s())
        self._succeed(host)

    def _take_birth(self, host: Host, message: AnyMessage, incoming: Incoming) -> None:
        if not isinstance(message, Birth):
            raise misplaced(message)
        if (message.host, message.testbed) != (host.name, self._testbed):
            raise ProtocolError(f"the birth of {message.host} of testbed {message.testbed}")
        self._deferred.pop(host.name, None)
        if host.is_new(message.boot) and not host.allowance.boot():
            self._deferred[host.name] = message, incoming.retained
            return
        self._bear(host, message, retained=incoming.retained)

    def _bear_deferred(self) -> None:
        for name, (birth, retained) in list(self._deferred.items()):
            if self._hosts[name].allowance.boot(quietly=True):
                del self._deferred[name]
                with self.containment.of(name, "its birth messages"):
                    self._bear(self._hosts[name], birth, retained=retained)

    def _bear(self, host: Host, birth: Birth, *, retained: bool) -> None:
        now_s = self._now_s()
        if host.take_birth(birth, now_s, retained=retained):
            self._began(host, birth, retained=retained)
        elif host.rival is not None and host.rival.asked_s == now_s:
            self._ask_alive(host)
        self._timekeepers[host.name].wake()
        for call in self._birth_calls:
            call(host.name)

    def _began(self, host: Host, birth: Birth, *, retained: bool) -> None:
        self._intake(host, birth.boot, birth.clock).begin(birth.spool_oldest_seq, as_of_then=retained)
        self._pass_on(host, birth.boot)

    def _ask_alive(self, host: Host) -> None:
        """Whether the boot that lives still does, since another one says that it is this host."""

        async def ask() -> None:
            with self.containment.of(host.name, "its clock"):
                await self._timekeepers[host.name].ask_alive()

        if self._tasks is not None:
            self._tasks.create_task(ask(), name=f"hwd:{host.name}/alive")

    def _succeed(self, host: Host) -> None:
        """Let the rival of a host take its place, where its time has come."""
        if (rival := host.successor(self._now_s(), connected=self._bus.connected)) is not None:
            self._began(host, rival.birth, retained=rival.retained)
            self._timekeepers[host.name].wake()
            for call in self._birth_calls:
                call(host.name)
        elif host.rival is not None and not host.rival.refused:
            self._ask_alive(host)

    def _take_events(self, host: Host, message: AnyMessage, incoming: Incoming) -> None:
        if not isinstance(message, Events):
            raise misplaced(message)
        check_events(message.events)
        if not host.allowance.events(len(incoming.payload)):
            return
        if message.boot == host.boot and not message.clock and not incoming.retained:  # said by that boot itself
            host.alive(self._now_s())
            self._timekeepers[host.name].see(message.events[-1].at_ns, now_ns=incoming.at_ns)
        if message.boot not in host.intakes and not self._may_begin(host, message.boot, message.clock):
            return
        self._intake(host, message.boot, message.clock).take(message.events)
        self._pass_on(host, message.boot)

    def _take_reply(self, host: Host, message: AnyMessage, incoming: Incoming) -> None:
        match message:
            case ClockReply():
                if (
                    message.boot == host.boot
                    and host.exchange is not None
                    and host.exchange.take(message, incoming.at_ns)
                ):
                    host.alive(self._now_s())
            case Reply():
                if self._commands.answer(host.name, message):
                    host.alive(self._now_s())
            case _:
                raise misplaced(message)

    # --- events

    def _may_begin(self, host: Host, boot: str, clock: str) -> bool:
        """Whether the events of one more boot are taken now: whoever sends can make up boots.

        Raises ProtocolError where too many wait for a clock.
        """
        strangers = [each for each in (*host.intakes, boot) if each != host.boot and each not in self._known]
        most = SAME_CLOCK_BOOTS_MOST if host.has_clock(clock) else UNALIGNED_BOOTS_MOST
        if boot in strangers and len(strangers) > most:
            raise ProtocolError(f"events of more than {most} boots whose clock was never aligned")
        heard_of = boot in self._known or boot in self._seen[host.name] or not host.is_new(boot)
        return heard_of or host.allowance.unborn()

    def _intake(self, host: Host, boot: str, clock: str) -> Intake:
        if boot not in host.intakes:
            host.intakes[boot] = Intake(self._now_s())
            if (held := self._seen[host.name].get(boot)) is not None:
                host.intakes[boot].begin(held + 1)
        host.intakes[boot].clock = clock or host.intakes[boot].clock
        return host.intakes[boot]

    def _alignment(self, host: Host, boot: str) -> Alignment | None:
        if boot not in self._known and host.boot is not None and host.same_clock(boot):
            boot = host.boot
        return self._known.get(boot)

    def _pass_on(self, host: Host, boot: str) -> None:
        """Give the sink the events that are in order and on our clock, acknowledge them, and ask for missing ones."""
        if self._full():
            return
        intake = host.intakes[boot]
        alignment = self._alignment(host, boot)
        if alignment is not None and (events := intake.ready()):
            host.losses.passed(boot, events[0].seq, events[-1].seq)
            left = iter(events)
            for event in left:
                failed: Event | None = event
                with self.containment.of(host.name, "its events"):  # where one fails, those behind it come next
                    for failed in chain((event,), left):
                        self._tell_event(host, boot, failed, alignment)
                    failed = None
                if failed is not None:  # it is acknowledged with those behind it
                    self._tell_lost(host, boot, 1, f"the daemon failed on event {failed.seq}; its log says why")
        if (upto := intake.owed()) is not None:
            self._acks.owe(host.name, boot, upto)
        if self._tasks is not None:
            self._gaps.fill(host, boot, self._tasks)

    def _let_go(self, host: Host, boot: str) -> None:
        """Of a past boot: give up what nobody will ever put on our clock; forget it when all is in and acknowledged."""
        intake = host.intakes[boot]
        age_s = self._now_s() - intake.since_s
        aligned = self._alignment(host, boot) is not None
        hopeless = not aligned and not host.same_clock(boot)
        if hopeless and age_s >= UNALIGNED_S and not self._full() and (gone := intake.drop()) is not None:
            why = "they come from a boot whose clock was never aligned"
            self._tell_lost(host, boot, host.losses.missed(boot, *gone), why)
            self._pass_on(host, boot)
        busy = intake.held or self._acks.owes(host.name, boot) or self._gaps.filling(host, boot)
        if not busy and (aligned or age_s >= UNALIGNED_KEPT_S):
            if aligned:
                self._see(host.name, boot, intake.upto)
            host.forget(boot)

    def _see(self, host: str, boot: str, upto: int) -> None:
        """The events of a past boot were taken so far."""
        seen = self._seen[host]
        seen.pop(boot, None)
        seen[boot] = upto
        if len(seen) > SEEN_BOOTS_MOST:
            del seen[next(iter(seen))]

    def _tell_event(self, host: Host, boot: str, event: Event, alignment: Alignment) -> None:
        self._emit("host.event", event_data(host.name, boot, event, alignment, past=boot != host.boot))
        if boot == host.boot and event.kind in ("carrier", "interface", "rdma"):
            host.event(event)
        if event.kind == "lost":
            self._tell_lost(host, boot, host.losses.told(event.data), str(event.data.get("why", "the spool was full")))
        elif unseen := event.data.get("unseen"):
            self._tell_lost(host, boot, unseen, "flaps that nobody saw one by one")

    def _missing(self, host: Host, boot: str, first: int, last: int) -> None:
        self._tell_lost(host, boot, host.losses.missed(boot, first, last), "asked for again, and they did not come")

    async def _acknowledge(self, host: str, boot: str, upto: int) -> None:
        await self._send(host, "ack", Ack(boot=boot, seq=self._hosts[host].next_seq(boot, "ack"), upto=upto))

    # --- clocks

    def _new_timekeeper(self, host: Host) -> Timekeeper:
        def aligned(alignment: Alignment) -> None:
            self._known[alignment.boot] = alignment
            for boot in list(host.intakes):
                self._pass_on(host, boot)
            if self._tasks is not None:
                self._refresher.ask(host, self._tasks)

        def garbage(why: str) -> None:
            self._note_garbage(host.name, "udp", why)

        return Timekeeper(
            host,
            clock=self._clock,
            is_up=lambda: self._bus.connected,
            send=lambda request: self._send(host.name, "clock", request),
            aligned=aligned,
            tell=self._tell,
            udp=ClockUdp(clock=self._clock, ids=self._ids, garbage=garbage) if self._clocks_by_udp else None,
        )

    # --- the rest

    def _view(self, host: Host) -> HostView:
        alignment = None if host.boot is None else self._known.get(host.boot)
        heard_ns = None if host.heard_s is None else self._clock.wall_ns() - round(host.silent_s(self._now_s()) * 1e9)
        return HostView(
            host=host.name,
            boot=host.boot,
            up=host.up,
            cause=host.cause,
            heard_wall_ns=heard_ns,
            birth=host.birth,
            alignment=alignment,
            asked={} if host.exchange is None else host.exchange.to_data(),
            lost=host.lost,
            trouble=self.containment.why(host.name),
            rival=None if host.rival is None else host.rival.birth.boot,
        )

    def _bus_up(self) -> None:
        self._tell("bus.up", address=self._bus.address)
        for host in self._hosts.values():
            host.bus_up()
        for timekeeper in self._timekeepers.values():
            timekeeper.wake()

    def _bus_down(self, cause: str) -> None:
        self._tell("bus.down", address=self._bus.address, cause=cause)
        for host in self._hosts.values():
            host.bus_down()

    async def _send(self, host: str, leaf: str, message: Message) -> bool:
        """At QoS 0; False where the bus is down: what matters is sent again when it is up."""
        try:
            await self._bus.publish(topic(self._testbed, host, leaf), encode(message))
        except LinkError as error:
            log.debug("%s", error)
            return False
        return True

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._garbage.flush(self._clock.monotonic_ns())
            self.containment.heal()
            self._bear_deferred()
            for host in self._hosts.values():
                with self.containment.of(host.name, "its birth messages"):
                    host.tell_birth(quietly=True)
                    self._succeed(host)
                for boot in list(host.intakes):
                    with self.containment.of(host.name, "its events"):
                        self._pass_on(host, boot)
                        if host.past(boot):
                            self._let_go(host, boot)

    def _tell_lost(self, host: Host, boot: str, count: int, why: str) -> None:
        if count and not host.lost:  # the first only: each has its document
            log.warning(
                "%s: %d events lost: %s. `hwd watch --kind host.lost --after 0` lists them", host.name, count, why
            )
        host.lost += count
        if count:
            self._tell("host.lost", host=host.name, boot=boot, count=count, why=why)

    def _note_garbage(self, host: str, garbage_topic: str, why: str) -> None:
        self._garbage.note(host, garbage_topic, why, self._clock.monotonic_ns())

    def _tell_trouble(self, host: str, task: str, why: str) -> None:
        self._tell("host.trouble", host=host, task=task, why=why)

    def _tell_garbage(self, host: str, garbage_topic: str, why: str, count: int) -> None:
        self._tell("host.garbage", host=host, topic=garbage_topic, why=why, count=count)

    def _tell(self, kind: str, **data: Json) -> None:
        self._emit(kind, data)

    def _emit(self, kind: str, data: dict[str, Json]) -> None:
        self._sink(Document(kind=kind, at_ns=self._clock.monotonic_ns(), wall_ns=self._clock.wall_ns(), data=data))

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()


class _Views(Mapping[str, HostView]):
    """Most who ask for the hosts want one of them: the others are not looked at."""

    def __init__(self, hosts: Mapping[str, Host], view: Callable[[Host], HostView]) -> None:
        self._hosts = hosts
        self._view = view

    def __getitem__(self, name: str) -> HostView:
        return self._view(self._hosts[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)
