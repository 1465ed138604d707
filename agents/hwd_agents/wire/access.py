"""Access: who may make each call, and by what a holder proves that it is one. The lines of a host's sockets, and what
agents ask of the daemon; `hwd.web.access` has the calls over HTTP beside them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Who(StrEnum):
    """Who may make a call."""

    HOLDER = "holder"
    """Whoever holds what the call changes, by its proof. What a job holds is the job's alone."""
    OPERATOR = "operator"
    """Anybody with a token of the daemon, also on what is another's: who and why are recorded."""
    ANYONE = "anyone"
    """Whoever gets there: with a token over HTTP, of the group of a socket on a host."""


class Proof(StrEnum):
    """The proof of a holder that it is one."""

    KEY = "key"
    """The secret of a job, which its ranks have in their environment."""
    EPOCH = "epoch"
    """The epoch of the lease; it may be left out where no job holds that."""
    CONNECTION = "connection"
    """The one over which a transfer was claimed."""
    HOST = "host"
    """The broker, which knows each host by its password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The access of one call. `proof`: of a holder. `may_override`: an operator may do it to what a job holds, with
    `override: {job: WHY}`, which is recorded.
    """

    who: Who
    proof: Proof | None = None
    may_override: bool = False

    def __str__(self) -> str:
        proof = f" by {self.proof}" if self.proof else ""
        return f"{self.who}{proof}{', or by override' if self.may_override else ''}"


ANYONE: Final = Access(who=Who.ANYONE)
OPERATOR: Final = Access(who=Who.OPERATOR)

LINES: Final[Mapping[str, Access]] = MappingProxyType(
    {
        # the transfer socket
        "claim": Access(who=Who.HOLDER, proof=Proof.KEY),
        "end": Access(who=Who.HOLDER, proof=Proof.CONNECTION),
        "switch": Access(who=Who.HOLDER, proof=Proof.KEY),
        "join": Access(who=Who.HOLDER, proof=Proof.KEY),
        "ask": Access(who=Who.HOLDER, proof=Proof.KEY),
        "done": Access(who=Who.HOLDER, proof=Proof.KEY),
        # the selection socket: of the host's own switches, which no job can lease
        "set": Access(who=Who.HOLDER, proof=Proof.EPOCH),
        "show": ANYONE,
    }
)
"""By the field of a line that says what it is. `claim` and `switch` need the key only where a job holds the lease."""

ASKS: Final[Mapping[str, Access]] = MappingProxyType(
    {
        "claim-transfer": LINES["claim"],
        "end-transfers": Access(who=Who.HOLDER, proof=Proof.HOST),
        "switch-set": LINES["switch"],
        "join-job": LINES["join"],
        "claim-operation": LINES["ask"],
        "end-operation": LINES["done"],
    }
)
"""By the verb of what an agent asks of the daemon. An agent ends transfers of its own host alone, for its lines `end`
and for connections that have ended.
"""
