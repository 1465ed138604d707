"""Agent: the watchers, spool and commands of one host, on one bus."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal, TypeVar

import msgspec

from hwd_agents import wire
from hwd_agents.bus.protocol import Bus, Incoming, Will
from hwd_agents.clock.clock_port import ClockPort
from hwd_agents.clock.host_clock import NAME as CLOCK
from hwd_agents.clock.host_clock import HostClock
from hwd_agents.process.command_handler import Commands
from hwd_agents.process.config import AgentConfig
from hwd_agents.process.daemon_asks import DaemonAsks
from hwd_agents.process.host_inventory import Inventory
from hwd_agents.process.seams import Seams, Storage
from hwd_agents.process.version import own_version
from hwd_agents.settings.port_settings import Settings
from hwd_agents.settings.setting_limits import SOURCE as LIMITS
from hwd_agents.settings.setting_limits import SettingLimits
from hwd_agents.sources.sources import Sources
from hwd_agents.spool.lost_events import StoredEvent
from hwd_agents.spool.outbox import Outbox
from hwd_agents.spool.spool import Spool
from hwd_agents.spool.syncer import Syncer
from hwd_agents.switches.own_switches import OwnSwitches
from hwd_agents.transfers.host_transfers import HostTransfers
from hwd_agents.transfers.port_bytes import PortBytesReader
from hwd_agents.watchers import nics
from hwd_agents.watchers.restarter import Restarter
from hwd_agents.watchers.watchers import Watchers
from hwd_drivers.core.errors import LinkError, ProtocolError
from hwd_drivers.core.reason import reason_of

DISCONNECT_WITHIN_S: Final = 1.0
"""Time limit for an agent that stops to publish its state `down`."""
GATHER_S: Final = 0.02
"""Changes of the inventory within this time make one birth message."""
PAYLOAD_MOST_BYTES: Final = 1 << 20
"""Largest message to the agent: the peers of a reconfiguration take some 200 bytes each."""
M = TypeVar("M", bound=wire.Message)
_Described = tuple[dict[str, wire.PortNote], object, list[wire.HeldSetting], dict[str, wire.SwitchNote]]

_log = logging.getLogger(__name__)


class Agent:
    """One host.

        agent = Agent(
            config,
            Seams(clock=SystemClock(), ids=RandomIds(), draws=Draws(None)),
            Storage(events=FileDisk(path), settings=FileDisk(other)),
            sources,
            bus=open_bus,
        )
        await agent.run()

    `bus` is called once, with the will of this boot. `clock_port` makes the port on which the clock is asked, from the
    key of this boot. `on_started` is called when the spool is open and the watchers have started. `run` lasts until it
    is cancelled; then it publishes `down` and closes the spool.
    """

    def __init__(
        self,
        config: AgentConfig,
        seams: Seams,
        storage: Storage,
        sources: Sources,
        *,
        bus: Callable[[Will], Bus],
        clock_port: Callable[[str], ClockPort] | None = None,
        on_started: Callable[[], None] = lambda: None,
    ) -> None:
        clock, draws, ids = seams.clock, seams.draws, seams.ids
        self._config = config
        self._clock = clock
        self._clock_name = seams.clock_name
        self._sources = sources
        self._on_started = on_started
        self.boot = ids.uuid()
        self._seqs: dict[str, int] = {}
        self.garbage = 0
        """Number of messages from the bus that could not be parsed."""
        self._birth_due = asyncio.Event()
        self._spool = Spool(
            storage.events,
            boot=self.boot,
            clock=clock,
            limit_bytes=config.spool.limit_bytes,
            clock_name=seams.clock_name,
            on_trouble=self._birth_due.set,
        )
        self._syncer = Syncer(config.spool.sync, self._spool, storage.offload)
        lost = wire.encode(wire.State(boot=self.boot, seq=0, state="lost"))
        self._bus = bus(Will(topic=self._topic("state"), payload=lost))
        self._greeted = False
        self._described: _Described = ({}, None, [], {})
        self._tasks: asyncio.TaskGroup | None = None
        self._outbox = Outbox(self._spool, is_up=self._is_up, publish=self._publish_events)
        self._watchers = Watchers(
            config,
            sources,
            clock,
            self._outbox,
            self._spool,
            phase=draws.stream(f"agent {config.host} phase"),
            on_change=self._ports_changed,
        )
        self._restarter = Restarter(
            config.host,
            self._watchers.broken,
            jitter=draws.stream(f"agent {config.host}"),
            on_change=self._birth_due.set,
        )
        self._nics = nics.Nics(config.ports, sources, busy=lambda: self._watchers.busy, on_change=self._birth_due.set)
        self._inventory = Inventory(config, sources, self._watchers, self._nics, self._spool)
        self._settings = Settings(
            config.ports,
            sources.settings,
            storage.settings,
            clock=clock,
            life=sources.life,
            on_change=self._ports_changed,
            way=sources.way,
        )
        self._limits = SettingLimits(self._settings, clock, self._outbox.emit, origin=config.origin)
        self._own_switches = OwnSwitches(
            config,
            self.boot,
            self._watchers.link,
            self._spool,
            seams,
            emit=self._outbox.emit,
            spawn=self._spawn,
            on_change=self._birth_due.set,
        )
        self._asks = DaemonAsks(
            host=config.host,
            boot=self.boot,
            clock=clock,
            is_up=self._is_up,
            publish=lambda payload: self._bus.publish(self._topic("ask"), payload, qos=1),
            spawn=self._spawn,
        )
        self._transfers = HostTransfers(
            config.transfers,
            self._asks,
            host=config.host,
            boot=self.boot,
            clock=clock,
            ports=config.ports,
            counted=PortBytesReader(
                clock,
                {name: port.interface for name, port in config.ports.items()},
                sources.bytes,
                sources.ip_counters,
            ).read,
            acceptor=seams.dialer,
            ids=ids,
            spawn=self._spawn,
        )
        self._host_clock = HostClock(
            config.host,
            clock,
            port=None if clock_port is None else clock_port(ids.token(length=32)),
            walls=sources.walls,
            reply=lambda reply: self._bus.publish(self._topic("reply"), wire.encode(reply)),
            on_change=self._birth_due.set,
        )
        self._commands = Commands(
            config,
            self.boot,
            clock,
            self._watchers,
            self._outbox,
            self._spool,
            self._settings,
            more={**self._own_switches.verbs, **self._transfers.verbs},
        )

    @property
    def waiting(self) -> bool:
        """Whether some events are not acknowledged by the daemon."""
        return self._spool.oldest_seq < self._spool.next_seq

    async def run(self) -> None:
        """Run until cancelled."""
        self._subscribe("clock", wire.ClockRequest, self._on_clock)
        self._subscribe("command", wire.Command, self._on_command)
        self._subscribe("ack", wire.Ack, self._on_ack)
        self._subscribe("answer", wire.Answer, lambda answer, incoming: self._asks.take(answer))
        self._bus.on_up(lambda: self._spawn(self._publish_after_connect(), "connect"))
        self._bus.on_down(self._on_down)
        host = self._config.host
        async with asyncio.TaskGroup() as outer:
            bus = outer.create_task(self._bus.run(), name=f"hwd:{host}/bus")
            try:
                async with asyncio.TaskGroup() as tasks:
                    self._tasks = tasks
                    if self._sources.background is not None:
                        background = self._sources.background(self._sources_changed)
                        tasks.create_task(background, name=f"hwd:{host}/sources")
                    tasks.create_task(self._outbox.run(), name=f"hwd:{host}/outbox")
                    tasks.create_task(self._syncer.run(), name=f"hwd:{host}/sync")
                    tasks.create_task(self._publish_changes(), name=f"hwd:{host}/birth")
                    for what, run in [
                        *self._watchers.runs(),
                        (nics.NAME, self._nics.run),
                        (LIMITS, self._limits.run),
                        (CLOCK, self._host_clock.run),
                        *self._own_switches.runs(),
                        *self._transfers.runs(),
                    ]:
                        tasks.create_task(self._restarter.keep(what, run), name=f"hwd:{host}/{what}")
                    self._on_started()
            finally:
                self._tasks = None
                self._commands.close()
                self._host_clock.close()
                self._spool.close()
                self._settings.close()
                if self._sources.bytes is not None:
                    self._sources.bytes.close()
                await self._publish_stop()
                bus.cancel()

    def _sources_changed(self) -> None:
        self._watchers.hurry()
        self._ports_changed()

    def _ports_changed(self) -> None:
        self._nics.hurry()
        self._birth_due.set()

    def _is_up(self) -> bool:
        return self._greeted and self._bus.connected

    def _on_down(self, cause: str) -> None:
        self._greeted = False
        self._asks.lost(cause)

    async def _publish_after_connect(self) -> None:
        """First messages on a new connection: the birth message, before any events."""
        try:
            await self._publish_state("up")
            await self._host_clock.listen_towards_broker()
            await self._publish_birth()
        except LinkError as error:
            _log.debug("%s: greeting: %s", self._config.host, error)
            return
        self._greeted = True
        self._outbox.go()

    async def _publish_changes(self) -> None:
        """Publish another birth message whenever the inventory has changed."""
        while True:
            await self._birth_due.wait()
            await asyncio.sleep(GATHER_S)
            self._birth_due.clear()
            if not self._is_up() or (self._describe() == self._described and not self._host_clock.news):
                continue  # the next connect publishes one anyway
            try:
                await self._publish_birth()
            except LinkError as error:
                _log.debug("%s: birth: %s", self._config.host, error)

    async def _publish_stop(self) -> None:
        if not self._bus.connected:
            return
        try:
            async with asyncio.timeout(DISCONNECT_WITHIN_S):
                await self._publish_state("down")
        except (LinkError, TimeoutError) as error:
            _log.warning("%s: could not publish that the agent stops: %s", self._config.host, reason_of(error))

    def _subscribe(self, leaf: str, kind: type[M], handler: Callable[[M, Incoming], None]) -> None:
        """Handle the messages of a topic, and count those of another kind; no message ends the agent."""

        def take(incoming: Incoming) -> None:
            try:
                message = self._decode(incoming)
                if isinstance(message, kind):
                    handler(message, incoming)
                elif message is not None:
                    self.garbage += 1
            except Exception:  # noqa: BLE001 - the supervisor of messages from the broker
                self.garbage += 1
                _log.exception("%s: a message on %s failed, which is a bug of hwd", self._config.host, incoming.topic)

        self._bus.subscribe(self._topic(leaf), take)

    def _on_clock(self, request: wire.ClockRequest, incoming: Incoming) -> None:
        if request.boot == self.boot:
            self._spawn(self._host_clock.answer(request, incoming.at_ns), "clock")

    def _on_ack(self, ack: wire.Ack, incoming: Incoming) -> None:
        # without tasks the spool is closed: the next process publishes again
        if self._tasks is not None and not self._outbox.ack(ack):
            self.garbage += 1

    def _on_command(self, command: wire.Command, incoming: Incoming) -> None:
        if incoming.retained:  # commands are for present subscribers
            self.garbage += 1
        else:
            self._spawn(self._do(command), f"command-{command.verb}")

    async def _do(self, command: wire.Command) -> None:
        outcome = await self._commands.do(command)
        reply = wire.Reply(
            boot=self.boot,
            seq=self._next("reply"),
            id=command.id,
            outcome=outcome.outcome,
            why=wire.clipped(outcome.why),
            data=wire.clipped(outcome.data),
            at_ns=self._clock.monotonic_ns(),
        )
        # Only our own reply topic, whatever `reply_to` says: nobody may make us publish on another one.
        if command.reply_to != self._topic("reply"):
            _log.debug("%s: command %s asks for its reply on %s", self._config.host, command.id, command.reply_to)
        try:
            await self._bus.publish(self._topic("reply"), wire.encode(reply), qos=1)
        except LinkError as error:
            _log.debug("%s: reply to %s: %s", self._config.host, command.id, error)

    def _decode(self, incoming: Incoming) -> wire.AnyMessage | None:
        try:
            if (size := len(incoming.payload)) > PAYLOAD_MOST_BYTES:
                raise ProtocolError(f"{size} bytes are over the limit of {PAYLOAD_MOST_BYTES} bytes")
            return wire.decode(incoming.payload)
        except ProtocolError as error:
            self.garbage += 1
            _log.debug("%s: %s: %s", self._config.host, incoming.topic, error)
            return None

    def _spawn(self, coro: Coroutine[Any, Any, None], what: str) -> None:
        if self._tasks is None:  # not started yet, or stopping
            coro.close()
            return
        try:
            self._tasks.create_task(coro, name=f"hwd:{self._config.host}/{what}")
        except RuntimeError as error:  # a group that is being cancelled accepts no task
            _log.debug("%s: %s is not begun: %s", self._config.host, what, error)
            coro.close()

    async def _publish_events(self, boot: str, events: list[StoredEvent]) -> None:
        clock = "" if boot == self.boot else self._spool.clock_of(boot)
        raws = [msgspec.Raw(stored.raw) for stored in events]
        message = wire.EncodedEvents(boot=boot, seq=self._next("events"), events=raws, clock=clock)
        await self._bus.publish(self._topic("event"), wire.encode(message), qos=1)

    async def _publish_state(self, state: Literal["up", "down"]) -> None:
        message = wire.State(boot=self.boot, seq=self._next("state"), state=state)
        await self._bus.publish(self._topic("state"), wire.encode(message), qos=1, retain=True)

    def _describe(self) -> _Described:
        """The parts of a birth message whose change is worth another one."""
        notes = {port: self._watchers.note(port) for port in self._config.ports}
        switches = self._own_switches.notes()
        return notes, self._inventory.news(), list(self._settings.held), switches

    async def _publish_birth(self) -> None:
        self._described = self._describe()
        message = wire.Birth(
            boot=self.boot,
            seq=self._next("birth"),
            host=self._config.host,
            testbed=self._config.testbed,
            version=own_version(),
            at_ns=self._clock.monotonic_ns(),
            ports=self._described[0],
            inventory=self._inventory.read(garbage=self.garbage + self._host_clock.refused),
            spool_oldest_seq=self._spool.oldest_seq,
            spool_next_seq=self._spool.next_seq,
            spool_lost=self._spool.lost,
            settings=self._described[2],
            clock=self._clock_name,
            clocks=self._host_clock.tell(),
            switches=self._described[3],
        )
        await self._bus.publish(self._topic("birth"), wire.encode(message), qos=1, retain=True)

    def _next(self, kind: str) -> int:
        self._seqs[kind] = self._seqs.get(kind, 0) + 1
        return self._seqs[kind]

    def _topic(self, leaf: str) -> str:
        return wire.topic(self._config.testbed, self._config.host, leaf)
