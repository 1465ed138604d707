"""Auto-negotiation, FEC, link state, pause frames and module memory over ethtool netlink (linux/ethtool_netlink.h)."""

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyroute2.netlink import CTRL_CMD_GETFAMILY, GENL_ID_CTRL, ctrlmsg, genlmsg

from hwd_agents.sources.modules.module_memory import Span
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import LinkError, ProtocolError, RefusedError

from . import ethtool_messages as messages
from .netlink_requests import KernelRefusal, NetlinkRequests

FEC_BITS: Final[Mapping[str, int]] = {"off": 49, "rs": 50, "baser": 51, "llrs": 74}
"""ETHTOOL_LINK_MODE_FEC_..._BIT, by the words of `ethtool --show-fec`."""
MODE_BITS: Final = 96
"""Size of a set that holds these bits, in whole words."""

_VERSION: Final = 1
_UNKNOWN_SPEED: Final = 0xFFFFFFFF
_UNKNOWN_DUPLEX: Final = 0xFF
NAME_IT: Final = "Name it in the agent's file as `ip link` shows it"
_NOT_SUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS})
_NOT_ALLOWED: Final = frozenset({errno.EPERM, errno.EACCES})
_GONE: Final = frozenset({errno.ENODEV, errno.ENXIO})


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """The link as its driver reports it, in the kernel's numbers (ETHTOOL_LINK_EXT_STATE_...).

    None is a value that it does not report.
    """

    link: int | None
    why: int | None
    detail: int | None
    downs: int | None


