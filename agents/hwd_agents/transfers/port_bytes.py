"""PortBytesReader: what the NIC ports of a host have counted, with the time of the reading."""

import logging
from collections.abc import Mapping

from hwd_agents.sources.kernel.port_counters import ByteSource
from hwd_agents.wire import CountedBytes, PortBytes
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.reason import reason_of

log = logging.getLogger(__name__)


class PortBytesReader:
    """`interfaces`: by NIC port. `source` None: this host has no counters, and a reading is a time alone."""

    def __init__(self, clock: Clock, interfaces: Mapping[str, str], source: ByteSource | None) -> None:
        self._clock = clock
        self._interfaces = interfaces
        self._source = source
        self._why = ""

    def read(self) -> CountedBytes:
        """Ports that cannot be read are left out: nobody waits longer for that, and `hwd job verify` says it."""
        at_ns = self._clock.monotonic_ns()
        found: dict[str, tuple[int, int]] = {}
        if self._source is not None:
            try:
                found = self._source.read_bytes([*self._interfaces.values()])
            except HwdError as error:
                if (why := reason_of(error)) != self._why:
                    log.warning("the bytes of the ports cannot be read: %s", why)
                    self._why = why
        return CountedBytes(
            at_ns=at_ns,
            ports={
                port: PortBytes(rx=found[interface][0], tx=found[interface][1])
                for port, interface in self._interfaces.items()
                if interface in found
            },
        )
