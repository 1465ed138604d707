"""The bytes of ethtool netlink, read by pyroute2 as an independent judge."""

from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink import genlmsg, nla

from hwd_agents.sources.kernel import netlink
from hwd_agents.sources.kernel.ethtool import FEC_BITS, MODE_BITS, decode_bitset, encode_bitset, encode_header
from hwd_agents.sources.kernel.netlink import attributes

MODES = 2


class _Header(nla):  # type: ignore[misc]
    nla_map = (("NONE", "none"), ("DEV_INDEX", "uint32"), ("DEV_NAME", "asciiz"), ("FLAGS", "uint32"))


class _Bitset(nla):  # type: ignore[misc]
    nla_map = (
        ("NONE", "none"),
        ("NOMASK", "flag"),
        ("SIZE", "uint32"),
        ("BITS", "none"),
        ("VALUE", "cdata"),
        ("MASK", "cdata"),
    )


class _Fec(genlmsg):  # type: ignore[misc]
    """ETHTOOL_MSG_FEC_SET, by linux/ethtool_netlink.h."""

    prefix = ""
    nla_map = (("NONE", "none"), ("HEADER", "of_device"), ("MODES", "bits"), ("AUTO", "uint8"))
    of_device = _Header
    bits = _Bitset


def test_pyroute2_reads_which_fec_is_asked_for() -> None:
    payload = bytes([30, 1, 0, 0]) + encode_header("eth0") + encode_bitset(MODES, MODE_BITS, 1 << FEC_BITS["llrs"])
    read = _Fec(netlink.encode_message(0x15, 5, 1, payload))
    read.decode()
    header, bits = read.get_attr("HEADER"), read.get_attr("MODES")
    assert (read["cmd"], header.get_attr("DEV_NAME"), header.get_attr("FLAGS")) == (30, "eth0", 1)
    assert bits.get_attr("SIZE") == 96
    assert int.from_bytes(bits.get_attr("VALUE"), "little") == 1 << 74
    assert bits.get_attr("NOMASK") is not None


@given(st.integers(1, 200).flatmap(lambda bits: st.tuples(st.just(bits), st.integers(0, 2**bits - 1))))
def test_bits_come_back_as_they_went(of: tuple[int, int]) -> None:
    bits, value = of
    assert decode_bitset(attributes(encode_bitset(MODES, bits, value))[MODES]) == (bits, value)


def test_set_that_is_missing_has_no_bits() -> None:
    assert decode_bitset(b"") == (0, 0)
