"""Counters of NIC ports (bytes, packets, pause frames) and of TCP on their hosts, as kernels count them, in series."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from hwd.telemetry.reading import number
from hwd.telemetry.series import Series

DIRECTIONS: Final = {"rx": "received", "tx": "sent"}


class PortCounters:
    """Takes the events `counters` of agents. An agent sends them only where its file asks for them."""

    def __init__(self, *, hosts: int, ports: int) -> None:
        nic = ("host", "device", "direction")
        limit = ports * len(DIRECTIONS)
        self._by_key = {
            "bytes": Series("hwd_nic_bytes_total", "Bytes that a port carried", *nic, limit=limit, counter=True),
            "packets": Series("hwd_nic_packets_total", "Packets that a port carried", *nic, limit=limit, counter=True),
            "pause": Series("hwd_nic_pause_frames_total", "Pause frames of a port", *nic, limit=limit, counter=True),
        }
        self._retransmissions = Series(
            "hwd_host_tcp_retransmissions_total",
            "Segments that TCP of a host sent again, on all ports",
            "host",
            limit=hosts,
            counter=True,
        )

    def __iter__(self) -> Iterator[Series]:
        yield from self._by_key.values()
        yield self._retransmissions

    def take(self, host: str, device: str, data: Mapping[str, Any]) -> None:
        """One event of a port."""
        for key, series in self._by_key.items():
            for direction, word in DIRECTIONS.items():
                if (count := number(data, f"{direction}_{key}")) is not None:
                    series.set(max(0.0, count), host, device, word)
        if (count := number(data, "tcp_retransmissions")) is not None:
            self._retransmissions.set(max(0.0, count), host)

    def drop(self, host: str) -> None:
        """Its agent is disconnected: its counters are not known any more."""
        for series in self:
            series.drop(host)
