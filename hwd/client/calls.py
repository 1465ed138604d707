"""Every call of the daemon, as a function that makes its `Call`: the single definition for both clients."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from hwd.client.answers import (
    Answer,
    Applied,
    Ended,
    GivenUp,
    HeldEnds,
    HeldLease,
    HostStatus,
    MadePlan,
    RecordedRun,
    Started,
    Status,
    SwitchStatus,
)
from hwd.client.call import Call
from hwd.client.document_list import DocumentList, document_of
from hwd_drivers.core.documents import Document, Json

if TYPE_CHECKING:
    from hwd.client.timelines import MeasuredTimeline, Timelines
    from hwd.model.run import RunStatus

AnswerT = TypeVar("AnswerT", bound=Answer)

DRIVE_S = 60.0
"""Added to the time that an apply may wait for readiness."""

OLDEST = "-.0"
"""An id before all events that the event stream retains."""

RUNS_PAGE = 500
"""Runs in one answer: the most that the daemon returns."""

Fault = Mapping[str, Json]
"""One fault, as `hwd.model.fault` reads it: {"switch": "ocs1", "fault": "slow", "seconds": 0.5}."""

# --- state


def status() -> Call[Status]:
    """The answer behind `hwd status`."""
    return Call(method="GET", path="/api/v1/status", read=Status)


def switches() -> Call[list[SwitchStatus]]:
    """All switches, with the state that they report."""
    return Call(method="GET", path="/api/v1/switches", read=lambda data: _each(SwitchStatus, data))


def hosts() -> Call[list[HostStatus]]:
    """Hosts, their agents, and the alignment of their clocks."""
    return Call(method="GET", path="/api/v1/hosts", read=lambda data: _each(HostStatus, data))


def reconfigurations() -> Call[list[Applied]]:
    """Reconfigurations that are under way."""
    return Call(method="GET", path="/api/v1/reconfigurations", read=lambda data: _each(Applied, data))


def documents(*, after: str | None = None, kinds: Iterable[str] = ()) -> Call[DocumentList]:
    """Retained events after an id, at once. Without `after` only the newest id, from which to continue."""
    query: dict[str, str | Sequence[str]] = {"kind": tuple(kinds)}
    if after is not None:
        query["after"] = after
    return Call(method="GET", path="/api/v1/documents", query=query, read=DocumentList.from_data)


# --- reconfigurations


def plan(
    *,
    what: str = "",
    file: tuple[str, str] | None = None,
    mode: str = "update",
    lease: str | None = None,
    ready_within_s: float | None = None,
    confirm_within_s: float | None = None,
) -> Call[MadePlan]:
    """Plan what an apply would move, without touching a switch. `file` is name and text of a topology file,
    in place of `what`.
    """
    body = _wanted(what, file, mode, lease, ready_within_s, confirm_within_s)
    return Call(method="POST", path="/api/v1/plans", body=body, read=MadePlan)


def apply(
    *,
    what: str = "",
    file: tuple[str, str] | None = None,
    mode: str = "update",
    lease: str | None = None,
    ready_within_s: float | None = None,
    confirm_within_s: float | None = None,
    id: str | None = None,
) -> Call[Applied]:
    """Plan and apply. Answers when the switches are read back and, where that was asked for, the links are ready.

    `id`: of the reconfiguration, 8 characters of a-z and 0-9; by default the daemon chooses one. With your own you can
    roll it back before the answer has come.
    """
    body = _wanted(what, file, mode, lease, ready_within_s, confirm_within_s) | _id(id)
    return _drive("/api/v1/reconfigurations", body, within_s=DRIVE_S + (ready_within_s or 0.0))


def apply_hash(hash: str, *, id: str | None = None, within_s: float = 10 * DRIVE_S) -> Call[Applied]:
    """Apply a plan of this daemon; `within_s` limits the whole of it. `id`: see `apply`."""
    return _drive("/api/v1/reconfigurations", {"hash": hash} | _id(id), within_s=within_s)


def confirm(reconfiguration: str | None = None) -> Call[Applied]:
    """Keep the new state. None: the only reconfiguration under way."""
    return _drive(f"/api/v1/reconfigurations/{_part(reconfiguration or '-')}/confirm")


def roll_back(reconfiguration: str | None = None) -> Call[Applied]:
    """Restore the state before it. None: the only reconfiguration under way."""
    return _drive(f"/api/v1/reconfigurations/{_part(reconfiguration or '-')}/rollback")


def give_up(reconfiguration: str, *, by: str = "a Python client") -> Call[GivenUp]:
    """Stop trying to roll back an interrupted reconfiguration, which frees its ports.

    The switches stay as they are. Raises RefusedError for a reconfiguration that is not open.
    """
    path = f"/api/v1/reconfigurations/{_part(reconfiguration)}/give-up"
    return Call(method="POST", path=path, body={"by": by}, read=GivenUp, within_s=DRIVE_S)


def timeline(reconfiguration: str) -> "Call[MeasuredTimeline]":
    """The timeline of a reconfiguration that has ended, as long as the event stream retains it. Raises FailedError
    where there is none.
    """

    def read(data: Any) -> "MeasuredTimeline":
        from hwd.client.timelines import Timelines

        return Timelines.of_documents(DocumentList.from_data(data).documents).of(reconfiguration)

    query = {"kind": ("timeline",), "after": OLDEST}
    return Call(method="GET", path="/api/v1/documents", query=query, read=read)


# --- runs


def start_run(
    *, text: str, file: str, parameters: Mapping[str, str] | None = None, due_wall_ns: int | None = None
) -> Call[Started]:
    """Start a playbook, or queue it: `due_wall_ns` is its earliest start.

    `events(after=started["after"])` delivers all its events.
    """
    body: dict[str, Json] = {"text": text, "file": file, "parameters": dict(parameters or {})}
    if due_wall_ns is not None:
        body["due_wall_ns"] = due_wall_ns
    return Call(method="POST", path="/api/v1/runs", body=body, read=Started)


def start_playbook(
    playbook: str | Path, *, parameters: Mapping[str, object] | None = None, due_wall_ns: int | None = None
) -> Call[Started]:
    """`start_run` of a file, or of a playbook that is part of hwd, by name. Included files are sent along."""
    from hwd.client.playbook_bundle import read_playbook

    defined = {key: str(value) for key, value in (parameters or {}).items()}
    file, text = read_playbook(playbook, defined)
    return start_run(text=text, file=file, parameters=defined, due_wall_ns=due_wall_ns)


def runs(*, limit: int = RUNS_PAGE, before: str | None = None) -> Call[list[RecordedRun]]:
    """The newest runs of the records, without the texts and inventories that `run` has.

    `before`: the id of the oldest run that you have, to get older ones.
    """
    query = {"limit": str(limit), **({} if before is None else {"before": before})}
    return Call(method="GET", path="/api/v1/runs", query=query, read=lambda data: _each(RecordedRun, data))


def run(id: str) -> Call[RecordedRun]:
    """One run, by its id or a prefix of it."""
    return Call(method="GET", path=_run(id), read=RecordedRun)


def run_state(id: str) -> "Call[RunStatus]":
    """The state of a run as one value: what it is doing, or how it ended."""
    return Call(method="GET", path=_run(id, "state"), read=_run_status)


def queue() -> "Call[list[RunStatus]]":
    """Runs that wait, in the order in which they will start."""
    return Call(method="GET", path="/api/v1/queue", read=lambda data: [_run_status(one) for one in data])


def pause(run: str, *, by: str) -> "Call[RunStatus]":
    """Pause a run after its present step; its lease is renewed meanwhile."""
    return Call(method="POST", path=_run(run, "pause"), body={"by": by}, read=_run_status)


def resume(run: str, *, by: str) -> "Call[RunStatus]":
    """Continue a run that was paused."""
    return Call(method="POST", path=_run(run, "resume"), body={"by": by}, read=_run_status)


def abort(run: str, *, by: str) -> Call[Ended]:
    """End a run in its safe state; answers when that is reached, within 5 s. A queued run is removed from the queue."""
    return Call(method="POST", path=_run(run, "abort"), body={"by": by}, read=Ended)


def run_documents(id: str) -> Call[list[Document]]:
    """All documents of a run, oldest first."""
    return Call(method="GET", path=_run(id, "documents"), read=lambda data: [document_of(one) for one in data])


def timelines(run: str) -> "Call[Timelines]":
    """The timelines of a run's reconfigurations, in their order."""

    def read(data: Any) -> "Timelines":
        from hwd.client.timelines import Timelines

        return Timelines.of_documents([document_of(one) for one in data])

    return Call(method="GET", path=_run(run, "documents"), read=read)


