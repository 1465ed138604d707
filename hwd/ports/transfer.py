"""Transfers: what a process of a host says that it is sending now, for one phase of its work."""

from dataclasses import dataclass

from hwd_agents.wire import SaidTransfer


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A transfer, as the agent of `host` `said` it, in `boot` of it. `ports`: those of it with their host, `h0.eth0`.
    Times are of the daemon's monotonic clock: `until_ns` is the end of its longest time.
    """

    said: SaidTransfer
    host: str
    boot: str
    ports: frozenset[str]
    since_ns: int = 0
    until_ns: int = 0

    @property
    def name(self) -> str:
        """Its name in the ledger: agents of two hosts may choose one id."""
        return f"{self.host}/{self.said.transfer}"

    @property
    def owner(self) -> str:
        """`rank 3, pid 4711 on h0`."""
        return f"{self.said.process} on {self.host}"

    def __str__(self) -> str:
        return f"transfer {self.name} of {self.owner}, phase {self.said.phase}"

    def left_s(self, now_ns: int) -> float:
        """Seconds until its longest time is over."""
        return max(0.0, (self.until_ns - now_ns) / 1e9)
