"""The lines of the transfer socket: JSON, one in a line. Processes claim and end transfers, switch prepared sets, and
ask for the operations of jobs.

{"claim": {"links": ["eth0"], "phase": "all-reduce 7", "within_s": 5}, "id": 1}
{"id": 1, "outcome": "go", "transfer": "8f14e45f-1", "within_s": 5.0, "why": ""}
{"end": "8f14e45f-1", "id": 2}
{"id": 2, "outcome": "ended", "transfer": "8f14e45f-1", "within_s": null, "why": ""}
{"over": "8f14e45f-1", "why": "..."}        sent by the agent as soon as it knows
{"switch": {"prepared_set": "p7x2a1b9", "target": "crossed", "within_s": 10}, "id": 3}
{"id": 3, "outcome": "switched", "reconfiguration": "k3v9a1xx", "target": "crossed", "why": ""}

Ranks of jobs ask their control plane before they send; an operation is a transfer from its `go` to its `end`:

{"join": {"job": "j7x2a1b9", "rank": 0, "key": "..."}, "id": 4}
{"id": 4, "outcome": "joined", "joined": {"ranks": [...], "groups": {"world": [0, 1]}}, "why": ""}
{"ask": {"job": "j7x2a1b9", "rank": 0, "key": "...", "within_s": 5, "wait_s": 60,
         "operation": {"group": "world", "kind": "all-reduce", "index": 7, "size_bytes": 4096}}, "id": 5}
{"id": 5, "outcome": "go", "transfer": "8f14e45f-2", "within_s": 5.0, "why": ""}     `links` too where it says `parts`
{"done": {"job": "j7x2a1b9", "rank": 0, "key": "...", "operation": {...}}, "id": 6}     after a restart of the agent
{"id": 6, "outcome": "ended", "transfer": "", "within_s": null, "why": ""}
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hwd_agents.wire.bounds import LINKS_MOST, PORTS_MOST, At, Name, Number, Seconds, Text
from hwd_agents.wire.jobs import JobJoined, Key, RankNumber
from hwd_agents.wire.operations import Operation
from hwd_agents.wire.prepared_sets import ReconfigurationId


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ports or links of this host (`eth0`, `h0.eth0`, `h0.eth0<->h1.eth0`), the phase of the work and its longest time.

    `wait_s`: how long to wait for ports that are being moved. `process`: a name, such as `rank 3`. `key`: of the job
    that has leased them, where one has.
    """

    links: Annotated[list[Name], Meta(min_length=1, max_length=PORTS_MOST)]
    within_s: Seconds
    phase: Name = "-"
    wait_s: Annotated[float, Meta(ge=0, le=60.0)] = 0.0  # not 60: typing has one object for equal ones, also in schemas
    process: Annotated[str, Meta(max_length=64)] = ""
    key: Key | None = None


class Switch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bring a prepared set to one of its targets. `within_s`: how long the answer is of use.

    `epoch`: of the set's lease; refused where another is in force. `reconfiguration`: the id of this switch, drawn by
    the agent where none is named; one that was used before is refused. `process`: a name, such as `rank 3`. `key`: of
    the job that holds the set, where one does: it alone switches it.
    """

    prepared_set: Name
    target: Name
    within_s: Annotated[float, Meta(gt=0, le=60)] = 30.0
    epoch: Number | None = None
    reconfiguration: ReconfigurationId | None = None
    process: Annotated[str, Meta(max_length=64)] = ""
    key: Key | None = None


class Rank(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rank of a job, with the secret that it has in its environment."""

    job: Name
    rank: RankNumber
    key: Key


class AskOperation(Rank, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rank is about to send. `within_s`: the longest time of it. `wait_s`: how long the answer is waited for; where
    none came, it may be asked again.
    """

    operation: Operation
    within_s: Seconds
    wait_s: Annotated[float, Meta(gt=0, le=60)] = 60.0


class DoneOperation(Rank, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operation has ended. Only for a rank whose agent was started anew since its `go`: any other one ends the
    transfer.
    """

    operation: Operation


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line that a process sends, with one of these messages. `id` is returned in the answer."""

    claim: Claim | None = None
    end: Name | None = None
    switch: Switch | None = None
    join: Rank | None = None
    ask: AskOperation | None = None
    done: DoneOperation | None = None
    id: Text | At | None = None


class AnswerLine(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a claim, an operation or an end. `outcome`: `go`: send now, for `within_s` from the claim at the
    longest; `ended`; `over`: it had ended before, for `why`; `refused`: do not send, for `why`; `failed`: the daemon
    cannot be asked now, do not send. `links`: as in `OperationGranted`, where there are any.
    """

    id: Text | At | None = None
    outcome: Literal["go", "ended", "over", "refused", "failed"]
    transfer: Name = ""
    within_s: float | None = None
    why: Text = ""
    links: Annotated[list[Text], Meta(max_length=LINKS_MOST)] | UnsetType = UNSET


class SwitchAnswerLine(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to the ask for a switch of a set. `outcome`: `switched`: the set is at `target`, read back and
    confirmed; `refused`: it was not switched, for `why`; `failed`: `why` says whether its switches went back, or that
    this is not known. `reconfiguration`: the id of the switch, empty where it was not asked for.
    """

    id: Text | At | None = None
    outcome: Literal["switched", "refused", "failed"]
    reconfiguration: Name = ""
    target: Name = ""
    why: Text = ""


class JoinAnswerLine(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a rank that joins. `outcome`: `joined`; `refused`: it is no rank of that job, for `why`; `failed`:
    the daemon cannot be asked now.
    """

    id: Text | At | None = None
    outcome: Literal["joined", "refused", "failed"]
    joined: JobJoined | None = None
    why: Text = ""


class OverLine(msgspec.Struct, frozen=True, kw_only=True):
    """A transfer is over before its process has ended it."""

    over: Name
    why: Text