class Ethtool:
    """ethtool netlink of one network, over a socket of NETLINK_GENERIC. It blocks: call it in a thread."""

    def __init__(self, kernel: NetlinkRequests) -> None:
        self._kernel = kernel
        self._family: int | None = None

    def autoneg(self, interface: str) -> dict[str, Json]:
        """The state of auto-negotiation: on or off, speed and duplex if the driver reports them, advertised modes."""
        found = self._get(interface, "read the auto-negotiation", messages.LinkModes(), messages.MSG_LINKMODES_GET)
        speed = found.get_attr("SPEED")
        duplex = found.get_attr("DUPLEX")
        bits, ours = read_bits(found.get_attr("OURS"))
        return {
            "autoneg": bool(found.get_attr("AUTONEG")),
            "speed": None if speed == _UNKNOWN_SPEED else speed,
            "duplex": None if duplex == _UNKNOWN_DUPLEX else duplex,
            "ours": f"{ours:x}",
            "bits": bits,
        }

    def set_autoneg(self, interface: str, state: Mapping[str, Any]) -> None:
        """Set `state` as `autoneg` returned it: with negotiation its modes count, without it speed and duplex."""
        message = messages.LinkModes()
        message["attrs"].append(("AUTONEG", int(state["autoneg"])))
        if state["autoneg"]:
            if state["bits"]:
                ours = bits_of(state["bits"], int(state["ours"], 16))
                message["attrs"].append(("OURS", ours))
        else:
            if state["speed"] is not None:
                message["attrs"].append(("SPEED", state["speed"]))
            if state["duplex"] is not None:
                message["attrs"].append(("DUPLEX", state["duplex"]))
        word = "on" if state["autoneg"] else "off"
        self._ask(interface, f"switch auto-negotiation {word}", message, messages.MSG_LINKMODES_SET)

    def fec(self, interface: str) -> dict[str, Json]:
        """Whether the NIC chooses the FEC, and which modes are set, in the words of `FEC_BITS`."""
        found = self._get(interface, "read the FEC", messages.Fec(), messages.MSG_FEC_GET)
        _, modes = read_bits(found.get_attr("MODES"))
        return {
            "auto": bool(found.get_attr("AUTO")),
            "modes": [word for word, bit in FEC_BITS.items() if modes >> bit & 1],
        }

    def active_fec(self, interface: str) -> str | None:
        """The FEC in use, in the words of `FEC_BITS`; None while the link is down, or when the driver has none."""
        found = self._get(interface, "read the FEC", messages.Fec(), messages.MSG_FEC_GET)
        active = found.get_attr("ACTIVE")
        return next((word for word, bit in FEC_BITS.items() if bit == active), None)

    def set_fec(self, interface: str, state: Mapping[str, Any]) -> None:
        """Set `state` as `fec` returned it."""
        modes = bits_of(MODE_BITS, sum(1 << FEC_BITS[word] for word in state["modes"]))
        message = messages.Fec()
        message["attrs"] += [("MODES", modes), ("AUTO", int(state["auto"]))]
        words = "auto" if state["auto"] else "+".join(state["modes"])
        self._ask(interface, f"set FEC {words}", message, messages.MSG_FEC_SET)

    def pause_frames(self, interface: str) -> tuple[int | None, int | None]:
        """Pause frames received and sent (IEEE 802.3 annex 31B); None when the NIC does not count them."""
        found = self._get(
            interface, "read the pause frames", messages.Pause(), messages.MSG_PAUSE_GET, messages.STATISTICS
        )
        stats = found.get_attr("STATS")
        if stats is None:
            return None, None
        received, sent = (stats.get_attr(f"{way}_FRAMES") for way in ("RX", "TX"))
        return received, sent

    def link_state(self, interface: str) -> LinkState:
        found = self._get(interface, "read the state of the link", messages.LinkState(), messages.MSG_LINKSTATE_GET)
        return LinkState(
            link=found.get_attr("LINK"),
            why=found.get_attr("EXT_STATE"),
            detail=found.get_attr("EXT_SUBSTATE"),
            downs=found.get_attr("EXT_DOWN_CNT"),
        )

    def module(self, interface: str, span: Span) -> bytes:
        """These bytes of the memory of the module in `interface`. I2C takes some 0.1 ms a byte.

        Raises RefusedError when the NIC cannot, LinkError when no module answers or the interface does not exist,
        ProtocolError when fewer bytes arrive.
        """
        message = messages.ModuleEeprom()
        message["attrs"] += [
            ("OFFSET", span.offset),
            ("LENGTH", span.length),
            ("PAGE", span.page),
            ("BANK", span.bank),
            ("I2C_ADDRESS", span.address),
        ]
        says = f"read {span} of the module"
        try:
            answer = self._get(interface, says, message, messages.MSG_MODULE_EEPROM_GET)
        except KernelRefusal as error:
            if error.number in _NOT_ALLOWED:
                raise RefusedError(
                    f"{interface}: cannot {says}: the kernel requires CAP_NET_ADMIN. "
                    "Run the agent as root, or give its unit AmbientCapabilities=CAP_NET_ADMIN"
                ) from error
            raise LinkError(
                f"{interface}: cannot {says}: {os.strerror(error.number)}. "
                "Is a module plugged in, and is it that of this port?"
            ) from error
        found = bytes(answer.get_attr("DATA", b""))
        if len(found) != span.length:
            raise ProtocolError(f"{interface}: asked for {span} of the module, {len(found)} bytes came")
        return found

    def _get(self, interface: str, says: str, message: genlmsg, command: int, flags: int = 0) -> Any:
        """The answer; an empty message when there is none."""
        answers = self._ask(interface, says, message, command, flags)
        return answers[0] if answers else type(message)()

    def _ask(self, interface: str, says: str, message: genlmsg, command: int, flags: int = 0) -> list[Any]:
        message["cmd"], message["version"] = command, _VERSION
        header = [
            ("ETHTOOL_A_HEADER_DEV_NAME", interface),
            ("ETHTOOL_A_HEADER_FLAGS", messages.COMPACT_BITSETS | flags),
        ]
        message["attrs"].insert(0, ("HEADER", {"attrs": header}))
        family = self._find_family()
        self._kernel.read_as({family: type(message)})
        try:
            return self._kernel.ask(f"{says} of {interface}", message, family)
        except KernelRefusal as error:
            if error.number in _NOT_SUPPORTED:
                raise RefusedError(f"{interface}: cannot {says}: the NIC says not supported") from error
            if error.number in _GONE:
                raise LinkError(f"{interface}: cannot {says}: no such interface. {NAME_IT}") from error
            raise

    def _find_family(self) -> int:
        if self._family is None:
            message = ctrlmsg()
            message["cmd"], message["version"] = CTRL_CMD_GETFAMILY, _VERSION
            message["attrs"].append(("CTRL_ATTR_FAMILY_NAME", "ethtool"))
            self._kernel.read_as({GENL_ID_CTRL: ctrlmsg})
            try:
                (family,) = self._kernel.ask("find ethtool netlink", message, GENL_ID_CTRL)
            except KernelRefusal as error:
                raise RefusedError(
                    f"this kernel has no ethtool netlink (Linux 5.6 or later has it): {error}"
                ) from error
            self._family = int(family.get_attr("CTRL_ATTR_FAMILY_ID"))
        return self._family


def bits_of(count: int, value: int) -> dict[str, Any]:
    """A whole set of `count` bits for the kernel, which clears those that are not in `value`."""
    words = [value >> shift & 0xFFFFFFFF for shift in range(0, count, 32)]
    return {"attrs": [("NOMASK", True), ("SIZE", count), ("VALUE", words)]}


def read_bits(bitset: messages.Bitset | None) -> tuple[int, int]:
    """(number of bits, bits that are set) of a set that came as numbers; (0, 0) for None."""
    if bitset is None:
        return 0, 0
    words = bitset.get_attr("VALUE", ())
    return bitset.get_attr("SIZE", 0), sum(word << 32 * n for n, word in enumerate(words))