# --- leases


def leases() -> Call[list[HeldLease]]:
    """Leases in force."""
    return Call(method="GET", path="/api/v1/leases", read=lambda data: _each(HeldLease, data))


def take_lease(*, holder: str, ports: Sequence[str], for_s: float) -> Call[HeldLease]:
    """Lease ports (`ocs1.3`, `h0.eth0`, or `all`) for some seconds; raises RefusedError where one is leased already."""
    body: dict[str, Json] = {"holder": holder, "ports": list(ports), "for_s": for_s}
    return Call(method="POST", path="/api/v1/leases", body=body, read=HeldLease)


def renew_lease(lease: str, *, for_s: float) -> Call[HeldLease]:
    """Renew a lease: it expires `for_s` seconds from now."""
    return Call(method="POST", path=f"/api/v1/leases/{_part(lease)}/renew", body={"for_s": for_s}, read=HeldLease)


def release_lease(lease: str) -> Call[HeldLease]:
    """Release a lease."""
    return Call(method="POST", path=f"/api/v1/leases/{_part(lease)}/release", read=HeldLease)


def kick_lease(lease: str, *, by: str = "a Python client") -> Call[HeldLease]:
    """Revoke a lease. `by`: who revokes it; jobs on a host whose own switch it is learn that."""
    return Call(method="POST", path=f"/api/v1/leases/{_part(lease)}/kick", body={"by": by}, read=HeldLease)


