"""VerbsPorts: opens the RDMA ports of this host by verbs, and reopens them after their device was away."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from hwd_agents.process.config import PortConfig
from hwd_agents.sources.verbs.verbs import PortEvent, VerbsPort, VerbsSource
from hwd_agents.watchers.poll_timer import PollTimer
from hwd_agents.wire import VerbsAddress
from hwd_drivers.core.errors import LinkError

SOURCE: Final = "verbs"
CHECK_S: Final = 1.0
"""Poll interval for devices that are being removed: until we close them, their driver may have to wait."""
OPEN_AGAIN_MOST_S: Final = 30.0

_log = logging.getLogger(__name__)


class VerbsPorts:
    """Keeps the ports open; a failure of one is reported for that port, and the others go on.

    `on_change` is called when what can be seen of some port, or its address, has changed.
    """

    def __init__(self, ports: Mapping[str, PortConfig], source: VerbsSource, *, on_change: Callable[[], None]) -> None:
        self.on_event: list[Callable[[str, PortEvent, int], None]] = []
        self.on_datagram: list[Callable[[str, bytes, int], None]] = []
        self.on_closed: list[Callable[[str], None]] = []
        self._configs = {name: (port.rdma, port.ip_address) for name, port in ports.items() if port.rdma is not None}
        self._source = source
        self._on_change = on_change
        self._open: dict[str, VerbsPort] = {}
        self._why_not = {
            name: "not opened yet" if port.rdma is not None else "no RDMA device is configured for it"
            for name, port in ports.items()
        }
        self._poll_timer = PollTimer()

    async def run(self) -> None:
        """Keep them open until cancelled, then close them."""
        wait_s = CHECK_S
        try:
            while True:
                self._look()
                wait_s = CHECK_S if self._open else min(2 * wait_s, OPEN_AGAIN_MOST_S)
                await self._poll_timer.wait(wait_s)
        finally:
            for name in list(self._open):
                self._close(name, "not opened yet")

    def port(self, name: str) -> VerbsPort | None:
        """An open port; None when it is not open."""
        return self._open.get(name)

    def address(self, name: str) -> VerbsAddress | None:
        """The address for datagrams to a port; None when it has none."""
        port = self._open.get(name)
        return None if port is None or port.datagrams is None else port.datagrams.address

    def why_not(self, name: str) -> str:
        """Why a port cannot be seen by verbs; empty when it can."""
        return "" if name in self._open else self._why_not[name]

    def why_no_datagrams(self, name: str) -> str:
        """Why a port sends no datagrams by verbs; empty when it does."""
        port = self._open.get(name)
        return self._why_not[name] if port is None else port.why_no_datagrams

    def hurry(self) -> None:
        """Poll now: an interface was created or removed."""
        self._poll_timer.hurry()

    def _look(self) -> None:
        """Close ports that can no longer be used, open those that are not open."""
        for name, (device, ip) in self._configs.items():
            port = self._open.get(name)
            if port is not None and (why := port.why_gone()):
                self._close(name, why)
            if name not in self._open:
                self._try_open(name, str(device), ip)

    def _try_open(self, name: str, device: str, ip: str | None) -> None:
        try:
            port = self._source.open(device, ip, partial(self._took_event, name), partial(self._took_datagram, name))
        except LinkError as error:
            if str(error) != self._why_not[name]:
                _log.info("%s: not watched by verbs: %s", name, error)
                self._why_not[name] = str(error)
                self._on_change()
            return
        self._open[name] = port
        self._on_change()

    def _close(self, name: str, why: str) -> None:
        port = self._open.pop(name)
        self._why_not[name] = why
        _log.info("%s: closed to verbs: %s", name, why)
        for call in self.on_closed:
            call(name)
        port.close()
        self._on_change()

    def _took_event(self, name: str, event: PortEvent, at_ns: int) -> None:
        if event in (PortEvent.GONE, PortEvent.GID_CHANGE):
            self._poll_timer.hurry()
            self._on_change()
        for call in self.on_event:
            call(name, event, at_ns)

    def _took_datagram(self, name: str, payload: bytes, at_ns: int) -> None:
        for call in self.on_datagram:
            call(name, payload, at_ns)
