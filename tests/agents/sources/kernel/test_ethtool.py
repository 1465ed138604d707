"""What ethtool netlink is asked, read by hand as linux/ethtool_netlink.h has it."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.sources.kernel.ethtool import Ethtool, bits_of, read_bits
from hwd_agents.sources.kernel.ethtool_messages import Bitset
from hwd_agents.sources.kernel.kernel_settings import KernelSettings
from hwd_agents.sources.kernel.netlink_requests import NetlinkRequests
from hwd_agents.sources.setting_source import Setting
from hwd_drivers.core.documents import Json
from hwd_drivers.core.offload import InlineOffload

from ..played_ethtool import PlayedEthtool, attribute, attributes

FEC_GET, FEC_SET, LINKMODES_GET, LINKMODES_SET = 29, 30, 4, 5
LLRS_BIT = 74
NOMASK, SIZE, VALUE = 1, 2, 4


async def test_the_kernel_is_asked_for_one_fec_of_one_interface(ethtool: PlayedEthtool) -> None:
    ethtool.answers["eth0", FEC_GET] = attribute(3, b"\x01")
    ethtool.answers["eth0", FEC_SET] = b""
    await KernelSettings(ethtool, InlineOffload()).write("eth0", Setting.FEC, "llrs")
    question = ethtool.questions[-1]
    assert attributes(question[1]) == {2: b"eth0\0", 3: struct.pack("=I", 1)}
    words = struct.pack("=III", 0, 0, 1 << LLRS_BIT - 64)
    assert attributes(question[2]) == {NOMASK: b"", SIZE: struct.pack("=I", 96), VALUE: words}
    assert question[3] == b"\0"


@pytest.mark.parametrize(
    ("state", "sent"),
    [
        (
            {"autoneg": True, "speed": 100_000, "duplex": 1, "bits": 70, "ours": f"{1 << 69 | 3:x}"},
            {2: b"\x01", 3: {NOMASK: b"", SIZE: struct.pack("=I", 70), VALUE: struct.pack("=III", 3, 0, 1 << 5)}},
        ),
        (
            {"autoneg": False, "speed": 100_000, "duplex": 1, "bits": 70, "ours": "3"},
            {2: b"\0", 5: struct.pack("=I", 100_000), 6: b"\x01"},
        ),
        ({"autoneg": False, "speed": None, "duplex": None, "bits": 0, "ours": "0"}, {2: b"\0"}),
    ],
)
async def test_auto_negotiation_is_asked_for_with_what_belongs_to_it(
    ethtool: PlayedEthtool, state: Json, sent: dict[int, object]
) -> None:
    ethtool.answers["eth0", LINKMODES_SET] = b""
    await KernelSettings(ethtool, InlineOffload()).restore("eth0", Setting.AUTONEG, True, state)
    question = ethtool.questions[-1]
    assert {kind: attributes(value) if kind == 3 else value for kind, value in question.items() if kind != 1} == sent


def test_of_an_interface_that_tells_no_speed_and_no_duplex_there_is_none(ethtool: PlayedEthtool) -> None:
    unknown = attribute(2, b"\0") + attribute(5, b"\xff" * 4) + attribute(6, b"\xff")
    ethtool.answers["eth0", LINKMODES_GET] = unknown
    ethtool.answers["eth1", LINKMODES_GET] = b""
    with NetlinkRequests(ethtool) as kernel:
        for name in ("eth0", "eth1"):
            found = Ethtool(kernel).autoneg(name)
            assert found == {"autoneg": False, "speed": None, "duplex": None, "ours": "0", "bits": 0}


@given(st.integers(1, 200).flatmap(lambda bits: st.tuples(st.just(bits), st.integers(0, 2**bits - 1))))
def test_bits_come_back_as_they_went(of: tuple[int, int]) -> None:
    sent = Bitset()
    sent.setvalue(bits_of(*of))
    sent.encode()
    assert read_bits(Bitset(bytes(sent.data)).copy()) == of


def test_set_that_is_missing_has_no_bits() -> None:
    assert read_bits(None) == (0, 0)
