"""Counters of interfaces and of IP, judged by what was sent and by sysfs; pause frames of a played NIC."""

import contextlib
import os
import socket
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink import NETLINK_GENERIC

from hwd.twin.kernel import Crossbar, Keeper
from hwd.twin.kernel.hosts import HostNetwork
from hwd_agents.sources.kernel.ethtool import Ethtool
from hwd_agents.sources.kernel.ip_counters import KernelIpCounters, parse_ip, parse_ip6
from hwd_agents.sources.kernel.netlink_requests import NetlinkRequests
from hwd_agents.sources.kernel.port_counters import KernelBytes, KernelCounters, parse_retransmissions
from hwd_agents.sources.kernel.sockets import HostSockets
from hwd_drivers.core.errors import LinkError, ProtocolError
from hwd_drivers.core.offload import InlineOffload

from ..played_ethtool import PlayedEthtool, attribute

PAUSE = 21
SENT = 20
SNMP = """Ip: Forwarding DefaultTTL InReceives ForwDatagrams InDelivers
Ip: 1 64 1000 17 983
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
async def test_counters_and_bytes_of_a_namespace_are_its_own_and_follow_an_interface_that_is_made_anew(
    keeper: Keeper, crossbar: Crossbar
) -> None:
    crossbar.plug("p0", host="h0", interface="eth0")
    source = KernelBytes(keeper.sockets("h0"))
    counters = KernelCounters(keeper.sockets("h0"), InlineOffload(), snmp=None)
    found = source.read_bytes(["eth0", "eth9", "lo"])
    counted = await counters.read_counters("eth0")
    assert (counted.rx_errors, counted.rx_pause, await counters.read_retransmissions()) == (0, None, None)
    with pytest.raises(LinkError, match="eth9: cannot read the counters of eth9: No such device"):
        await counters.read_counters("eth9")
    assert {name: (one.rx, one.tx) for name, one in found.items()} == {
        "eth0": (counted.rx_bytes, counted.tx_bytes),
        "lo": (0, 0),
    }
    crossbar.unplug("p0")
    assert source.read_bytes(["eth0"]) == {}
    crossbar.plug("p0", host="h0", interface="eth0")
    assert source.read_bytes(["eth0"])["eth0"].interface != found["eth0"].interface
    source.close()


async def test_retransmissions_are_those_of_this_host(tmp_path: Path) -> None:
    found = await KernelCounters(HostSockets(), InlineOffload()).read_retransmissions()
    assert found is not None
    assert found >= 0
    assert parse_retransmissions(SNMP) == 17
    missing = KernelCounters(HostSockets(), InlineOffload(), snmp=tmp_path / "snmp")
    with pytest.raises(LinkError, match="cannot read the retransmissions: No such file"):
        await missing.read_retransmissions()


class Files:
    """A folder in the place of /proc/net."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open_file(self, name: str) -> int:
        return os.open(self.folder / name, os.O_RDONLY)


@pytest.mark.kernel
def test_datagrams_of_a_namespace_are_counted_there_and_nowhere_else(keeper: Keeper, crossbar: Crossbar) -> None:
    for host in ("h0", "h1"):
        network = HostNetwork(keeper, host)
        network.prepare()
        network.close()
    counters = {host: KernelIpCounters(keeper.sockets(host)) for host in ("h0", "h1")}
    before = {host: one.read_ip() for host, one in counters.items()}
    with (
        keeper.socket("h0", socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        keeper.socket("h0", socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        for _ in range(SENT):
            sender.sendto(bytes(100), receiver.getsockname())
    after = {host: one.read_ip() for host, one in counters.items()}
    assert SENT <= after["h0"][0] - before["h0"][0] < 2 * SENT
    assert after["h1"][0] - before["h1"][0] < SENT
    assert (after["h0"][1], after["h1"][1]) == (0, 0)
    for one in counters.values():
        one.close()


def test_those_of_this_host_are_read_and_both_versions_of_ip_together(tmp_path: Path) -> None:
    own = KernelIpCounters(HostSockets())
    received, forwarded = own.read_ip()
    assert received >= forwarded >= 0
    own.close()
    (tmp_path / "snmp").write_text(SNMP)
    played = KernelIpCounters(Files(tmp_path))
    assert played.read_ip() == (1000, 17)
    (tmp_path / "snmp6").write_text("Ip6InReceives  \t5\nIp6OutForwDatagrams  \t2\n")
    assert played.read_ip() == (1005, 19)
    played.close()
    (tmp_path / "snmp").unlink()
    with pytest.raises(LinkError, match=r"the IP counters cannot be read: .*No such file"):
        played.read_ip()


NO_NUMBERS = ("", "{0}: {1}\n", "{0}: {1} ForwDatagrams\n{0}: x 1\n", "{0}: A\n{0}: 1\n")


def test_a_file_without_them_is_refused() -> None:
    for text in NO_NUMBERS:
        with pytest.raises(ProtocolError, match="no RetransSegs"):
            parse_retransmissions(text.format("Tcp", "RetransSegs"))
        with pytest.raises(ProtocolError):
            parse_ip(text.format("Ip", "InReceives"))
        with pytest.raises(ProtocolError, match="no Ip6InReceives"):
            parse_ip6(text.format("Ip", "InReceives"))


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ProtocolError):
        assert parse_retransmissions(text) >= 0
    for parse in (parse_ip, parse_ip6):
        with contextlib.suppress(ProtocolError):
            assert min(parse(text)) >= 0
