"""Link details by ethtool netlink: of played NICs in the kernel's own numbers, and of interfaces of the kernel; and
their drivers.
"""

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.twin.kernel import Crossbar, Keeper
from hwd_agents.sources.kernel.interface_drivers import KernelDrivers
from hwd_agents.sources.kernel.nic_link_details import KernelLinkDetails, detail_words, why_words
from hwd_agents.wire.events import LinkStateData
from hwd_drivers.core.errors import LinkError, RefusedError
from hwd_drivers.core.offload import InlineOffload

from ..played_ethtool import PlayedEthtool, attribute

LINKMODES, LINKSTATE, FEC = 4, 6, 29
NO_CABLE, AUTONEG, NO_PARTNER = 4, 0, 1
RS_BIT = 50


def link_state(*, up: bool, why: int | None = None, detail: int | None = None, downs: int | None = None) -> bytes:
    answer = attribute(2, bytes([up]))
    answer += b"" if why is None else attribute(5, bytes([why]))
    answer += b"" if detail is None else attribute(6, bytes([detail]))
    return answer + (b"" if downs is None else attribute(7, struct.pack("=I", downs)))


async def test_all_that_a_nic_tells_of_its_link_is_read(ethtool: PlayedEthtool) -> None:
    ethtool.answers["eth0", LINKSTATE] = link_state(up=True, downs=7)
    ethtool.answers["eth0", LINKMODES] = attribute(2, b"\x01") + attribute(5, struct.pack("=I", 100_000))
    ethtool.answers["eth0", FEC] = attribute(4, struct.pack("=I", RS_BIT))
    assert await KernelLinkDetails(ethtool, InlineOffload()).read_details("eth0") == LinkStateData(
        up=True, why_down=None, detail=None, downs=7, autoneg=True, speed_mbps=100_000, fec="rs"
    )


@pytest.mark.parametrize(
    ("why", "detail", "words"),
    [
        (NO_CABLE, None, ("no cable", None)),
        (AUTONEG, NO_PARTNER, ("autoneg", "no partner detected")),
        (2, 5, ("link logical mismatch", "RS FEC is not locked")),
        (3, 4, ("bad signal integrity", "serdes ALOS")),
        (10, 1, ("module", "CMIS module is not in the ready state")),
        (200, 3, ("extended state 200", "substate 3")),
        (None, None, (None, None)),
    ],
)
async def test_why_a_link_is_down_is_told_in_words(
    ethtool: PlayedEthtool, why: int | None, detail: int | None, words: tuple[str | None, str | None]
) -> None:
    ethtool.answers["eth0", LINKSTATE] = link_state(up=False, why=why, detail=detail)
    details = await KernelLinkDetails(ethtool, InlineOffload()).read_details("eth0")
    assert (details.up, details.why_down, details.detail) == (False, *words)
    assert (details.downs, details.autoneg, details.speed_mbps, details.fec) == (None, None, None, None)


@given(st.integers(0, 255) | st.none(), st.integers(0, 255) | st.none())
def test_any_numbers_have_words_or_none(why: int | None, detail: int | None) -> None:
    assert (why_words(why) is None) == (why is None)
    assert detail_words(why, detail) is None or why is not None


async def test_what_a_nic_refuses_is_said_and_a_fault_of_it_is_none(ethtool: PlayedEthtool) -> None:
    for number, error in ((errno.EOPNOTSUPP, RefusedError), (errno.EIO, LinkError)):
        ethtool.refusals["eth0"] = number
        with pytest.raises(error, match="not supported" if error is RefusedError else "eth0: .*Input/output error"):
            await KernelLinkDetails(ethtool, InlineOffload()).read_details("eth0")


@pytest.mark.kernel
async def test_a_veth_tells_its_link_and_speed_and_no_fec(keeper: Keeper, crossbar: Crossbar) -> None:
    crossbar.plug("p0", host="h0", interface="eth0")
    details = KernelLinkDetails(keeper.sockets("h0"), InlineOffload())
    down = await details.read_details("eth0")
    assert (down.up, down.why_down, down.fec, down.downs) == (False, None, None, None)
    crossbar.carrier("p0", True)
    up = await details.read_details("eth0")
    assert (up.up, up.speed_mbps, up.autoneg) == (True, 10_000, False)
    with pytest.raises(LinkError, match="eth9: cannot read the state of the link: no such interface"):
        await details.read_details("eth9")


@pytest.mark.kernel
async def test_the_driver_of_an_interface_is_named_or_refused_in_words(keeper: Keeper, crossbar: Crossbar) -> None:
    crossbar.plug("p0", host="h0", interface="eth0")
    drivers = KernelDrivers(keeper.sockets("h0"), InlineOffload())
    found = await drivers.read_driver("eth0")
    assert (found.name, found.firmware) == ("veth", None)
    with pytest.raises(RefusedError, match="lo: cannot read its driver: Operation not supported"):
        await drivers.read_driver("lo")
    for interface in ("eth7", "a-name-that-is-too-long"):
        with pytest.raises(LinkError, match=interface):
            await drivers.read_driver(interface)
