"""Transfers: what a process of a host says that it is sending now, for one phase of its work."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """`id` is chosen by the agent, in `boot` of it. Times are of the daemon's monotonic clock: `until_ns` is the end of
    its longest time.
    """

    id: str
    host: str
    boot: str
    process: str
    ports: frozenset[str]
    phase: str
    since_ns: int
    until_ns: int

    @property
    def name(self) -> str:
        """Its name in the ledger: agents of two hosts may choose one id."""
        return f"{self.host}/{self.id}"

    @property
    def owner(self) -> str:
        """`rank 3, pid 4711 on h0`."""
        return f"{self.process} on {self.host}"

    def __str__(self) -> str:
        return f"transfer {self.name} of {self.owner}, phase {self.phase}"

    def left_s(self, now_ns: int) -> float:
        """Seconds until its longest time is over."""
        return max(0.0, (self.until_ns - now_ns) / 1e9)
