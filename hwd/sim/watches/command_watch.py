"""Watches the commands that reach agents late: the bus of each is tapped."""

import contextlib
from collections.abc import Callable

from hwd.sim.watches.sight import Sight
from hwd_agents.bus.protocol import Bus, Incoming
from hwd_agents.wire import Command, Reply
from hwd_agents.wire.messages import decode
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ProtocolError

ACTS: tuple[str, ...] = ("set", "put-back", "delegate")
"""Verbs of commands that change something at a host."""


class CommandWatch:
    """Holds `late-command-refused`."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._late: dict[str, str] = {}

    def tap(self, bus: Bus, node: str, clock: Clock) -> Bus:
        """The bus of an agent, with a look at the commands that come late."""
        return _TappedBus(bus, clock, self) if node.startswith("agent ") else bus

    def command_came(self, incoming: Incoming, clock: Clock) -> None:
        with contextlib.suppress(ProtocolError):  # the agent answers for what cannot be read
            match decode(incoming.payload):
                case Command(id=id, verb=verb, expires_at_ns=expires) if clock.monotonic_ns() > expires:
                    self._late[id] = verb

    def replied(self, payload: bytes) -> None:
        with contextlib.suppress(ProtocolError):
            match decode(payload):
                case Reply(id=id, outcome="done") if self._late.get(id) in ACTS:
                    self._sight.breach(
                        "late-command-refused", f"{self._late[id]} ({id}) came after its expiry, and was done"
                    )


class _TappedBus:
    """A bus that passes all on; the watch sees what comes and goes."""

    def __init__(self, bus: Bus, clock: Clock, watch: CommandWatch) -> None:
        self.address = bus.address
        self._bus = bus
        self._clock = clock
        self._watch = watch

    @property
    def connected(self) -> bool:
        return self._bus.connected

    def subscribe(self, topic_filter: str, handler: Callable[[Incoming], None]) -> None:
        def receive(incoming: Incoming) -> None:
            if incoming.topic.endswith("/command"):
                self._watch.command_came(incoming, self._clock)
            handler(incoming)

        self._bus.subscribe(topic_filter, receive)

    def on_up(self, call: Callable[[], None]) -> None:
        self._bus.on_up(call)

    def on_down(self, call: Callable[[str], None]) -> None:
        self._bus.on_down(call)

    async def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None:
        if topic.endswith("/reply"):
            self._watch.replied(payload)
        await self._bus.publish(topic, payload, qos=qos, retain=retain)

    async def run(self) -> None:
        await self._bus.run()
