"""ClockPort: the UDP port on which the daemon asks for this host's time."""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

from hwd_agents.clock import datagram as clock_wire
from hwd_agents.clock.stamped_socket import Address, ClockSocket
from hwd_agents.wire import ClockUdp
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError, ProtocolError
from hwd_drivers.core.reason import reason_of

BROKER_WITHIN_S: Final = 5.0
"""Longest wait for a name server's answer about the broker."""

_log = logging.getLogger(__name__)


class ClockPort:
    """One port, at the address of this host that leads to the broker: there the daemon can most likely reach it.

    `key`: of this boot. `broker`: host and port, None when it is on this machine; may raise HwdError. `number`: the
    port; 0 takes a free one and keeps it. A datagram without the key is counted and not answered.
    """

    def __init__(
        self, clock: Clock, *, key: str, broker: Callable[[], tuple[str, int] | None], number: int = 0
    ) -> None:
        self._clock = clock
        self._key = key
        self._broker = broker
        self._number = number
        self._socket: ClockSocket | None = None
        self._before: tuple[bytes, int] | None = None
        self.udp: ClockUdp | None = None
        """The address on which it listens."""
        self.why_not = "the broker was not reached yet"
        """Why the clock cannot be asked; empty when it can."""
        self.refused = 0
        """Datagrams without a valid key."""

    async def listen_towards_broker(self) -> None:
        """Listen at the address that leads to the broker now."""
        try:
            async with asyncio.timeout(BROKER_WITHIN_S):
                family, address = await _way_to(self._broker())
        except TimeoutError:
            self._shut(f"no name server answered within {BROKER_WITHIN_S:g} s where the broker is")
        except (HwdError, OSError) as error:
            self._shut(f"no way to the broker is known: {reason_of(error)}")
        else:
            if self.udp is None or self.udp.address != address:
                self._listen(family, address)

    def close(self) -> None:
        """Stop answering."""
        self._shut("the agent has ended")

    def _listen(self, family: int, address: str) -> None:
        self._shut("")
        opened = socket.socket(family, socket.SOCK_DGRAM)
        opened.setblocking(False)
        try:
            opened.bind((address, self._number))
        except OSError as error:
            opened.close()
            self._shut(f"cannot listen at {address} port {self._number}: {error.strerror}")
            return
        self._socket = ClockSocket(opened, self._clock, self._take)
        self._number = self._socket.address[1]
        self.udp = ClockUdp(address=address, port=self._number, key=self._key)

    def _shut(self, why: str) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = self.udp = self._before = None
        self.why_not = why

    def _take(self, payload: bytes, address: Address, at_ns: int) -> None:
        try:
            request = clock_wire.decode(payload, self._key)
        except ProtocolError as error:
            self.refused += 1
            _log.debug("%s, from %s", error, address[0])
            return
        if self._socket is None or not isinstance(request, clock_wire.Request):
            self.refused += 1
            return
        before, t3_before_ns = (None, 0) if self._before is None else self._before
        answer = clock_wire.Answer(
            nonce=request.nonce,
            t2_ns=at_ns,
            t3_ns=self._clock.monotonic_ns(),
            before=before,
            t3_before_ns=t3_before_ns,
        )
        left_ns = self._socket.send(clock_wire.encode(answer, self._key), address)
        self._before = None if left_ns is None else (request.nonce, left_ns)


async def _way_to(broker: tuple[str, int] | None) -> tuple[int, str]:
    """The family and the address of this host that the kernel would send from. Raises OSError without a route."""
    host, port = broker or ("127.0.0.1", 0)
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    family, kind, proto, _name, address = found[0]
    with socket.socket(family, kind, proto) as asking:
        asking.connect(address)  # a datagram socket: this chooses the route and sends nothing
        return family, str(asking.getsockname()[0])
