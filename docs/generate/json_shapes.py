"""The shapes of what commands print with `--json`: the keys of their documents, from the types that they print."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from docs.generate.pages import code, table
from hwd.model.daemon import JournalGivenUp
from hwd.model.demand import DemandLinks, DemandMatrix, DemandSummary, HostLinks
from hwd.model.job_status import (
    JobBreach,
    JobDemand,
    JobDemandMatrix,
    JobEfficiency,
    JobEfficiencyRow,
    JobIteration,
    JobMove,
    JobRankStatus,
    JobStatus,
    JobTraining,
    JobVerification,
)
from hwd.model.lease import HeldLease
from hwd.model.plan_summary import PlanSummary
from hwd.model.prepared_set import PreparedSetStatus
from hwd.model.program import ProgramEnd, ProgramOutput, ProgramStarted
from hwd.model.reconfiguration import HistoryEntry, ReconfigurationStatus
from hwd.model.recorded_run import Run, RunSummary
from hwd.model.reload import ReloadReport
from hwd.model.run import AbortedRun, AcceptedRun, RunStatus
from hwd.model.status import Status
from hwd.model.switch import HeldEnds
from hwd.report.bundle.verification import Verification
from hwd.report.comparison import Comparison
from hwd.report.trial import TrialPair, TrialTable
from hwd.rollout.doctor import Diagnosis
from hwd.rollout.host_report import HostReport
from hwd.sim.execution import WorldReport
from hwd.timeline.trial import Judgement

Kind = type[msgspec.Struct] | Sequence[str]
"""A type that is printed as it is, or the keys of what a command makes up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One document. `listed`: a list of such; `when`: where a command has several; `note`: what else a reader needs."""

    kind: Kind
    listed: bool = False
    when: str = ""
    note: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.kind) if isinstance(self.kind, Sequence) else self.kind.__struct_encode_fields__

    def __str__(self) -> str:
        text = code("{" + ", ".join(self.keys) + "}") if self.keys else ""
        text = f"list of {text}" if self.listed else text
        return f"{f'{self.when}: ' if self.when else ''}{text}{', ' if text and self.note else ''}{self.note}"


def of(kind: Kind, *, listed: bool = False, when: str = "", note: str = "") -> Shape:
    return Shape(kind=kind, listed=listed, when=when, note=note)


PLAN: Final = of(PlanSummary)
RECONFIGURATION: Final = of(ReconfigurationStatus)
LEASE: Final = of(HeldLease, note="`lease` is its id")
SET: Final = of(PreparedSetStatus, note="`prepared_set` is its id, which `hwd switch` and `hwd release` take")
RUN_STATE: Final = of(RunStatus, note="the document [`run.state`](http-and-events.md#kinds-of-documents)")
JOB: Final = of(JobStatus, note=f"`ranks` a list of {of(JobRankStatus)}")
HOSTS: Final = of(["hosts"], note=f"`hosts` a list of {of(HostReport)}")
WAY_BACK: Final = (
    of(PlanSummary, when="with `--dry-run`, and where there is nothing to restore (`empty` is true)"),
    of(ReconfigurationStatus, when="where it drove the switches, as `apply`"),
)
"""Told apart by `reconfiguration`, which only the second one has."""
NOT_SHOWN: Final = ("playbook_text", "testbed_text")
NOT_LISTED: Final = (*NOT_SHOWN, "inventory")
"""Fields of a run that `hwd show` and `hwd runs` leave out."""
SHOWN: Final = (*("switches", "steps", "timelines", "events_lost", "overruns", "clock_steps", "predictions", "hangs"),)
"""What `hwd show` adds to a run."""

SHAPES: Final[Mapping[str, tuple[Shape, ...]]] = {
    "demo": (of(["report", "hosts", "stages"]),),
    "check": (of(["file", "line", "path", "text", "warning"], listed=True),),
    "schema": (of([], note="the schema, also without `--json`"),),
    "status": (of(Status),),
    "watch": (
        of(
            ["id", "kind", "at_ns", "wall_ns", "data"],
            note="a line each: [documents](http-and-events.md#kinds-of-documents)",
        ),
    ),
    "token": (of(["url", "token"]),),
    "plan": (PLAN,),
    "apply": (RECONFIGURATION,),
    "confirm": (RECONFIGURATION,),
    "rollback": (of(ReconfigurationStatus), of([], when="`--to ID`", note="as `restore`")),
    "give-up": (of(JournalGivenUp),),
    "restore": WAY_BACK,
    "history": (of(HistoryEntry, listed=True),),
    "prepare": (SET,),
    "switch": (RECONFIGURATION,),
    "sets": (of(PreparedSetStatus, listed=True),),
    "release": (SET,),
    "run": (
        of(["run", "outcome", "why", "safe_state", "exit_status"]),
        of(AcceptedRun, when="`--detach`"),
    ),
    "abort": (of(AbortedRun),),
    "pause": (RUN_STATE,),
    "resume": (RUN_STATE,),
    "queue": (of(RunStatus, listed=True),),
    "runs": (of([key for key in RunSummary.__struct_encode_fields__ if key not in NOT_LISTED], listed=True),),
    "show": (of([*(key for key in Run.__struct_encode_fields__ if key not in NOT_SHOWN), *SHOWN]),),
    "report": (of(["file", "files", "runs"]),),
    "compare": (of(Comparison),),
    "export": (of(["file", "run", "as", "bytes", "rows"], note="`rows` of `csv` and `parquet` only, else null"),),
    "verify": (of(["file", "equal", *Verification.__struct_encode_fields__]),),
    "block": (of(HeldEnds, listed=True),),
    "unblock": (of(HeldEnds, listed=True),),
    "fault": (
        of([], note="the fault: `{fault, switch or port or host, ...}` with [its fields](../how-to/provoke-faults.md)"),
        of([], when="without words", note="a list of those that are set"),
    ),
    "install-service": (
        of(["unit", "path", "written", "text"]),
        of(["unit", "path", "removed", "data"], when="`--uninstall`"),
    ),
    "reload": (
        of(
            ReloadReport,
            note="`done` is false where nothing was taken: with `--dry-run`, and where the file changes nothing",
        ),
    ),
    "sim": (of(WorldReport),),
    "twin down": (of(["testbed", "pid"]),),
    "twin serve": (of(["name", "model", "driver", "address", "addresses"], note="one line, when it listens"),),
    "twin settings": (of(["setting", "default", "meaning"], listed=True),),
    **{f"lease {name}": (LEASE,) for name in ("take", "renew", "heartbeat", "release", "kick", "grant")},
    "job list": (of(JobStatus, listed=True),),
    **{f"job {name}": (JOB,) for name in ("run", "show", "stop")},
    "job training": (
        of(
            JobTraining,
            listed=True,
            note=f"`iterations` a list of {of(JobIteration)}, `moves` a list of {of(JobMove)}",
        ),
    ),
    "job demand": (of(JobDemand, listed=True, note=f"`matrices` a list of {of(JobDemandMatrix)}"),),
    "job efficiency": (of(JobEfficiency, listed=True, note=f"`rows` a list of {of(JobEfficiencyRow)}"),),
    "job verify": (of(JobVerification, listed=True, note=f"`breaches` a list of {of(JobBreach)}"),),
    **{f"demand {name}": (of(DemandSummary),) for name in ("add", "remove")},
    "demand list": (of(DemandSummary, listed=True),),
    "demand links": (of(DemandLinks, note=f"`links` a list of {of(HostLinks)}"),),
    "demand show": (of(DemandMatrix, note="`bytes` a list of rows, one for each of `hosts`, which send"),),
    "lease list": (of(HeldLease, listed=True),),
    "driver list": (
        of(["driver", "package", "models", "default_port", "evidence"], listed=True),
        of(["driver", "package", "error"], when="in the list, of one that cannot be loaded"),
    ),
    "driver check": (of(["driver", "quality", "evidence", "results"], listed=True),),
    "driver new": (of(["driver", "folder", "files"]),),
    "agent deploy": (HOSTS,),
    "agent upgrade": (HOSTS,),
    "agent remove": (HOSTS,),
    "agent doctor": (of(["hosts"], note=f"`hosts` a list of {of(Diagnosis)}"),),
    "trial": (of(TrialTable, note=f"`pairs` a list of {of(TrialPair)}, `judgement` {of(Judgement)}"),),
    "host exec": (
        of(["is", *ProgramStarted.__struct_encode_fields__], when="a line", note="`is` is `started`"),
        of(["is", *ProgramOutput.__struct_encode_fields__], when="a line", note="`is` is `output`; `data` in base64"),
        of(["is", *ProgramEnd.__struct_encode_fields__], when="the last line", note="`is` is `end`"),
    ),
    "broker acl": (of(["folder", "users", "data_dir"]),),
}
"""By command. A test compares them with the program's options, and with what commands print."""


def shapes() -> str:
    """A row for each document; commands that print the same share it."""
    found: dict[str, list[str]] = {}
    for command, each in SHAPES.items():
        found.setdefault("; ".join(map(str, each)), []).append(code(command))
    return table(("command", "shape"), ((", ".join(commands), shape) for shape, commands in found.items()))
