"""Groups of a report's figures: by sweep values, topology, link, run or testbed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pydantic import ValidationError

from hwd.config.playbook.playbook_schema import Cut, ReportEntry
from hwd.report.conditions import Conditions, plain
from hwd.report.quantity import duration
from hwd.report.run_report import RunReport
from hwd.timeline import Sample, Timeline, samples
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError

DWELLS_APART = 10
"""Times that the shortest long dwell is longer than the longest short one."""
USUAL = (Cut.TOPOLOGY, Cut.SWEEP)
"""The groups where a playbook has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedSamples:
    """The samples of all runs in their groups, and the conditions under which those of each group were measured."""

    samples: tuple[Sample, ...]
    conditions: Mapping[tuple[str, ...], Conditions]

    @property
    def all_conditions(self) -> Conditions:
        found = Conditions()
        for one in self.conditions.values():
            found |= one
        return found


def swept(sweep: Mapping[str, Json]) -> str:
    """`negotiates=off, repeats=3`; empty where there is no sweep."""
    return ", ".join(
        f"{name}={'true' if value is True else 'false' if value is False else value}" for name, value in sweep.items()
    )


def parts_of(by: Sequence[str]) -> tuple[Cut, ...]:
    """Raises ConfigError that names unknown groups."""
    if unknown := [part for part in by if part not in list(Cut)]:
        raise ConfigError(f"by {', '.join(unknown)}: figures cannot be split by it. Use {', '.join(Cut)}")
    return tuple(Cut(part) for part in by)


def split_by(reports: Sequence[RunReport], by: Sequence[str] | None) -> tuple[Cut, ...]:
    """The requested groups, else those of the playbooks where they agree, else topology and sweep values. Several runs
    are separate unless groups were requested.
    """
    if by is not None:
        return parts_of(by)
    asked = {_section(report).by for report in reports}
    parts = asked.pop() if len(asked) == 1 else USUAL
    return (Cut.RUN, *parts) if len(reports) > 1 and Cut.RUN not in parts else parts


def compared_with(reports: Sequence[RunReport]) -> str | None:
    """The testbed with which the playbooks compare, where they agree."""
    asked = {_section(report).compare_with for report in reports}
    return asked.pop() if len(asked) == 1 else None


def group_samples(reports: Sequence[RunReport], by: Sequence[str]) -> GroupedSamples:
    """All samples of links that moved, grouped by `by`; stages are always separate, and so are virtual and real time,
    and short and long dwells where a run has both.
    Raises ConfigError as `parts_of`.
    """
    parts = parts_of(by)
    taken: list[Sample] = []
    conditions: dict[tuple[str, ...], Conditions] = {}
    for report in reports:
        between_s = two_dwells(report.timelines)
        for timeline in report.timelines:
            dwells_s = {str(link.link): link.dwell_s for link in timeline.links}
            words = {
                Cut.TOPOLOGY: timeline.what,
                Cut.SWEEP: swept(timeline.sweep),
                Cut.RUN: report.run.id,
                Cut.TESTBED: report.run.testbed,
            }
            found = samples([timeline], virtual_time=report.run.virtual_time)
            under = report.lab.conditions(timeline) if found else Conditions()
            for sample in found:
                group = tuple(word for part in parts if (word := {**words, Cut.LINK: sample.link}.get(part)))
                if between_s is not None:
                    group += (_dwell_words(dwells_s[sample.link], between_s),)
                conditions[group] = conditions[group] | under if group in conditions else under
                taken.append(replace(sample, group=group))
    return GroupedSamples(samples=tuple(taken), conditions=conditions)


def by_sweep(timelines: Sequence[Timeline]) -> Iterator[tuple[str, tuple[Timeline, ...]]]:
    """The timelines of each sweep value, with its words, in the order of their first."""
    found: dict[str, list[Timeline]] = {}
    for timeline in timelines:
        found.setdefault(swept(timeline.sweep), []).append(timeline)
    for words, of_words in found.items():
        yield words, tuple(of_words)


def two_dwells(timelines: Iterable[Timeline]) -> tuple[float, float] | None:
    """The longest of the short dwells and the shortest of the long ones, in seconds, where a run has both: neighbours
    that differ tenfold. The durations of short and of long dwells are two humps, and no median lies in either. None
    where its dwells are alike.
    """
    found = sorted(
        link.dwell_s for timeline in timelines for link in timeline.links if link.dwell_s and not link.kept
    )  # fmt: skip
    gaps = [(after_s / before_s, before_s, after_s) for before_s, after_s in pairwise(found)]
    ratio, before_s, after_s = max(gaps, default=(0.0, 0.0, 0.0))
    return (before_s, after_s) if ratio >= DWELLS_APART else None


def _dwell_words(dwell_s: float | None, between_s: tuple[float, float]) -> str:
    if not dwell_s:
        return "dwell unknown"
    low_s, high_s = between_s
    return f"dwell up to {duration(low_s)}" if dwell_s <= low_s else f"dwell from {duration(high_s)}"


def _section(report: RunReport) -> ReportEntry:
    """The section `report` of its playbook; the default one where it is missing, or in another version
    of the language.
    """
    section = plain(report.run.playbook_text).get("report", {})
    try:
        return ReportEntry.model_validate(section)
    except ValidationError:
        return ReportEntry()
