"""Auto-negotiation, FEC, link state and module memory over ethtool netlink, as messages (linux/ethtool_netlink.h, genetlink.h)."""

import errno
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hwd_agents.sources.modules.module_memory import Span
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import LinkError, ProtocolError, RefusedError

from . import netlink
from .netlink import attributes, encode_attribute, encode_text, encode_u32
from .netlink_ask import KernelRefusal, NetlinkAsk

MSG_LINKMODES_GET: Final = 4
MSG_LINKMODES_SET: Final = 5
MSG_LINKSTATE_GET: Final = 6
MSG_PAUSE_GET: Final = 21
MSG_FEC_GET: Final = 29
MSG_FEC_SET: Final = 30
MSG_MODULE_EEPROM_GET: Final = 31

FEC_BITS: Final[Mapping[str, int]] = {"off": 49, "rs": 50, "baser": 51, "llrs": 74}
"""ETHTOOL_LINK_MODE_FEC_..._BIT, by the words of `ethtool --show-fec`."""
MODE_BITS: Final = 96
"""Room for the bits above, in whole words."""

_NESTED: Final = 0x8000
_GENL_HEADER: Final = struct.Struct("=BBxx")  # command, version
_GENL_CONTROL: Final = 0x10
_CTRL_GETFAMILY: Final = 3
_CTRL_FAMILY_ID: Final = 1
_CTRL_FAMILY_NAME: Final = 2
_A_HEADER: Final = 1
_A_HEADER_DEV_NAME: Final = 2
_A_HEADER_FLAGS: Final = 3
_COMPACT_BITSETS: Final = 1
_A_BITSET_NOMASK: Final = 1
_A_BITSET_SIZE: Final = 2
_A_BITSET_VALUE: Final = 4
_A_LINKMODES_AUTONEG: Final = 2
_A_LINKMODES_OURS: Final = 3
_A_LINKMODES_SPEED: Final = 5
_A_LINKMODES_DUPLEX: Final = 6
_A_FEC_MODES: Final = 2
_A_FEC_AUTO: Final = 3
_STATISTICS: Final = 4  # a flag of the header: with counters
_A_PAUSE_STATS: Final = 5
_A_PAUSE_TX_FRAMES: Final = 2
_A_PAUSE_RX_FRAMES: Final = 3
_A_FEC_ACTIVE: Final = 4
_A_LINKSTATE_LINK: Final = 2
_A_LINKSTATE_WHY: Final = 5
_A_LINKSTATE_DETAIL: Final = 6
_A_LINKSTATE_DOWNS: Final = 7
_A_EEPROM_OFFSET: Final = 2
_A_EEPROM_LENGTH: Final = 3
_A_EEPROM_PAGE: Final = 4
_A_EEPROM_BANK: Final = 5
_A_EEPROM_ADDRESS: Final = 6
_A_EEPROM_DATA: Final = 7
_UNKNOWN_SPEED: Final = 0xFFFFFFFF
_UNKNOWN_DUPLEX: Final = 0xFF
NAME_IT: Final = "Name it in the agent's file as `ip link` shows it"
_NOT_SUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS})
_NOT_ALLOWED: Final = frozenset({errno.EPERM, errno.EACCES})
_GONE: Final = frozenset({errno.ENODEV, errno.ENXIO})


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """The link as its driver has it, in the kernel's numbers (ETHTOOL_LINK_EXT_STATE_...); None for what it does not tell."""

    link: int | None
    why: int | None
    detail: int | None
    downs: int | None


