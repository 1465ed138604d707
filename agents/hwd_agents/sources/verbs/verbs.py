"""Protocols of RDMA verbs as watchers use them: a port of a device, its events, datagrams and connections."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from hwd_agents.wire import VerbsAddress

ACK_UNIT_S = 4.096e-6
"""Base of the ACK timeout of a QP, multiplied by two to the power of its attribute `timeout` (IBA 1.7, 9.7.6.1.3)."""


class PortEvent(StrEnum):
    """Asynchronous events of a port that are used here (ibv_get_async_event(3))."""

    ACTIVE = "port-active"
    """IBV_EVENT_PORT_ACTIVE."""
    ERROR = "port-error"
    """IBV_EVENT_PORT_ERR: the port is no longer active."""
    GID_CHANGE = "gid-change"
    """IBV_EVENT_GID_CHANGE: its GID table has changed."""
    SOME_PORT = "some-port"
    """A port of a device with several ports became active or inactive; pyverbs does not report which port."""
    GONE = "gone"
    """IBV_EVENT_DEVICE_FATAL, or the device can no longer be used: `why_gone` says why."""


OnEvent = Callable[[PortEvent, int], None]
"""Called with the event and the time at which it was read."""
OnDatagram = Callable[[bytes, int], None]
"""Called with the payload and the time at which its completion was read."""
OnSent = Callable[[str, int], None]
"""Called when a send has completed, with why it failed (empty: it did not) and the time of reading the completion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How a connection retries: `count` times (at most 7), each after 4.096 us * 2^`ack_timeout` without an ACK."""

    ack_timeout: int
    count: int

    @property
    def ack_timeout_s(self) -> float:
        """The time without an ACK after which a packet is sent again, in s.

        A device may take up to four times as long (IBA 1.7, 9.7.6.1.3).
        """
        return math.ldexp(ACK_UNIT_S, self.ack_timeout)


class VerbsDatagrams(Protocol):
    """A UD queue pair."""

    @property
    def address(self) -> VerbsAddress:
        """The address where others reach the queue pair."""
        ...

    @property
    def last_failure(self) -> str:
        """Why the latest send returned False; empty when none did."""
        ...

    def reaches(self, address: VerbsAddress) -> bool:
        """Whether `address` can be sent to: its link-layer address must be known before the first datagram."""
        ...

    def send(self, payload: bytes, address: VerbsAddress) -> bool:
        """Send one. False: it was not sent, `last_failure` says why."""
        ...


class VerbsConnection(Protocol):
    """An RC queue pair. It keeps its state while the link is dark; a failed send ends it."""

    @property
    def qpn(self) -> int:
        """Its number."""
        ...

    def connect(self, gid: str, qpn: int) -> bool:
        """Connect it to the peer's; False when the peer's link-layer address is not known yet. Raises LinkError."""
        ...

    def send(self, on_sent: OnSent) -> None:
        """Send a small message. Raises LinkError."""
        ...

    def close(self) -> None:
        """Close it; no callback is called after this."""
        ...


class VerbsPort(Protocol):
    """One open port of an RDMA device."""

    @property
    def datagrams(self) -> VerbsDatagrams | None:
        """Its one UD queue pair; None while its address has no GID."""
        ...

    @property
    def why_no_datagrams(self) -> str:
        """Why `datagrams` is None; else empty."""
        ...

    def connection(self, retries: Retries) -> VerbsConnection:
        """Another RC queue pair. Raises LinkError."""
        ...

    def drain(self) -> None:
        """Report the events and completions that are waiting."""
        ...

    def why_gone(self) -> str:
        """Why the port can no longer be used, such as a removed device; empty while it can."""
        ...

    def close(self) -> None:
        """Close everything: a device without hot removal waits for that before it can be removed."""
        ...


class VerbsSource(Protocol):
    """Opens ports of RDMA devices."""

    def open(self, device: str, ip: str | None, on_event: OnEvent, on_datagram: OnDatagram) -> VerbsPort:
        """Open `mlx5_0/1`; its queue pairs take the GID of `ip`. Raises LinkError with the remedy."""
        ...
