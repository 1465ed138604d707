"""Claims: ports that somebody has, with the reason."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from hwd.model.plural import plural
from hwd.ports.rules import ROWS, Reason
from hwd_drivers.core.values import natural_key

_RUN: Final = "run "
_JOB: Final = re.compile(r"job ([0-9a-z]{8}) \(.+\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim of `owner` on `ports`, and why. `id` is what commands name; a reason has one claim of an id.

    A port is `ocs1.3` (both sides of a switch port) or `h0.eth0`. Times are unix times, so that they survive a restart
    of the daemon; `expires_wall_ns` None: only its owner ends it. `since_wall_ns` is the beginning of a reservation.
    `epoch`: that of a lease or a delegation, None before the first grant. `run`: the run that it belongs to.

    `relies_on`: ports that it does not change and that must not change under it. `switches`: those that it uses;
    `whole`: nobody else may use them at all. `at_rest`: of a reconfiguration, it moves nothing now and waits for its
    confirm. `what`: what it is for; `why`: why it is not free yet, both in words;
    `Ledger.report_why` makes it anew at each question.
    """

    id: str
    reason: Reason
    owner: str
    ports: frozenset[str]
    run: str | None = None
    since_wall_ns: int = 0
    expires_wall_ns: int | None = None
    epoch: int | None = None
    relies_on: frozenset[str] = frozenset()
    switches: frozenset[str] = frozenset()
    whole: bool = False
    at_rest: bool = False
    what: str = ""
    why: str = ""

    def __str__(self) -> str:
        return f"{self.reason} {self.id} of {self.owner} on {plural(len(self.ports), 'port')}"

    def is_in_force(self, now_wall_ns: int) -> bool:
        return self.expires_wall_ns is None or self.expires_wall_ns > now_wall_ns

    def left_s(self, now_wall_ns: int) -> float:
        """Seconds to its expiry; infinite without one."""
        return float("inf") if self.expires_wall_ns is None else (self.expires_wall_ns - now_wall_ns) / 1e9

    def text(self, now_wall_ns: int, ports: Iterable[str] | None = None, *, waits: bool = False) -> str:
        """The one text of a refusal: which ports, by default all; whose they are, until when, and what to do next.

        `waits`: for who waits for its end and cannot act otherwise: what ends it.
        """
        named = ", ".join(sorted(self.ports if ports is None else ports, key=natural_key))
        return f"{named}: {self.says(now_wall_ns, waits=waits)}"

    def says(self, now_wall_ns: int, *, waits: bool = False) -> str:
        """Say the claim as `text` does, without the ports."""
        row = ROWS[self.reason]
        next_ = (row.ending if waits else "") or row.remedy
        if self.reason is Reason.LEASE and (job := job_of(self.owner)) is not None:  # nobody else acts under it
            next_ = f"Wait for its end. To end it before is up to whoever started it: `hwd job stop {job}`"
        return (f"{row.says}. {next_}" if next_ else row.says).format(
            id=self.id,
            owner=self.owner,
            run=self.run,
            what=self.what,
            why=self.why,
            left_s=self.left_s(now_wall_ns),
            begins=utc(self.since_wall_ns),
            ends="-" if self.expires_wall_ns is None else utc(self.expires_wall_ns),
        )


def lease(
    *,
    id: str,
    holder: str,
    ports: frozenset[str],
    taken_wall_ns: int,
    expires_wall_ns: int,
    epoch: int | None = None,
) -> Claim:
    """A lease; that of the holder `run k3v9` belongs to run k3v9."""
    return Claim(
        id=id,
        reason=Reason.LEASE,
        owner=holder,
        ports=ports,
        run=run_of(holder),
        since_wall_ns=taken_wall_ns,
        expires_wall_ns=expires_wall_ns,
        epoch=epoch,
    )


def utc(wall_ns: int) -> str:
    """A unix time for texts: `2027-01-10 22:30:00 UTC`."""
    return f"{datetime.fromtimestamp(wall_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def run_of(holder: str) -> str | None:
    """The run that a holder of leases is, None for anybody else."""
    return holder.removeprefix(_RUN) if holder.startswith(_RUN) else None


def job_of(holder: str) -> str | None:
    """The id of the job that a holder of leases is, `job k3v9a1xx (train)`; None for anybody else."""
    match = _JOB.fullmatch(holder)
    return None if match is None else match[1]


def holder_of(run: str) -> str:
    """The name of a run as a holder of leases."""
    return f"{_RUN}{run}"
