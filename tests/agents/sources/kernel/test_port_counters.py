"""Counters of interfaces of the kernel, judged by what was sent and by sysfs; pause frames of a played NIC."""

import contextlib
import socket
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink import NETLINK_GENERIC

from hwd.twin.kernel import Crossbar, Keeper
from hwd_agents.sources.kernel.ethtool import Ethtool
from hwd_agents.sources.kernel.netlink_requests import NetlinkRequests
from hwd_agents.sources.kernel.port_counters import KernelBytes, KernelCounters, parse_retransmissions
from hwd_agents.sources.kernel.sockets import HostSockets
from hwd_drivers.core.errors import LinkError, ProtocolError
from hwd_drivers.core.offload import InlineOffload

from ..played_ethtool import PlayedEthtool, attribute

PAUSE = 21
SNMP = """Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm ActiveOpens InSegs OutSegs RetransSegs InErrs
Tcp: 1 3 1000 990 17 0
Udp: InDatagrams
Udp: 4
"""


def test_pause_frames_are_those_of_the_statistics(ethtool: PlayedEthtool) -> None:
    stats = attribute(2, struct.pack("=Q", 7)) + attribute(3, struct.pack("=Q", 2**40))
    ethtool.answers["eth0", PAUSE] = attribute(2, b"\x01") + attribute(5, stats)
    ethtool.answers["eth1", PAUSE] = attribute(2, b"\x01")
    with NetlinkRequests(ethtool, NETLINK_GENERIC) as kernel:
        assert Ethtool(kernel).pause_frames("eth0") == (2**40, 7)
        assert Ethtool(kernel).pause_frames("eth1") == (None, None)


async def test_loopback_counts_what_is_sent_over_it_as_sysfs_does() -> None:
    counters = KernelCounters(HostSockets(), InlineOffload())
    before = await counters.read_counters("lo")
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        for _ in range(10):
            sender.sendto(bytes(1000), receiver.getsockname())
    after = await counters.read_counters("lo")
    folder = Path("/sys/class/net/lo/statistics")
    assert after.rx_packets - before.rx_packets >= 10
    assert after.tx_bytes - before.tx_bytes >= 10 * 1028
    assert after.rx_bytes <= int((folder / "rx_bytes").read_text())
    assert after.tx_packets <= int((folder / "tx_packets").read_text())
    assert (after.rx_pause, after.tx_pause) == (None, None)


@pytest.mark.kernel
async def test_counters_of_a_namespace_are_its_own_and_retransmissions_are_unknown_there(
    keeper: Keeper, crossbar: Crossbar
) -> None:
    crossbar.plug("p0", host="h0", interface="eth0")
    counters = KernelCounters(keeper.sockets("h0"), InlineOffload(), snmp=None)
    found = await counters.read_counters("eth0")
    assert (found.rx_errors, found.rx_pause) == (0, None)
    assert await counters.read_retransmissions() is None
    with pytest.raises(LinkError, match="eth9: cannot read the counters of eth9: No such device"):
        await counters.read_counters("eth9")


@pytest.mark.kernel
async def test_bytes_are_those_of_the_counters_and_follow_an_interface_that_is_made_anew(
    keeper: Keeper, crossbar: Crossbar
) -> None:
    crossbar.plug("p0", host="h0", interface="eth0")
    source = KernelBytes(keeper.sockets("h0"))
    counters = KernelCounters(keeper.sockets("h0"), InlineOffload(), snmp=None)
    found = source.read_bytes(["eth0", "eth9", "lo"])
    counted = await counters.read_counters("eth0")
    assert {name: (one.rx, one.tx) for name, one in found.items()} == {
        "eth0": (counted.rx_bytes, counted.tx_bytes),
        "lo": (0, 0),
    }
    crossbar.unplug("p0")
    assert source.read_bytes(["eth0"]) == {}
    crossbar.plug("p0", host="h0", interface="eth0")
    assert source.read_bytes(["eth0"])["eth0"].ifindex != found["eth0"].ifindex
    source.close()


async def test_retransmissions_are_those_of_this_host(tmp_path: Path) -> None:
    found = await KernelCounters(HostSockets(), InlineOffload()).read_retransmissions()
    assert found is not None
    assert found >= 0
    assert parse_retransmissions(SNMP) == 17
    missing = KernelCounters(HostSockets(), InlineOffload(), snmp=tmp_path / "snmp")
    with pytest.raises(LinkError, match="cannot read the retransmissions: No such file"):
        await missing.read_retransmissions()


@pytest.mark.parametrize("text", ["", "Tcp: RetransSegs\n", "Tcp: RetransSegs\nTcp: x\n", "Tcp: A B\nTcp: 1\n"])
def test_a_file_without_them_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="no RetransSegs"):
        parse_retransmissions(text)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ProtocolError):
        assert parse_retransmissions(text) >= 0