def grant_lease(switch: str, *, by: str = "a Python client") -> Call[HeldLease]:
    """Delegate a switch again to the host that owns it, after `kick_lease` revoked that. Raises RefusedError where it
    was not revoked.
    """
    return Call(method="POST", path=f"/api/v1/leases/{_part(switch)}/grant", body={"by": by}, read=HeldLease)


# --- overrides


def block(
    switch: str, ends: Sequence[str], *, lease: str | None = None, why: str = "", by: str = "a Python client"
) -> Call[HeldEnds]:
    """Block fibre ends of a switch, whatever crossconnect they are in: `3A`, or a range `4A..6A`.

    Answers when the switch confirms it. Raises RefusedError where others lease a port whose light it is, and where the
    switch cannot do it.
    """
    return _override(switch, ends, "force-blocked", lease, why, by)


def unblock(
    switch: str, ends: Sequence[str], *, lease: str | None = None, why: str = "", by: str = "a Python client"
) -> Call[HeldEnds]:
    """Unblock fibre ends of a switch."""
    return _override(switch, ends, "normal", lease, why, by)


# --- faults


def fault(fault: Fault, *, lease: str | None = None) -> Call[None]:
    """Inject a fault into a twin, under a lease; {"fault": "clear"} ends all faults.

    Raises RefusedError where the subject is no twin, or others lease it.
    """
    body = {**fault, "lease": lease}
    return Call(method="POST", path="/api/v1/faults", body=body, read=lambda data: None)


# --- private


def _drive(path: str, body: Mapping[str, Json] | None = None, *, within_s: float = DRIVE_S) -> Call[Applied]:
    return Call(method="POST", path=path, body=body, read=Applied, within_s=within_s)


def _override(switch: str, ends: Sequence[str], to: str, lease: str | None, why: str, by: str) -> Call[HeldEnds]:
    body: dict[str, Json] = {
        "switch": switch,
        "ends": list(ends),
        "to": to,
        "lease": lease,
        "why": why,
        "by": by,
    }
    return Call(method="POST", path="/api/v1/overrides", body=body, read=HeldEnds)


def _each(kind: type[AnswerT], data: Iterable[Mapping[str, Any]]) -> list[AnswerT]:
    return [kind(one) for one in data]


def _run_status(data: Any) -> "RunStatus":
    from hwd.model.run import RunStatus

    return RunStatus.from_data(data)


def _wanted(
    what: str,
    file: tuple[str, str] | None,
    mode: str,
    lease: str | None,
    ready_within_s: float | None,
    confirm_within_s: float | None,
) -> dict[str, Json]:
    named: dict[str, Json] = {"what": what} if file is None else {"file": {"name": file[0], "text": file[1]}}
    return {
        **named,
        "mode": mode,
        "lease": lease,
        "ready_within_s": ready_within_s,
        "confirm_within_s": confirm_within_s,
    }


def _id(id: str | None) -> dict[str, Json]:
    return {} if id is None else {"id": id}


def _run(id: str, part: str = "") -> str:
    return f"/api/v1/runs/{_part(id)}{'/' if part else ''}{part}"


def _part(id: str) -> str:
    """Quote an id as one part of a path, whatever characters it has."""
    return quote(id, safe="") or "%20"
