"""What RDMA verbs can do for a watcher: one port of a device, its events, datagrams and connections over it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from hwd_agents.wire import VerbsAddress

ACK_UNIT_S = 4.096e-6
"""IBA 1.7, 9.7.6.1.3: the ACK timeout of a QP is this, times two to the power of its attribute `timeout`."""


class PortEvent(StrEnum):
    """Asynchronous events of a port that matter here (ibv_get_async_event(3))."""

    ACTIVE = "port-active"
    """IBV_EVENT_PORT_ACTIVE."""
    ERROR = "port-error"
    """IBV_EVENT_PORT_ERR: it is not active any more."""
    GID_CHANGE = "gid-change"
    """IBV_EVENT_GID_CHANGE: its table of GIDs is another one."""
    SOME_PORT = "some-port"
    """A port of a device with several became active or stopped being so; pyverbs does not tell which."""
    GONE = "gone"
    """IBV_EVENT_DEVICE_FATAL, or it cannot be used any more: `why_gone` says why."""


OnEvent = Callable[[PortEvent, int], None]
"""Called with the event and the time at which it was taken."""
OnDatagram = Callable[[bytes, int], None]
"""Called with the payload and the time at which its completion was taken."""
OnSent = Callable[[str, int], None]
"""Called when a send has completed: empty, or why it failed, and the time at which that was taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How a connection asks again: `count` times (7 is the most), each after an ACK has not come for 4.096 us * 2^`ack_timeout`."""

    ack_timeout: int
    count: int

    @property
    def ack_timeout_s(self) -> float:
        """The time without an ACK after which a packet is sent again; a device may take up to four times as long (IBA 1.7, 9.7.6.1.3)."""
        return math.ldexp(ACK_UNIT_S, self.ack_timeout)


class VerbsDatagrams(Protocol):
    """A UD queue pair."""

    @property
    def address(self) -> VerbsAddress:
        """Where others reach it."""
        ...

    @property
    def last_failure(self) -> str:
        """Why the latest send returned False; empty when none did."""
        ...

    def reaches(self, address: VerbsAddress) -> bool:
        """Whether the way to `address` is known: its link-layer address must be, for the first datagram to it."""
        ...

    def send(self, payload: bytes, address: VerbsAddress) -> bool:
        """Send one. False: it did not leave, `last_failure` says why."""
        ...


class VerbsConnection(Protocol):
    """An RC queue pair. It stays as it is while the link is dark; a failed send ends it."""

    @property
    def qpn(self) -> int:
        """Its number."""
        ...

    def connect(self, gid: str, qpn: int) -> bool:
        """Join it to the peer's; False where the way there is not known yet. Raises LinkError."""
        ...

    def send(self, on_sent: OnSent) -> None:
        """Send a small message. Raises LinkError."""
        ...

    def close(self) -> None:
        """Let it go; nothing is called any more."""
        ...


class VerbsPort(Protocol):
    """One open port of an RDMA device."""

    @property
    def datagrams(self) -> VerbsDatagrams | None:
        """Its one UD queue pair; None while there is no GID for its address."""
        ...

    @property
    def why_no_datagrams(self) -> str:
        """Why there is none; empty where there is."""
        ...

    def connection(self, retries: Retries) -> VerbsConnection:
        """Another RC queue pair. Raises LinkError."""
        ...

    def drain(self) -> None:
        """Tell now what events and completions have come."""
        ...

    def why_gone(self) -> str:
        """Why it is of no use any more, as its device was removed; empty where it is."""
        ...

    def close(self) -> None:
        """Give all of it back: a device without hot removal waits for that before it goes."""
        ...


class VerbsSource(Protocol):
    """Opens ports of RDMA devices."""

    def open(self, device: str, ip: str | None, on_event: OnEvent, on_datagram: OnDatagram) -> VerbsPort:
        """Open `mlx5_0/1`; its queue pairs take the GID that belongs to `ip`. Raises LinkError with what to do about it."""
        ...
