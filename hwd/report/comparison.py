"""Comparison of two runs: the difference of each stage, with an interval."""

from collections.abc import Collection, Iterator, Sequence

import msgspec
from msgspec.structs import asdict

from hwd.model.instant import Origin
from hwd.model.plural import plural
from hwd.model.recorded_run import Run, RunOutcome
from hwd.report.grouping import by_dwell_words, dwell_of, swept
from hwd.report.papers import origin_of
from hwd.report.quantity import MISSING, bound, duration, is_resolved, resolved
from hwd.report.run_report import RunReport
from hwd.timeline import Difference, Sample, StageName, difference, samples
from hwd.timeline.difference import RECONFIGURATIONS_NEEDED
from hwd.timeline.dwell import UNLIKE

NOTE = (
    "difference of the medians, second minus first, "
    "with a 95 % interval (bootstrap over reconfigurations, each value at the bound that widens it); "
    "Cliff's delta from -1 to 1: how much more often the second is longer than shorter"
)


_Side = tuple[str, Sequence[Sample], Sequence[Sample]]
"""A topology, and what both runs have of it."""


class ComparisonRow(Difference, frozen=True, kw_only=True):
    """One stage that both runs have. `topology`: with the sweep values, where there are any; empty where the runs have
    none in common, and all links are taken together. `origins`: the weakest of each run.
    """

    topology: str
    stage: StageName
    origins: tuple[Origin | None, Origin | None]

    def __str__(self) -> str:
        return f"{self.stage} {' -> '.join(medians(self))}: {shift(self)}, delta {delta(self)}"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs, the second against the first; times in seconds. `remarks`: differences that make the two hard to
    compare. `nothing`: why they have no stage in common; empty where there are `rows`.
    """

    runs: tuple[str, str]
    note: str = NOTE
    remarks: tuple[str, ...]
    rows: tuple[ComparisonRow, ...]
    nothing: str = ""


def compare(first: RunReport, second: RunReport) -> Comparison:
    """Compare each topology that both ran, each sweep value, and the dwells between which durations differ; where they
    have no topology in common, all their links together.

    Runs with different sweep variables, and one value of each, are compared by topology: that value is the question.
    """
    swept_apart = _sweeps(first) == _sweeps(second) or max(len(_sweeps(first)), len(_sweeps(second))) > 1
    a, b = (_by_topology(report, swept_apart=swept_apart) for report in (first, second))
    shared = [topology for topology in a if topology in b]
    remarks = [*_remarks(first, second)]
    if not swept_apart:
        values = [f"{', '.join(_sweeps(one)) or 'none'} in run {one.run.id}" for one in (first, second)]
        remarks.append(f"the sweep values differ: {' and '.join(values)}")
    if shared:
        remarks += [
            f"only in run {report.run.id}: {topology or 'a reconfiguration without a name'}"
            for report, own in ((first, a), (second, b))
            for topology in own
            if topology not in shared
        ]
        sides = [(topology, a[topology], b[topology]) for topology in shared]
    else:
        remarks.append("the runs have no topology in common: all their links are taken together")
        sides = [("", [one for part in a.values() for one in part], [one for part in b.values() for one in part])]
    apart: list[_Side] = []
    for topology, *both in sides:
        parts, words = _by_dwell(topology, *both)
        apart += parts
        remarks += words
    timings = (first.lab.named, second.lab.named)
    rows = tuple(row for part in apart for row in _rows(*part, timings=timings))
    if not rows:
        nothing = _nothing_in_common(first, second, shared)
        return Comparison(runs=(first.run.id, second.run.id), rows=(), remarks=(), nothing=nothing)
    few = min(min(row.reconfigurations) for row in rows)
    if few < RECONFIGURATIONS_NEEDED:
        remarks.append(
            f"no interval where a run has fewer than {RECONFIGURATIONS_NEEDED} reconfigurations of a topology"
        )
    return Comparison(runs=(first.run.id, second.run.id), rows=rows, remarks=tuple(remarks))


def medians(one: Difference) -> tuple[str, str]:
    """The medians of both sides."""
    first, second = map(resolved, one.median_s, one.error_s)
    return first, second


def is_shift_resolved(one: Difference) -> bool:
    """Whether the shift is larger than the bounds of both sides, or its interval, which has these in it, excludes 0."""
    return bool(one.excludes_zero) or abs(one.shift_s) >= sum(one.error_s)


def shift(one: Difference) -> str:
    """`-3.07 s (-3.12 s to -3.01 s), -49 %`; `not resolved (± 16 ms)` where it is smaller than the bounds."""
    if not is_shift_resolved(one):
        return f"not resolved ({bound(sum(one.error_s))})"
    words = signed(one.shift_s)
    if one.shift_within_s is not None:
        words += f" ({signed(one.shift_within_s[0])} to {signed(one.shift_within_s[1])})"
    known = one.relative is not None and is_resolved(one.median_s[0], one.error_s[0])
    return f"{words}, {one.relative * 100:+.3g} %" if known and one.relative is not None else words


def delta(one: Difference) -> str:
    """`-1.00 (-1.00 to -0.98), large`."""
    if one.delta_within is None and not is_shift_resolved(one):
        return MISSING
    words = f"{one.delta:+.2f}"
    if one.delta_within is not None:
        words += f" ({one.delta_within[0]:+.2f} to {one.delta_within[1]:+.2f})"
    return f"{words}, {one.size}"


def signed(seconds: float) -> str:
    return f"+{duration(seconds)}" if seconds > 0 else duration(seconds)


def verdict(one: Difference) -> str:
    match one.excludes_zero:
        case None:
            return MISSING
        case True:
            return "longer" if one.shift_s > 0 else "shorter"
    return "no difference shown"


def _nothing_in_common(first: RunReport, second: RunReport, shared: Collection[str]) -> str:
    """Why no stage of the two is compared. `shared`: topologies that both moved, where there are any."""
    of = f" of {', '.join(shared)}" if shared else ""
    found = [_seen_words(report, shared) for report in (first, second)]
    return f"runs {first.run.id} and {second.run.id} have nothing in common to compare{of}: {'; '.join(found)}"


def _seen_words(report: RunReport, shared: Collection[str]) -> str:
    """`run k3v9 moved no link, and its 2 jobs cannot be compared yet`."""
    run = report.run
    ended = "" if run.outcome is RunOutcome.SUCCEEDED else f", which {_outcome(run)},"
    parts = _by_topology(report, swept_apart=True)
    if not parts:
        jobs = f", and its {plural(len(report.jobs), 'job')} cannot be compared yet" if report.jobs else ""
        return f"run {run.id}{ended} moved no link{jobs}"
    taken = [one for name, part in parts.items() for one in part if not shared or name in shared]
    seen = {one.stage.name for one in taken if one.stage.seconds is not None}
    stages = ", ".join(stage for stage in StageName if stage in seen)
    return f"run {run.id}{ended} saw {stages or 'no stage of the links that it moved'}"


def _outcome(run: Run) -> str:
    match run.outcome:
        case None:
            return "is under way"
        case RunOutcome.ABORTED:
            return "was aborted"
    return str(run.outcome)


def _sweeps(report: RunReport) -> set[str]:
    """Sweep values of reconfigurations that moved links, in words; an empty text where there was no sweep."""
    return {swept(timeline.sweep) for timeline in report.timelines if timeline.moved}


def _by_topology(report: RunReport, *, swept_apart: bool) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for timeline in report.timelines:
        taken = samples([timeline], virtual_time=report.run.virtual_time)
        if taken:
            words = swept(timeline.sweep) if swept_apart else ""
            found.setdefault(f"{timeline.what} · {words}" if words else timeline.what, []).extend(taken)
    return found


def _by_dwell(topology: str, first: Sequence[Sample], second: Sequence[Sample]) -> tuple[list[_Side], list[str]]:
    """Dwells of one run against like dwells of the other, where durations differ by dwell; and what to remark.

    Dwells are alike where their ranges have a part in common; unknown ones are like unknown ones.
    """
    name = topology or "all links"
    a, b = by_dwell_words(first), by_dwell_words(second)
    whole: list[_Side] = [(topology, first, second)]
    if len(a) == len(b) == 1:
        if _alike(first, second):
            return whole, []
        return whole, [f"{name}: dwells differ: {dwell_of(first)} and {dwell_of(second)}"]
    pairs = [(one, other) for one in a for other in b if _alike(a[one], b[other])]
    known = [pair for pair in pairs if any(sample.dwell_s is not None for sample in a[pair[0]])]
    if not known or len(dict(pairs)) < len(pairs) or len({other for _, other in pairs}) < len(pairs):
        return whole, [
            f"{name}: durations fall into humps by dwell, and dwells are not alike: all are taken together: "
            f"{', '.join(map(dwell_of, a.values()))}; and {', '.join(map(dwell_of, b.values()))}"
        ]
    apart: list[_Side] = []
    for one, other in pairs:
        dwell, their = dwell_of(a[one]), dwell_of(b[other])
        words = dwell if dwell == their else f"{dwell} and {their.removeprefix('dwell ')}"
        apart.append((" · ".join(filter(None, (topology, words))), a[one], b[other]))
    alone = [(0, a[one]) for one in a if one not in {one for one, _ in pairs}]
    alone += [(1, b[other]) for other in b if other not in {other for _, other in pairs}]
    return apart, [f"{name}: only in the {('first', 'second')[side]} run: {dwell_of(found)}" for side, found in alone]


def _alike(first: Sequence[Sample], second: Sequence[Sample]) -> bool:
    a, b = ([one.dwell_s for one in side if one.dwell_s is not None] for side in (first, second))
    if not a or not b:
        return not a and not b
    return min(a) <= UNLIKE * max(b) and min(b) <= UNLIKE * max(a)


def _rows(
    topology: str,
    first: Sequence[Sample],
    second: Sequence[Sample],
    *,
    timings: tuple[frozenset[str], frozenset[str]],
) -> Iterator[ComparisonRow]:
    for name in StageName:
        a, b = ([one for one in side if one.stage.name is name] for side in (first, second))
        if (found := difference(a, b)) is not None:
            of_first, of_second = (
                origin_of(_weakest(side), name, drawn) for side, drawn in zip((a, b), timings, strict=True)
            )
            yield ComparisonRow(**asdict(found), topology=topology, stage=name, origins=(of_first, of_second))


def _weakest(taken: Sequence[Sample]) -> Origin | None:
    origins = [one.stage.origin for one in taken if one.stage.origin is not None]
    return max(origins, key=list(Origin).index, default=None)


def _remarks(first: RunReport, second: RunReport) -> Iterator[str]:
    a, b = first.run, second.run
    if a.id == b.id:
        yield f"both are run {a.id}"
    for run in (a, b):
        if run.outcome is not RunOutcome.SUCCEEDED:
            yield f"run {run.id} {_outcome(run)}: what it did until then is compared"
    times = [f"{run.id} in {'virtual' if run.virtual_time else 'real'} time" for run in (a, b)]
    if a.virtual_time is not b.virtual_time:
        yield f"the clocks differ: {' and '.join(times)}"
    if a.testbed_text != b.testbed_text:
        yield (
            f"the testbed files differ: {a.testbed} and {b.testbed}"
            if a.testbed != b.testbed
            else "the testbed file was changed between them"
        )
    if a.playbook_text != b.playbook_text:
        yield (
            f"the playbooks differ: {a.playbook} and {b.playbook}"
            if a.playbook != b.playbook
            else "the playbook was changed between them"
        )
    if a.parameters != b.parameters:
        keys = sorted(key for key in {*a.parameters, *b.parameters} if a.parameters.get(key) != b.parameters.get(key))
        yield f"the parameters differ: {', '.join(keys)}"
    if (a.version, a.commit) != (b.version, b.commit):
        yield f"the versions of hwd differ: {_version(a)} and {_version(b)}"


def _version(run: Run) -> str:
    return f"{run.version} ({run.commit or 'of an unknown commit'})"
