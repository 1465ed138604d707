"""Messages of ethtool netlink that pyroute2 lacks, or defines without all attributes (linux/ethtool_netlink.h).

An attribute has the kernel's name without the prefix of its message (ETHTOOL_A_FEC_).
"""

from typing import Final

from pyroute2.netlink import NLA_F_NESTED, genlmsg, nla
from pyroute2.netlink.generic.ethtool import ethtoolheader

MSG_LINKMODES_GET: Final = 4
MSG_LINKMODES_SET: Final = 5
MSG_LINKSTATE_GET: Final = 6
MSG_PAUSE_GET: Final = 21
MSG_FEC_GET: Final = 29
MSG_FEC_SET: Final = 30
MSG_MODULE_EEPROM_GET: Final = 31

COMPACT_BITSETS: Final = 1
"""A flag of the header: bit sets are sent as numbers."""
STATISTICS: Final = 4
"""A flag of the header: include counters."""


class Bitset(nla):
    """A set of bits as numbers; pyroute2's own reads them as hexadecimal text."""

    nla_flags = NLA_F_NESTED
    nla_map = (
        ("UNSPEC", "none"),
        ("NOMASK", "flag"),
        ("SIZE", "uint32"),
        ("BITS", "none"),
        ("VALUE", "array(uint32)"),
        ("MASK", "array(uint32)"),
    )


class LinkModes(genlmsg):
    """ETHTOOL_MSG_LINKMODES_GET, its answer, and ETHTOOL_MSG_LINKMODES_SET."""

    nla_map = (
        ("UNSPEC", "none"),
        ("HEADER", "of_device"),
        ("AUTONEG", "uint8"),
        ("OURS", "bitset"),
        ("PEER", "bitset"),
        ("SPEED", "uint32"),
        ("DUPLEX", "uint8"),
    )
    of_device = ethtoolheader
    bitset = Bitset


class LinkState(genlmsg):
    """ETHTOOL_MSG_LINKSTATE_GET and its answer."""

    nla_map = (
        ("UNSPEC", "none"),
        ("HEADER", "of_device"),
        ("LINK", "uint8"),
        ("SQI", "uint32"),
        ("SQI_MAX", "uint32"),
        ("EXT_STATE", "uint8"),
        ("EXT_SUBSTATE", "uint8"),
        ("EXT_DOWN_CNT", "uint32"),
    )
    of_device = ethtoolheader


class Pause(genlmsg):
    """ETHTOOL_MSG_PAUSE_GET and its answer."""

    nla_map = (
        ("UNSPEC", "none"),
        ("HEADER", "of_device"),
        ("AUTONEG", "uint8"),
        ("RX", "uint8"),
        ("TX", "uint8"),
        ("STATS", "stats"),
    )
    of_device = ethtoolheader

    class stats(nla):  # noqa: N801 - the name that the map above looks for
        """Counters of the NIC that it supports."""

        nla_flags = NLA_F_NESTED
        nla_map = (
            ("UNSPEC", "none"),
            ("PAD", "none"),
            ("TX_FRAMES", "uint64"),
            ("RX_FRAMES", "uint64"),
        )


class Fec(genlmsg):
    """ETHTOOL_MSG_FEC_GET, its answer, and ETHTOOL_MSG_FEC_SET."""

    nla_map = (
        ("UNSPEC", "none"),
        ("HEADER", "of_device"),
        ("MODES", "bitset"),
        ("AUTO", "uint8"),
        ("ACTIVE", "uint32"),
    )
    of_device = ethtoolheader
    bitset = Bitset


class ModuleEeprom(genlmsg):
    """ETHTOOL_MSG_MODULE_EEPROM_GET and its answer; pyroute2's own reads the data as an array of numbers."""

    nla_map = (
        ("UNSPEC", "none"),
        ("HEADER", "of_device"),
        ("OFFSET", "uint32"),
        ("LENGTH", "uint32"),
        ("PAGE", "uint8"),
        ("BANK", "uint8"),
        ("I2C_ADDRESS", "uint8"),
        ("DATA", "cdata"),
    )
    of_device = ethtoolheader
