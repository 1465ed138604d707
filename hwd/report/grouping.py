"""Groups of a report's figures: by sweep values, topology, link, run or testbed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from pydantic import ValidationError

from hwd.config.playbook.playbook_schema import Cut, ReportEntry
from hwd.report.conditions import Conditions, plain
from hwd.report.quantity import interval
from hwd.report.run_report import RunReport
from hwd.timeline import Sample, Timeline, samples
from hwd.timeline.dwell import by_dwell
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError

_DWELL = "dwell "
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
    and the dwells of a group between which its durations differ.
    Raises ConfigError as `parts_of`.
    """
    parts = parts_of(by)
    groups: dict[tuple[tuple[str, ...], bool], list[Sample]] = {}
    conditions: dict[str, Conditions] = {}
    for report in reports:
        for timeline in report.timelines:
            for sample in _grouped(report, timeline, parts):
                groups.setdefault((sample.group, sample.virtual_time), []).append(sample)
                if timeline.reconfiguration not in conditions:
                    conditions[timeline.reconfiguration] = report.lab.conditions(timeline)
    taken: list[Sample] = []
    under: dict[tuple[str, ...], Conditions] = {}
    for group, virtual_time in [*groups]:
        for dwell, members in by_dwell_words(groups.pop((group, virtual_time))).items():
            taken += [replace(one, group=(*group, dwell)) for one in members] if dwell else members
    for part, reconfiguration in dict.fromkeys((one.group, one.reconfiguration) for one in taken):
        under[part] = under.get(part, Conditions()) | conditions[reconfiguration]
    return GroupedSamples(samples=tuple(taken), conditions=under)


def _grouped(report: RunReport, timeline: Timeline, parts: Sequence[Cut]) -> Iterator[Sample]:
    words = {
        Cut.TOPOLOGY: timeline.what,
        Cut.SWEEP: swept(timeline.sweep),
        Cut.RUN: report.run.id,
        Cut.TESTBED: report.run.testbed,
    }
    for one in [replace(timeline, links=[link]) for link in timeline.links] if Cut.LINK in parts else [timeline]:
        if Cut.LINK in parts:
            words[Cut.LINK] = one.links[0].link
        group = [words[part] for part in parts if words.get(part)]
        yield from samples([one], virtual_time=report.run.virtual_time, group=group)


def by_dwell_words(taken: Sequence[Sample]) -> dict[str, list[Sample]]:
    """The samples of each range of dwells, the shortest first; all under an empty text where durations do not differ by
    it.
    """
    classes = by_dwell(taken)
    parts: dict[int, list[Sample]] = {}
    for one in taken:
        parts.setdefault(classes[one.reconfiguration, one.link], []).append(one)
    return {dwell_of(parts[number]) if len(parts) > 1 else "": parts[number] for number in sorted(parts)}


def dwell_of(taken: Sequence[Sample]) -> str:
    """`dwell 3.3 to 3.6 s`: the range of their dwells, as far as these are known."""
    dwells_s = [one.dwell_s for one in taken if one.dwell_s is not None]
    return f"{_DWELL}{interval(min(dwells_s), max(dwells_s)) if dwells_s else 'unknown'}"


def notes(report: RunReport) -> Iterator[str]:
    """What a reader of the tables and figures of a run must know, a sentence each."""
    links = [(timeline.what, link) for timeline in report.timelines for link in timeline.links]
    moved = {what for what, link in links if not link.kept}
    if not moved:
        yield f"run {report.run.id} moved no link"
    elif stayed := dict.fromkeys(what for what, _ in links if what not in moved):
        yield f"run {report.run.id}: stayed, as it was there before: {', '.join(stayed)}"
    for group, dwells in _humps(report).items():
        yield (
            f"run {report.run.id}, {group}: durations fall into humps by dwell, the time since the link's last "
            f"reconfiguration, and are not pooled: {', '.join(words.removeprefix('dwell ') for words in dwells)}"
        )


def _humps(report: RunReport) -> dict[str, list[str]]:
    """The ranges of dwells of each topology and sweep value that has several."""
    found: dict[str, list[str]] = {}
    for row in group_samples([report], (Cut.SWEEP, Cut.TOPOLOGY)).conditions:
        *group, last = row or ("",)
        if last.startswith(_DWELL):
            found.setdefault(", ".join(group), []).append(last)
    return found


def by_sweep(timelines: Sequence[Timeline]) -> Iterator[tuple[str, tuple[Timeline, ...]]]:
    """The timelines of each sweep value, with its words, in the order of their first."""
    found: dict[str, list[Timeline]] = {}
    for timeline in timelines:
        found.setdefault(swept(timeline.sweep), []).append(timeline)
    for words, of_words in found.items():
        yield words, tuple(of_words)


def _section(report: RunReport) -> ReportEntry:
    """The section `report` of its playbook; the default one where it is missing, or in another version
    of the language.
    """
    section = plain(report.run.playbook_text).get("report", {})
    try:
        return ReportEntry.model_validate(section)
    except ValidationError:
        return ReportEntry()
