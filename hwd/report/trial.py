"""The table of a trial, from the records: its pairs, and what they show so far.

    table = trial_table(runs, trial, values)
    print(table.judgement.verdict)

It is the same while the trial runs and afterwards, since it is made from the runs alone.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from hwd.model.plural import plural
from hwd.model.recorded_run import RunOutcome, RunSummary
from hwd.model.run import TrialRun
from hwd.model.stage import StageName
from hwd.report.quantity import duration
from hwd.report.run_report import RunReport
from hwd.timeline import samples
from hwd.timeline.trial import Judgement, Pair, judge
from hwd_drivers.core.errors import ConfigError, UnknownError

RUN = "run"
"""The metric that is the duration of the whole run."""
METRICS = (*map(str, StageName), RUN)
UNEVEN_SHARE = 0.1
UNEVEN = "one of the two is without a figure more often, so the others say little of it"


class TrialPair(msgspec.Struct, frozen=True, kw_only=True):
    """One pair of runs. `first`: the treatment that went first; `a_s` and `b_s`: what was measured, None where a run
    has no figure, and `why`.
    """

    pair: int
    first: str
    runs: tuple[str, str]
    a_s: float | None
    b_s: float | None
    why: str = ""


class TrialTable(msgspec.Struct, frozen=True, kw_only=True):
    """All pairs of a trial, and the judgement over those with figures. `treatments`: what a and b are. `lost`: pairs in
    which a, and in which b, has no figure.
    """

    trial: str
    metric: str
    treatments: tuple[str, str]
    pairs: tuple[TrialPair, ...]
    lost: tuple[int, int]
    judgement: Judgement

    @property
    def line(self) -> str:
        """`12 pairs (1 more of warm-up): b/a 0.86 (0.84 to 0.89): b is shorter`."""
        one = self.judgement
        warm_up = f" ({one.warm_up} more of warm-up)" if one.warm_up else ""
        ratio = "" if one.ratio is None else f": b/a {one.ratio:.3f}"
        within = "" if one.within is None else f" ({one.within[0]:.3f} to {one.within[1]:.3f})"
        verdict = one.verdict or (f"not decided: {UNEVEN}" if _are_uneven(self.lost, one.pairs) else "not decided")
        lost = f"; without a figure: a {self.lost[0]}, b {self.lost[1]}" if any(self.lost) else ""
        return f"{plural(one.pairs, 'pair')}{warm_up}{ratio}{within}: {verdict}{lost}"


def trial_table(
    runs: Iterable[RunSummary], trial: str, report_of: Callable[[str], RunReport], *, margin: float | None = None
) -> TrialTable:
    """Make the table of a trial, of the runs of the records in any order. `report_of`: of a run by its id, read where
    it is needed.

    Raises UnknownError where there is no run of the trial, ConfigError where its runs are not of one metric.
    """
    own = [(place, run) for run in runs if (place := run.trial) is not UNSET and place.trial == trial]
    if not own:
        raise UnknownError(f"trial {trial!r}: the records have no run of it; `hwd runs --json` has the trial of each")
    places = {(place.pair, place.treatment): run for place, run in own}
    metrics = {place.metric for place, _ in own}
    if len(metrics) > 1:
        raise ConfigError(f"trial {trial}: its runs compare {' and '.join(sorted(metrics))}, which is not one trial")
    (metric,) = metrics
    pairs = [
        _pair(number, places[number, "a"], places[number, "b"], metric, report_of)
        for number in sorted({number for number, _ in places})
        if (number, "a") in places and (number, "b") in places
    ]
    figures = [Pair(a=one.a_s, b=one.b_s) for one in pairs if one.a_s is not None and one.b_s is not None]
    lost = sum(one.a_s is None for one in pairs), sum(one.b_s is None for one in pairs)
    judgement = judge(figures, margin=margin)
    return TrialTable(
        trial=trial,
        metric=metric,
        treatments=(_treatment(own, "a"), _treatment(own, "b")),
        pairs=tuple(pairs),
        lost=lost,
        judgement=replace(judgement, verdict="") if _are_uneven(lost, judgement.pairs) else judgement,
    )


def _are_uneven(lost: tuple[int, int], pairs: int) -> bool:
    """Whether one treatment is without a figure so much more often that the rest would speak for it: where slow runs
    fail, those that are left are the fast ones.
    """
    return abs(lost[0] - lost[1]) > UNEVEN_SHARE * pairs


def pair_words(pair: TrialPair) -> tuple[str, ...]:
    """A row of the table."""
    a, b = ("" if value is None else duration(value) for value in (pair.a_s, pair.b_s))
    ratio = f"{pair.b_s / pair.a_s:.3f}" if pair.a_s and pair.b_s else ""
    return str(pair.pair), pair.first, a, b, ratio, " ".join(pair.runs), pair.why


def _pair(number: int, a: RunSummary, b: RunSummary, metric: str, report_of: Callable[[str], RunReport]) -> TrialPair:
    values = [_value(run, metric, report_of) for run in (a, b)]
    whys = [why for value, why in values if value is None]
    return TrialPair(
        pair=number,
        first="a" if a.started_wall_ns <= b.started_wall_ns else "b",
        runs=(a.id, b.id),
        a_s=values[0][0],
        b_s=values[1][0],
        why="; ".join(whys),
    )


def _value(run: RunSummary, metric: str, report_of: Callable[[str], RunReport]) -> tuple[float | None, str]:
    """The median of the stage over all links of the run, or its duration; and why there is none."""
    if run.outcome is not RunOutcome.SUCCEEDED:
        return None, f"run {run.id} {run.outcome or 'is under way'}{f': {run.why}' if run.why else ''}"
    if metric == RUN:
        return run.seconds, ""
    taken = samples(report_of(run.id).timelines, virtual_time=run.virtual_time)
    seen = [one.stage.seconds for one in taken if str(one.stage.name) == metric and one.stage.seconds is not None]
    found = [seconds for seconds in seen if seconds > 0]
    return (statistics.median(found), "") if found else (None, f"run {run.id} has no {metric} that was seen")


def _treatment(own: Sequence[tuple[TrialRun, RunSummary]], treatment: str) -> str:
    """`opus-timeline repeats=3`: the playbook and the parameters of its runs."""
    for place, run in own:
        if place.treatment == treatment:
            parameters = (f"{key}={value}" for key, value in run.parameters.items())
            return place.words or " ".join([run.playbook, *parameters])
    return "no run yet"