class Ethtool:
    """ethtool netlink of one network, over a socket of NETLINK_GENERIC. It blocks: call it in a thread."""

    def __init__(self, kernel: NetlinkAsk) -> None:
        self._kernel = kernel
        self._family: int | None = None

    def autoneg(self, interface: str) -> dict[str, Json]:
        """The state of auto-negotiation: on or off, speed and duplex where there are any, the modes that are offered."""
        found = self._get(interface, "read the auto-negotiation", MSG_LINKMODES_GET)
        speed = _number(found.get(_A_LINKMODES_SPEED), "=I", _UNKNOWN_SPEED)
        duplex = _number(found.get(_A_LINKMODES_DUPLEX), "=B", _UNKNOWN_DUPLEX)
        bits, ours = decode_bitset(found.get(_A_LINKMODES_OURS, b""))
        return {
            "autoneg": bool(_number(found.get(_A_LINKMODES_AUTONEG), "=B", 0)),
            "speed": speed,
            "duplex": duplex,
            "ours": f"{ours:x}",
            "bits": bits,
        }

    def set_autoneg(self, interface: str, state: Mapping[str, Any]) -> None:
        """`state` as `autoneg` gave it: with negotiation the offered modes count, without it speed and duplex."""
        body = encode_attribute(_A_LINKMODES_AUTONEG, bytes([bool(state["autoneg"])]))
        if state["autoneg"]:
            if state["bits"]:
                body += encode_bitset(_A_LINKMODES_OURS, state["bits"], int(state["ours"], 16))
        else:
            if state["speed"] is not None:
                body += encode_u32(_A_LINKMODES_SPEED, state["speed"])
            if state["duplex"] is not None:
                body += encode_attribute(_A_LINKMODES_DUPLEX, bytes([state["duplex"]]))
        word = "on" if state["autoneg"] else "off"
        self._ask(interface, f"switch auto-negotiation {word}", MSG_LINKMODES_SET, body)

    def fec(self, interface: str) -> dict[str, Json]:
        """Whether FEC is chosen by the NIC, and which modes are set, in the words of `FEC_BITS`."""
        found = self._get(interface, "read the FEC", MSG_FEC_GET)
        _, modes = decode_bitset(found.get(_A_FEC_MODES, b""))
        return {
            "auto": bool(_number(found.get(_A_FEC_AUTO), "=B", 0)),
            "modes": [word for word, bit in FEC_BITS.items() if modes >> bit & 1],
        }

    def active_fec(self, interface: str) -> str | None:
        """The FEC that is in force, in the words of `FEC_BITS`; None while the link is down, or where the driver does not tell."""
        bit = _number(self._get(interface, "read the FEC", MSG_FEC_GET).get(_A_FEC_ACTIVE), "=I", None)
        return next((word for word, number in FEC_BITS.items() if number == bit), None)

    def pause_frames(self, interface: str) -> tuple[int | None, int | None]:
        """Pause frames that were received and sent (IEEE 802.3 annex 31B); None where the NIC does not count them."""
        found = self._get(interface, "read the pause frames", MSG_PAUSE_GET, flags=_STATISTICS)
        stats = attributes(found.get(_A_PAUSE_STATS, b""))
        return _number(stats.get(_A_PAUSE_RX_FRAMES), "=Q", None), _number(stats.get(_A_PAUSE_TX_FRAMES), "=Q", None)

    def link_state(self, interface: str) -> LinkState:
        """Whether the link is up, and why it is not."""
        found = self._get(interface, "read the state of the link", MSG_LINKSTATE_GET)
        return LinkState(
            link=_number(found.get(_A_LINKSTATE_LINK), "=B", None),
            why=_number(found.get(_A_LINKSTATE_WHY), "=B", None),
            detail=_number(found.get(_A_LINKSTATE_DETAIL), "=B", None),
            downs=_number(found.get(_A_LINKSTATE_DOWNS), "=I", None),
        )

    def set_fec(self, interface: str, state: Mapping[str, Any]) -> None:
        """`state` as `fec` gave it."""
        value = sum(1 << FEC_BITS[word] for word in state["modes"])
        body = encode_bitset(_A_FEC_MODES, MODE_BITS, value)
        body += encode_attribute(_A_FEC_AUTO, bytes([bool(state["auto"])]))
        words = "auto" if state["auto"] else "+".join(state["modes"])
        self._ask(interface, f"set FEC {words}", MSG_FEC_SET, body)

    def module(self, interface: str, span: Span) -> bytes:
        """These bytes of the memory of the module in `interface`. It takes as long as I2C does: some 0.1 ms a byte.

        Raises RefusedError where the NIC cannot, LinkError where no module answers or the interface is away, ProtocolError where fewer bytes come.
        """
        body = (
            encode_u32(_A_EEPROM_OFFSET, span.offset)
            + encode_u32(_A_EEPROM_LENGTH, span.length)
            + encode_attribute(_A_EEPROM_PAGE, bytes([span.page]))
            + encode_attribute(_A_EEPROM_BANK, bytes([span.bank]))
            + encode_attribute(_A_EEPROM_ADDRESS, bytes([span.address]))
        )
        says = f"read {span} of the module"
        try:
            answers = self._ask(interface, says, MSG_MODULE_EEPROM_GET, body)
        except KernelRefusal as error:
            if error.number in _NOT_ALLOWED:
                raise RefusedError(
                    f"{interface}: cannot {says}: the kernel wants CAP_NET_ADMIN for it. Run the agent as root, or give its unit AmbientCapabilities=CAP_NET_ADMIN"
                ) from error
            raise LinkError(
                f"{interface}: cannot {says}: {os.strerror(error.number)}. Is a module plugged in, and is it that of this port?"
            ) from error
        found = attributes(answers[0].payload, _GENL_HEADER.size).get(_A_EEPROM_DATA, b"") if answers else b""
        if len(found) != span.length:
            raise ProtocolError(f"{interface}: asked for {span} of the module, {len(found)} bytes came")
        return found

    def _get(self, interface: str, says: str, command: int, *, flags: int = 0) -> dict[int, bytes]:
        answers = self._ask(interface, says, command, b"", flags=flags)
        return attributes(answers[0].payload, _GENL_HEADER.size) if answers else {}

    def _ask(self, interface: str, says: str, command: int, body: bytes, *, flags: int = 0) -> list[netlink.Message]:
        payload = _GENL_HEADER.pack(command, 1) + encode_header(interface, flags) + body
        try:
            return self._kernel.ask(f"{says} of {interface}", self._find_family(), 0, payload)
        except KernelRefusal as error:
            if error.number in _NOT_SUPPORTED:
                raise RefusedError(f"{interface}: cannot {says}: the NIC says not supported") from error
            if error.number in _GONE:
                raise LinkError(f"{interface}: cannot {says}: no such interface. {NAME_IT}") from error
            raise

    def _find_family(self) -> int:
        if self._family is None:
            payload = _GENL_HEADER.pack(_CTRL_GETFAMILY, 1) + encode_text(_CTRL_FAMILY_NAME, "ethtool")
            try:
                answers = self._kernel.ask("find ethtool netlink", _GENL_CONTROL, 0, payload)
            except KernelRefusal as error:
                raise RefusedError(
                    f"this kernel has no ethtool netlink (Linux 5.6 or later has it): {error}"
                ) from error
            found = attributes(answers[0].payload, _GENL_HEADER.size)
            (self._family,) = struct.unpack("=H", found[_CTRL_FAMILY_ID][:2])
        return int(self._family)


