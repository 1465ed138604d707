"""Counters of NIC ports (bytes, packets, pause frames) and of TCP on their hosts, as kernels count them, in series."""

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET

from hwd.telemetry.series import Series
from hwd_agents.wire.events import CounterData

DIRECTIONS: Final = ("received", "sent")


class PortCounters:
    """Takes the events `counters` of agents. An agent sends them only where its file asks for them."""

    def __init__(self, *, hosts: int, ports: int) -> None:
        nic = ("host", "device", "direction")
        limit = ports * len(DIRECTIONS)
        self._bytes = Series("hwd_nic_bytes_total", "Bytes that a port carried", *nic, limit=limit)
        self._packets = Series("hwd_nic_packets_total", "Packets that a port carried", *nic, limit=limit)
        self._pause = Series("hwd_nic_pause_frames_total", "Pause frames of a port", *nic, limit=limit)
        self._retransmissions = Series(
            "hwd_host_tcp_retransmissions_total",
            "Segments that TCP of a host sent again, on all ports",
            "host",
            limit=hosts,
        )

    def __iter__(self) -> Iterator[Series]:
        yield from (self._bytes, self._packets, self._pause, self._retransmissions)

    def take(self, host: str, device: str, data: CounterData) -> None:
        for series, *counts in (
            (self._bytes, data.rx_bytes, data.tx_bytes),
            (self._packets, data.rx_packets, data.tx_packets),
            (self._pause, data.rx_pause, data.tx_pause),
        ):
            for direction, count in zip(DIRECTIONS, counts, strict=True):
                if count is not None:
                    series.set(count, host, device, direction)
        if data.tcp_retransmissions is not UNSET and data.tcp_retransmissions is not None:
            self._retransmissions.set(data.tcp_retransmissions, host)

    def drop(self, host: str) -> None:
        """Its agent is disconnected: its counters are not known any more."""
        for series in self:
            series.drop(host)
