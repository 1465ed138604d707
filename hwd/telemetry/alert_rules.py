"""The alerts that the daemon decides by itself: severities, hold times and limits, as in
dashboards/prometheus/alerts.yml; a test compares them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from hwd.model.status import LITTLE_FREE_BYTES, Alert

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One alert. `for_s`: how long its condition has to last. `within_s`: of an alert about events, how long one
    counts; None for an alert about a state. `limit`: what a value has to be beyond, where that is not 0.
    """

    severity: Severity
    for_s: float = 0.0
    within_s: float | None = None
    limit: float = 0.0


_MINUTE_S: Final = 60.0
_LATELY_S: Final = 10 * _MINUTE_S

RULES: Final[Mapping[str, Rule]] = {
    "BusDisconnected": Rule(severity="critical", for_s=30.0),
    "JournalOpen": Rule(severity="critical", for_s=15.0),
    "JournalHeld": Rule(severity="critical", for_s=15.0),
    "JournalUnwritten": Rule(severity="critical", for_s=15.0),
    "RecordsUnwritten": Rule(severity="critical", for_s=15.0),
    "DiskSpaceLow": Rule(severity="warning", for_s=15.0, limit=LITTLE_FREE_BYTES),
    "DaemonDied": Rule(severity="warning", within_s=_LATELY_S),
    "ReconfigurationRecovered": Rule(severity="warning", within_s=_LATELY_S),
    "EventLoopLag": Rule(severity="warning", for_s=_MINUTE_S, limit=0.1),
    "LimitReached": Rule(severity="warning", within_s=_LATELY_S),
    "SwitchDown": Rule(severity="critical", for_s=30.0),
    "SwitchCommandsFail": Rule(severity="warning", within_s=_LATELY_S),
    "SwitchRestarted": Rule(severity="critical", within_s=_LATELY_S),
    "SwitchChangedBehindOurBack": Rule(severity="warning", within_s=_LATELY_S),
    "SwitchDrift": Rule(severity="warning", for_s=_MINUTE_S),
    "SwitchOverrun": Rule(severity="critical", within_s=_LATELY_S),
    "AgentDown": Rule(severity="warning", for_s=_MINUTE_S),
    "HostTrouble": Rule(severity="warning", for_s=15.0),
    "EventsLost": Rule(severity="warning", within_s=_LATELY_S),
    "ClockErrorLarge": Rule(severity="warning", for_s=5 * _MINUTE_S, limit=0.001),
    "ClockStepped": Rule(severity="warning", within_s=_LATELY_S),
    "MessagesGarbled": Rule(severity="warning", within_s=_LATELY_S),
    "RdmaDown": Rule(severity="warning", for_s=_MINUTE_S),
    "CarrierFlaps": Rule(severity="warning", within_s=5 * _MINUTE_S, limit=2.0),
    "LinkNotReady": Rule(severity="critical", for_s=_MINUTE_S),
    "ReconfigurationRolledBack": Rule(severity="info", within_s=_LATELY_S),
    "ReconfigurationStands": Rule(severity="info", for_s=15 * _MINUTE_S),
    "RunFailed": Rule(severity="warning", within_s=_LATELY_S),
    "RunPaused": Rule(severity="info", for_s=15 * _MINUTE_S),
    "JobStalled": Rule(severity="warning", within_s=_LATELY_S, limit=30.0),
    "JobNotSwitched": Rule(severity="warning", within_s=_LATELY_S),
    "JobFailed": Rule(severity="warning", within_s=_LATELY_S),
}
"""By the names of alerts.yml, in its order."""

PROMETHEUS_ALONE: Final[Mapping[str, str]] = {
    "DaemonDown": "a daemon that does not answer cannot report it",
    "SeriesRefused": "it is about the metrics themselves, of which no document tells",
}
"""Alerts that the daemon does not decide, and why."""

WORST_FIRST: Final[Mapping[Severity, int]] = {"critical": 0, "warning": 1, "info": 2}


def alert_of(key: tuple[str, str], summary: str, *, since_wall_ns: int, last_wall_ns: int | None = None) -> Alert:
    """The alert of this name about this subject, with the severity of its rule."""
    name, subject = key
    return Alert(
        name=name,
        severity=RULES[name].severity,
        subject=subject,
        since_wall_ns=since_wall_ns,
        last_wall_ns=last_wall_ns,
        summary=summary,
    )
