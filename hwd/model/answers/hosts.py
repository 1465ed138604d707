"""Hosts, their clocks and ports in the answers of the API."""

from msgspec import field
from typing_extensions import override

from hwd.model.answers.answer import Answer
from hwd.model.documents.hosts import HostPort
from hwd_agents.wire import HeldSetting, WallClock


class ClockStepReport(Answer, frozen=True, kw_only=True):
    """A step of the clock of a host: by how much, with its bound, and between which two times of the daemon's clock."""

    by_ns: int
    error_ns: int
    earliest_ns: int
    latest_ns: int


class HostClock(Answer, frozen=True, kw_only=True):
    """The clock of a host against the daemon's, and how it is measured.

    `via`: how the last requests were sent, or null. `steps`: of its clock in this boot; `step`: the last of them.
    """

    boot: str
    offset_ns: int
    drift_ppm: float
    error_ns: int
    agent_ns: int
    samples: int
    drift_error_ppm: float
    round_trip_ns: int
    via: str | None
    why_not_udp: str
    steps: int
    step: ClockStepReport | None


class HostSpool(Answer, frozen=True, kw_only=True):
    """The spool of an agent. `trouble`: what is wrong with it and its remedy, or empty."""

    bytes: int | None
    limit_bytes: int | None
    trouble: str


NEVER_HEARD = "no agent of it was heard since the daemon started"
BUS_BACK = "nothing was heard of it since the broker is back"


class HostStatus(Answer, frozen=True, kw_only=True):
    """A host, as its agent reports it.

    `cause`: why it is not up. `since_wall_ns`: since when its agent is connected or disconnected, None where the daemon
    did not see that begin. `heard_wall_ns`: when its last message came. `boot`, `version`, `wall_clock` and `spool`
    are None until the agent first connects, `clock` until its clock is aligned. `settings`: those that runs have
    changed and that were not put back yet. `lost`: events that are gone, since the daemon started. `rival`: another
    boot that claims to be this host. `trouble`: the work of the daemon that fails for this host. `selection`: why jobs
    there cannot set its switches. `skew`: why the version of its agent does not fit the daemon's. Texts are empty where
    all is well.
    """

    host: str
    up: bool
    cause: str
    since_wall_ns: int | None = None
    heard_wall_ns: int | None = None
    boot: str | None = None
    version: str | None = None
    clock: HostClock | None = None
    wall_clock: WallClock | None = None
    ports: dict[str, HostPort] = field(default_factory=dict)
    settings: list[HeldSetting] = field(default_factory=list)
    lost: int = 0
    rival: str | None = None
    trouble: str = ""
    spool: HostSpool | None = None
    selection: str = ""
    skew: str = ""

    @property
    def name(self) -> str:
        return self.host

    @property
    def is_known(self) -> bool:
        """Whether it is known that it is up or down: nothing was heard of it yet where this is False."""
        return self.up or self.cause not in (NEVER_HEARD, BUS_BACK)

    @property
    def aligned(self) -> bool:
        """Whether its clock is aligned with the daemon's."""
        return self.clock is not None

    @override
    def __str__(self) -> str:
        lit = sum(bool(port.carrier) for port in self.ports.values())
        if not self.up:
            return f"{self.name} {'down' if self.is_known else 'unknown'}: {self.cause}"
        return f"{self.name} up, {lit} of {len(self.ports)} ports with carrier"
