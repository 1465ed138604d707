"""Transfers in flight: what an agent asks of the daemon about them, and what the daemon commands and is answered."""

from typing import Annotated

import msgspec
from msgspec import Meta

from .arguments import Arguments
from .bounds import PORTS_MOST, Name, Seconds, Text
from .jobs import EndedOperation, Key

TRANSFERS_MOST = 1024
"""Transfers of one host at a time."""

Ports = Annotated[list[Name], Meta(min_length=1, max_length=PORTS_MOST)]
Transfers = Annotated[list[Name], Meta(max_length=TRANSFERS_MOST)]
EndedOperations = Annotated[list[EndedOperation], Meta(max_length=TRANSFERS_MOST)]


class TransferGranted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `claim-transfer`: it may go, for `within_s` at the longest, after a wait of `waited_s` for its
    ports.
    """

    within_s: Seconds
    waited_s: Seconds = 0.0


class SaidTransfer(msgspec.Struct, frozen=True, kw_only=True):
    """A transfer as a process says it: the id that its agent has chosen, over which ports of the host, without its
    name, for which phase of the work of which process.
    """

    transfer: Name
    ports: Ports
    phase: Name
    process: Name


class ClaimTransfer(SaidTransfer, Arguments[TransferGranted], frozen=True, kw_only=True):
    """A process of the host is about to send over `ports`, for one `phase` of `within_s` at most.

    `transfer`: its id, chosen by the agent. `ports`: of this host, without its name. `wait_s`: how long it waits for
    ports that are being moved; 0: it is refused at once. `key`: of the job that has leased them, where one has.
    """

    VERB = "claim-transfer"
    ANSWER = TransferGranted

    within_s: Seconds
    wait_s: Seconds = 0.0
    key: Key | None = None


class TransfersEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `end-transfers`: why some were over before, by transfer."""

    over: Annotated[dict[Name, Text], Meta(max_length=TRANSFERS_MOST)] = {}


class EndTransfers(Arguments[TransfersEnded], frozen=True, kw_only=True):
    """These transfers have ended. `operations`: those of them that were operations of jobs, which are told until the
    daemon has answered, since a plane waits for each end.
    """

    VERB = "end-transfers"
    ANSWER = TransfersEnded

    transfers: Transfers
    operations: EndedOperations = msgspec.field(default_factory=list)


class StandingTransfer(SaidTransfer, frozen=True, kw_only=True):
    """A transfer as the agent has it. `left_s`: until its longest time is over."""

    left_s: Seconds


class StandingTransfers(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `report-transfers`: the transfers that were granted and have not ended."""

    transfers: Annotated[list[StandingTransfer], Meta(max_length=TRANSFERS_MOST)] = []


class ReportTransfers(Arguments[StandingTransfers], frozen=True, kw_only=True):
    """Say which transfers are in flight now."""

    VERB = "report-transfers"
    ANSWER = StandingTransfers


class TransfersCut(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `cut-transfers`: the transfers among them whose process was still sending, and was told."""

    told: Transfers = []


class CutTransfers(Arguments[TransfersCut], frozen=True, kw_only=True):
    """The light of these transfers is cut, and why."""

    VERB = "cut-transfers"
    ANSWER = TransfersCut

    transfers: Transfers
    why: Text
