"""PortBytesReader: what the NIC ports of a host have counted, with the time of the reading."""

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from hwd_agents.sources.kernel.ip_counters import KernelIpCounters
from hwd_agents.sources.kernel.port_counters import KernelBytes
from hwd_agents.wire import CountedBytes, IpDatagrams, PortBytes
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.reason import reason_of

T = TypeVar("T")

log = logging.getLogger(__name__)


class PortBytesReader:
    """The reader of byte counters; `interfaces`: by NIC port. `source` None: this host has no counters of bytes;
    `ip_counters` None: none of datagrams. Without both a reading is a time alone.
    """

    def __init__(
        self,
        clock: Clock,
        interfaces: Mapping[str, str],
        source: KernelBytes | None,
        ip_counters: KernelIpCounters | None = None,
    ) -> None:
        self._clock = clock
        self._interfaces = interfaces
        self._source = source
        self._ip_counters = ip_counters
        self._whys: dict[str, str] = {}

    def read(self) -> CountedBytes:
        """What cannot be read is left out: nobody waits longer for that, and `hwd job verify` says it."""
        at_ns = self._clock.monotonic_ns()
        found: dict[str, PortBytes] = {}
        if (source := self._source) is not None:
            read = self._read("the bytes of the ports", lambda: source.read_bytes([*self._interfaces.values()]))
            found = read or {}
        datagrams: tuple[int, int] | None = None
        if (ip_counters := self._ip_counters) is not None:
            datagrams = self._read("the IP counters", ip_counters.read_ip)
        return CountedBytes(
            at_ns=at_ns,
            ports={
                port: one for port, interface in self._interfaces.items() if (one := found.get(interface)) is not None
            },
            datagrams=None if datagrams is None else IpDatagrams(received=datagrams[0], forwarded=datagrams[1]),
        )

    def _read(self, what: str, read: Callable[[], T]) -> T | None:
        """Read what can be read; None where it cannot be, with a warning for each new reason."""
        try:
            return read()
        except HwdError as error:
            if (why := reason_of(error)) != self._whys.get(what):
                log.warning("%s cannot be read: %s", what, why)
                self._whys[what] = why
            return None