def encode_header(interface: str, flags: int = 0) -> bytes:
    """Which interface, and that sets of bits come as numbers."""
    inner = encode_text(_A_HEADER_DEV_NAME, interface) + encode_u32(_A_HEADER_FLAGS, _COMPACT_BITSETS | flags)
    return encode_attribute(_A_HEADER | _NESTED, inner)


def encode_bitset(kind: int, bits: int, value: int) -> bytes:
    """A whole set of bits: those that are not in `value` are cleared."""
    words = (bits + 31) // 32
    inner = (
        encode_attribute(_A_BITSET_NOMASK, b"")
        + encode_u32(_A_BITSET_SIZE, bits)
        + encode_attribute(
            _A_BITSET_VALUE, b"".join(struct.pack("=I", value >> 32 * n & 0xFFFFFFFF) for n in range(words))
        )
    )
    return encode_attribute(kind | _NESTED, inner)


def decode_bitset(data: bytes) -> tuple[int, int]:
    """(how many bits there are, those that are set) of a set that came as numbers; (0, 0) of none."""
    found = attributes(data)
    bits = _number(found.get(_A_BITSET_SIZE), "=I", None) or 0
    value = found.get(_A_BITSET_VALUE, b"")
    words = struct.unpack(f"={len(value) // 4}I", value[: len(value) // 4 * 4])
    return bits, sum(word << 32 * n for n, word in enumerate(words))


def _number(value: bytes | None, form: str, unknown: int | None) -> int | None:
    """None where it is missing or stands for unknown."""
    if value is None:
        return None
    (number,) = struct.unpack(form, value)
    return None if number == unknown and unknown else int(number)
