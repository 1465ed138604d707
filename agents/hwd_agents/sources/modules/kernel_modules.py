"""KernelModules: reads the memory of the modules of real NICs by ethtool netlink; constant parts are read once."""

import logging
from dataclasses import dataclass
from typing import Final

from pyroute2.netlink import NETLINK_GENERIC

from hwd_agents.sources.kernel.ethtool import Ethtool
from hwd_agents.sources.kernel.netlink_requests import NetlinkRequests
from hwd_agents.sources.kernel.sockets import Sockets
from hwd_agents.sources.readings import ModuleReading
from hwd_agents.wire import SourceNote
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import HwdError, LinkError, ProtocolError, RefusedError
from hwd_drivers.core.offload import Offload

from .module_kinds import HEAD, identity_of, layout_of, parse_module
from .module_memory import Layout, Span

UNWATCHED_NS: Final = 2_000_000_000
"""A module takes up to 2 s from power to its first answer (SFF-8636 and SFF-8472: t_init).

In less time it cannot have been replaced without a failed read.
"""
STATIC_EVERY_NS: Final = 60_000_000_000
"""Constant parts are read again after this time in any case: a driver may answer from its own copy without a module."""
SUSPECT_EVERY_NS: Final = 500_000_000
"""Invalid memory is read again after this time: the read may have come too soon after the module was plugged in."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _KnownModule:
    """One module: its layout, and its memory as of the last read."""

    layout: Layout
    memory: bytearray
    static_ns: int
    read_ns: int
    is_new: bool = True
    is_sound: bool = True

    def is_old(self, now_ns: int) -> bool:
        """Whether the constant parts must be read again."""
        every_ns = STATIC_EVERY_NS if self.is_sound else SUSPECT_EVERY_NS
        return now_ns - self.read_ns >= UNWATCHED_NS or now_ns - self.static_ns >= every_ns


class KernelModules:
    """A ModuleSource on the network that `sockets` opens into. I2C is slow: pass an `offload` of its own, with a
    thread for each module. Delays by what modules share below that (one adapter, a NIC's firmware, the kernel's lock
    of all interfaces) are visible in their stamps.

    modules = KernelModules(HostSockets(), clock, ThreadOffload(2))
    reading = await modules.read_module("eth0")
    """

    def __init__(self, sockets: Sockets, clock: Clock, offload: Offload, *, origin: str = "measured") -> None:
        self._sockets = sockets
        self._clock = clock
        self._offload = offload
        self._known: dict[str, _KnownModule] = {}
        self.note = SourceNote(sees=["dark", "light"], origin=origin)

    async def read_module(self, interface: str) -> ModuleReading:
        """Read the module of `interface`; this clears its latched flags. The stamps surround the read of the monitors.

        Raises RefusedError when this NIC cannot, LinkError when nothing answers, ProtocolError for an unknown kind of
        module.
        """
        return await self._offload(self._read, interface)

    def _read(self, interface: str) -> ModuleReading:
        with NetlinkRequests(self._sockets, NETLINK_GENERIC) as kernel:
            ethtool = Ethtool(kernel)
            try:
                known = self._look_up(ethtool, interface)
                identifier = known.memory[0]
                before_ns = self._clock.monotonic_ns()
                for span in known.layout.monitors:
                    _put(known.memory, span, ethtool.module(interface, span))
                if known.memory[0] != identifier:
                    raise LinkError(
                        f"{interface}: another module was plugged in during the read; the next read starts anew"
                    )
            except HwdError:
                self._known.pop(interface, None)
                raise
        known.read_ns = after_ns = self._clock.monotonic_ns()
        if known.is_new or not known.is_sound:
            known.is_new, known.is_sound = False, _is_sound(known.memory)
        return ModuleReading(interface=interface, memory=bytes(known.memory), before_ns=before_ns, after_ns=after_ns)

    def _look_up(self, ethtool: Ethtool, interface: str) -> _KnownModule:
        """The constant parts of the module, read again when it may be another module."""
        now_ns = self._clock.monotonic_ns()
        known = self._known.get(interface)
        if known is not None and not known.is_old(now_ns):
            return known
        head = ethtool.module(interface, HEAD)
        identity = identity_of(head)
        found = ethtool.module(interface, identity)
        layout = layout_of(head, found)
        memory = bytearray(layout.size)
        _put(memory, HEAD, head)
        _put(memory, identity, found)
        for span in layout.static:
            if span != identity:
                self._read_static(ethtool, interface, span, memory)
        known = self._known[interface] = _KnownModule(layout=layout, memory=memory, static_ns=now_ns, read_ns=now_ns)
        return known

    def _read_static(self, ethtool: Ethtool, interface: str, span: Span, memory: bytearray) -> None:
        try:
            _put(memory, span, ethtool.module(interface, span))
        except (RefusedError, LinkError, ProtocolError) as error:
            if not span.optional:
                raise
            _log.debug("%s: read without %s: %s", interface, span, error)


def _put(memory: bytearray, span: Span, found: bytes) -> None:
    memory[span.place : span.place + span.length] = found


def _is_sound(memory: bytearray) -> bool:
    try:
        parse_module(bytes(memory))
    except ProtocolError:
        return False
    return True
