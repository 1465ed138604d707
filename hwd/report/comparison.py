"""Comparison of two runs: the difference of each stage, with an interval."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import asdict

from hwd.model.instant import Origin
from hwd.model.recorded_run import Run
from hwd.report.grouping import by_dwell_words, swept
from hwd.report.quantity import MISSING, bound, duration, is_resolved, resolved
from hwd.report.run_report import RunReport
from hwd.report.stages import SEED
from hwd.timeline import Difference, Sample, StageName, difference, samples
from hwd.timeline.difference import RECONFIGURATIONS_NEEDED

NOTE = (
    "difference of the medians, second minus first, "
    "with a 95 % interval (bootstrap over reconfigurations, each value at the bound that widens it); "
    "Cliff's delta from -1 to 1: how much more often the second is longer than shorter"
)


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
    compare.
    """

    runs: tuple[str, str]
    note: str = NOTE
    remarks: tuple[str, ...]
    rows: tuple[ComparisonRow, ...]


def compare(first: RunReport, second: RunReport, *, seed: int = SEED) -> Comparison:
    """Compare each topology that both ran, each sweep value, and the dwells between which durations differ; where they
    have no topology in common, all their links together.

    Runs with different sweep variables, and one value of each, are compared by topology: that value is the question.
    """
    swept_apart = _sweeps(first) == _sweeps(second) or max(len(_sweeps(first)), len(_sweeps(second))) > 1
    a, b = (_by_topology(report, swept_apart=swept_apart) for report in (first, second))
    shared = [topology for topology in a if topology in b]
    remarks = [*_remarks(first, second)]
    if not swept_apart:
        told = [", ".join(sorted(_sweeps(report))) or "nothing" for report in (first, second)]
        remarks.append(f"the sweep values differ: {' and '.join(told)}")
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
    apart = [part for side in sides for part in _by_dwell(*side)]
    remarks += [
        f"{words or 'all links'}: durations differ by dwell, not alike in both runs: all dwells are taken together"
        for words, *both in apart
        if any(len(by_dwell_words(side)) > 1 for side in both)
    ]
    rows = tuple(row for part in apart for row in _rows(*part, seed=seed))
    few = min([min(row.reconfigurations) for row in rows], default=RECONFIGURATIONS_NEEDED)
    if few < RECONFIGURATIONS_NEEDED:
        remarks.append(
            f"no interval where a run has fewer than {RECONFIGURATIONS_NEEDED} reconfigurations of a topology"
        )
    return Comparison(runs=(first.run.id, second.run.id), rows=rows, remarks=tuple(remarks))


def medians(one: Difference) -> tuple[str, str]:
    """Of both sides."""
    first, second = map(resolved, one.median_s, one.error_s)
    return first, second


def is_shift_resolved(one: Difference) -> bool:
    """Whether it is larger than the bounds of both sides, or its interval, which has these in it, excludes 0."""
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


def _sweeps(report: RunReport) -> set[str]:
    """Sweep values of reconfigurations that moved links, in words; an empty text where there was no sweep."""
    return {swept(timeline.sweep) for timeline in report.timelines if any(not link.kept for link in timeline.links)}


def _by_topology(report: RunReport, *, swept_apart: bool) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for timeline in report.timelines:
        taken = samples([timeline], virtual_time=report.run.virtual_time)
        if taken:
            words = swept(timeline.sweep) if swept_apart else ""
            found.setdefault(f"{timeline.what} · {words}" if words else timeline.what, []).extend(taken)
    return found


def _by_dwell(
    topology: str, first: Sequence[Sample], second: Sequence[Sample]
) -> Iterator[tuple[str, Sequence[Sample], Sequence[Sample]]]:
    """Short dwells with short ones, long with long, where both runs have them."""
    a, b = by_dwell_words(first), by_dwell_words(second)
    if len(a) != len(b):
        yield topology, first, second
        return
    for of_first, of_second in zip(a, b, strict=True):
        words = of_first if of_first == of_second else f"{of_first} and {of_second.removeprefix('dwell ')}"
        yield " · ".join(filter(None, (topology, words))), a[of_first], b[of_second]


def _rows(topology: str, first: Sequence[Sample], second: Sequence[Sample], *, seed: int) -> Iterator[ComparisonRow]:
    for name in StageName:
        a, b = ([one for one in side if one.stage.name is name] for side in (first, second))
        if (found := difference(a, b, stage=name, seed=seed)) is not None:
            origins = (_origin(a), _origin(b))
            yield ComparisonRow(**asdict(found), topology=topology, stage=name, origins=origins)


def _origin(taken: Sequence[Sample]) -> Origin | None:
    origins = [one.stage.origin for one in taken if one.stage.origin is not None]
    return max(origins, key=list(Origin).index, default=None)


def _remarks(first: RunReport, second: RunReport) -> Iterator[str]:
    a, b = first.run, second.run
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
