"""Recovery of reliable connections, as a figure of its own beside the table of stages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from msgspec import UNSET

from hwd.model.instant import Origin
from hwd.report.quantity import bound, duration
from hwd.timeline import RcOutcome, RcRecovery, Timeline

_KEPT = {RcOutcome.COMPLETED, RcOutcome.RE_MADE}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRow:
    """Ends whose queue pairs have equal settings.

    `median_s`, `max_s`: from the carrier of an end until a send that was posted in the dark succeeded, or until a new
    queue pair was made. None where no carrier was seen. `error_s`: the largest error bound of these times.
    """

    ack_timeout_s: float
    retries: int
    origin: Origin
    counts: Mapping[RcOutcome, int]
    median_s: float | None
    max_s: float | None
    error_s: float | None


def recovery_rows(timelines: Iterable[Timeline]) -> tuple[RecoveryRow, ...]:
    """The rows of recoveries, one for each setting and origin."""
    groups: dict[tuple[float, int, Origin], list[RcRecovery]] = {}
    for timeline in timelines:
        for end in timeline.ends:
            if end.rc is not UNSET:
                groups.setdefault((end.rc.ack_timeout_s, end.rc.retries, end.rc.origin), []).append(end.rc)
    return tuple(_row(*key, groups[key]) for key in sorted(groups))


def recovery_figures(row: RecoveryRow) -> dict[str, str]:
    """The figures of a row for people, by their headings."""
    return {
        "ACK timeout": duration(row.ack_timeout_s),
        "retries": str(row.retries),
        "n": str(sum(row.counts.values())),
        **{outcome: str(row.counts.get(outcome, 0)) for outcome in RcOutcome},
        "median": duration(row.median_s),
        "max": duration(row.max_s),
        "bound": bound(row.error_s),
    }


def _row(ack_timeout_s: float, retries: int, origin: Origin, found: Sequence[RcRecovery]) -> RecoveryRow:
    times_s = [one.after_carrier_s for one in found if one.outcome in _KEPT and one.after_carrier_s is not None]
    return RecoveryRow(
        ack_timeout_s=ack_timeout_s,
        retries=retries,
        origin=origin,
        counts={outcome: sum(one.outcome is outcome for one in found) for outcome in RcOutcome},
        median_s=median(times_s) if times_s else None,
        max_s=max(times_s, default=None),
        error_s=max((one.error_s for one in found if one.error_s is not None), default=None),
    )
