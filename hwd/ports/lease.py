"""Leases: exclusive, expiring claims on switch ports and NIC ports."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A claim of `holder` on `ports` until `expires_wall_ns` (unix time, so that it survives a restart of the daemon).

    A port is `ocs1.3` (both sides of a switch port) or `h0.eth0`. `id` is what commands name.
    """

    id: str
    holder: str
    ports: frozenset[str]
    taken_wall_ns: int
    expires_wall_ns: int

    def __str__(self) -> str:
        return f"lease {self.id} of {self.holder} on {len(self.ports)} ports"
