"""The protocol `Bus`, which MqttBus and MemoryBus implement; one contract suite tests both."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A received message.

    `at_ns` is the receiver's `Clock.monotonic_ns`, taken as early as the client library allows.
    """

    topic: str
    payload: bytes
    retained: bool
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Will:
    """The message that the broker publishes when this client's connection is lost."""

    topic: str
    payload: bytes
    retain: bool = True


class Bus(Protocol):
    """One client of one broker, for as long as `run` runs; it connects again by itself and subscribes again."""

    address: str

    @property
    def connected(self) -> bool: ...

    def subscribe(self, topic_filter: str, handler: Callable[[Incoming], None]) -> None:
        """Call it before or during `run`. Handlers must not block; messages of one topic come in the sender's order."""
        ...

    def on_up(self, call: Callable[[], None]) -> None:
        """Call `call` after each connect, when the broker has acknowledged all subscriptions."""
        ...

    def on_down(self, call: Callable[[str], None]) -> None:
        """Call `call` with the cause after each disconnect, once."""
        ...

    async def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None:
        """Raises LinkError when not connected, or when the connection is lost before the broker has the message.

        At QoS 1 the broker has a message when it has acknowledged it.
        """
        ...

    async def run(self) -> None:
        """Connect, serve, reconnect until cancelled."""
        ...
