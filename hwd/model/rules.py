"""The rules of a testbed file: what the daemon does on its own, what it demands, and what it deletes."""

from dataclasses import dataclass
from enum import StrEnum


class DriftPolicy(StrEnum):
    """The daemon's policy where a switch differs from the desired state, by no command of hwd."""

    REPORT = "report"
    """Say so, and do nothing."""
    ADOPT = "adopt"
    """What somebody else set is desired from then on. What a switch lost by a restart never is."""
    RESTORE = "restore"
    """Bring the desired state back, a few times at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRules:
    """The key `leases` of a testbed file. `required`: who changes light needs a lease of each port whose light changes.

    `baseline`: at the end of a lease its ports get the crossconnects that they had before the first change under it.
    """

    required: bool = False
    baseline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRules:
    """The key `transfers` of a testbed file. `longest_s`: the longest phase that a process may claim ports for.

    `drain_s`: how long a way back waits for the end of the transfers on its ports before it cuts them.
    """

    longest_s: float = 600.0
    drain_s: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """The key `retention` of a testbed file: after how many days documents outside of runs are deleted; None: never.

    `history_days`: of those that `hwd history` and `hwd rollback --to` read. `documents_days`: of all others.
    """

    documents_days: int | None = None
    history_days: int | None = None
