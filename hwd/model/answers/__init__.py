"""Answers of the HTTP API: what the daemon encodes and the client decodes, one type for each."""

from hwd.model.answers.alerts import Alert, DiskSpace
from hwd.model.answers.answer import Answer
from hwd.model.answers.changes import SwitchChange
from hwd.model.answers.demands import DemandLinks, DemandMatrix, DemandSummary, HostLinks
from hwd.model.answers.desired import SwitchDesired, UnlitLink
from hwd.model.answers.documents import DocumentJson, DocumentList
from hwd.model.answers.faults import FaultConfirmation
from hwd.model.answers.history import HistoryEntry
from hwd.model.answers.hosts import ClockStepReport, HostClock, HostSpool, HostStatus
from hwd.model.answers.jobs import (
    JobBreach,
    JobDemand,
    JobDemandMatrix,
    JobEfficiency,
    JobEfficiencyRow,
    JobIteration,
    JobMove,
    JobOutput,
    JobRankStatus,
    JobStatus,
    JobTraining,
    JobVerification,
)
from hwd.model.answers.leases import HeldLease, HeldSettings, SwitchLease
from hwd.model.answers.prepared import EndedSet, PreparedSetStatus, SetTarget
from hwd.model.answers.problem import Problem
from hwd.model.answers.programs import ProgramStatus
from hwd.model.answers.reconfigurations import LeftOpen, ReconfigurationStatus
from hwd.model.answers.reload import ReloadReport, TestbedChangeReport
from hwd.model.answers.runs import AbortedRun, AcceptedRun
from hwd.model.answers.status import BusStatus, Liveness, Readiness, Status, StorageStatus
from hwd.model.answers.switches import CompositeStatus, HeldEnds, LinkStatus, OverrunReport, RestartReport, SwitchStatus
from hwd.model.answers.transfers import TransferStatus

__all__ = [
    "AbortedRun",
    "AcceptedRun",
    "Alert",
    "Answer",
    "BusStatus",
    "ClockStepReport",
    "CompositeStatus",
    "DemandLinks",
    "DemandMatrix",
    "DemandSummary",
    "DiskSpace",
    "DocumentJson",
    "DocumentList",
    "EndedSet",
    "FaultConfirmation",
    "HeldEnds",
    "HeldLease",
    "HeldSettings",
    "HistoryEntry",
    "HostClock",
    "HostLinks",
    "HostSpool",
    "HostStatus",
    "JobBreach",
    "JobDemand",
    "JobDemandMatrix",
    "JobEfficiency",
    "JobEfficiencyRow",
    "JobIteration",
    "JobMove",
    "JobOutput",
    "JobRankStatus",
    "JobStatus",
    "JobTraining",
    "JobVerification",
    "LeftOpen",
    "LinkStatus",
    "Liveness",
    "OverrunReport",
    "PreparedSetStatus",
    "Problem",
    "ProgramStatus",
    "Readiness",
    "ReconfigurationStatus",
    "ReloadReport",
    "RestartReport",
    "SetTarget",
    "Status",
    "StorageStatus",
    "SwitchChange",
    "SwitchDesired",
    "SwitchLease",
    "SwitchStatus",
    "TestbedChangeReport",
    "TransferStatus",
    "UnlitLink",
]
