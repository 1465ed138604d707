"""Recovery of reliable connections, as a figure of its own beside the table of stages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from msgspec import UNSET

from hwd.model.instant import Origin
from hwd.report.quantity import bound, duration
from hwd.timeline import RcOutcome, RcRecovery, Timeline

_HEADINGS = ("ACK timeout", "retries", "n", "completed", "re-made", "failed", "median", "max", "error", "origin")
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
    """One for each setting and origin."""
    groups: dict[tuple[float, int, Origin], list[RcRecovery]] = {}
    for timeline in timelines:
        for end in timeline.ends:
            if end.rc is not UNSET:
                groups.setdefault((end.rc.ack_timeout_s, end.rc.retries, end.rc.origin), []).append(end.rc)
    return tuple(_row(*key, groups[key]) for key in sorted(groups))


def recovery_text(rows: Sequence[RecoveryRow]) -> str:
    """Lines without colour."""
    cells = [_cells(row) for row in rows]
    widths = [max(len(line[column]) for line in (_HEADINGS, *cells)) for column in range(len(_HEADINGS))]
    lines = [_HEADINGS, tuple("-" * width for width in widths), *cells]
    padded = ("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "rc recovery: carrier to the first send of the dark that got through\n" + "\n".join(padded) + "\n"


def recovery_html(rows: Sequence[RecoveryRow]) -> Iterator[str]:
    """A part of a page; nothing where there is nothing."""
    if not rows:
        return
    yield (
        '<h2>RC recovery</h2><div class="scroll"><table><caption>From the carrier of an end until the first send that '
        "was posted in the dark on a reliable connection succeeded, or until a new queue pair was made. It is no part "
        "of ready, and is to be read together with the ACK timeout.</caption><thead><tr>"
    )
    yield "".join(f'<th scope="col" class="num">{heading}</th>' for heading in _HEADINGS)
    yield "</tr></thead><tbody>"
    for row in rows:
        *figures, origin = _cells(row)
        cells = "".join(f'<td class="num">{figure}</td>' for figure in figures)
        yield f'<tr>{cells}<td><span class="mark {origin}">{origin}</span></td></tr>'
    yield "</tbody></table></div>"


def _cells(row: RecoveryRow) -> tuple[str, ...]:
    return (
        duration(row.ack_timeout_s),
        str(row.retries),
        str(sum(row.counts.values())),
        *(str(row.counts.get(outcome, 0)) for outcome in RcOutcome),
        duration(row.median_s),
        duration(row.max_s),
        bound(row.error_s),
        str(row.origin),
    )


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
