"""The command `hwd trial`: two playbooks, or two settings of one, compared until it is decided which takes longer."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hwd.cli.daemon import connect, me
from hwd.cli.options import Data, Json, Url
from hwd.cli.output import Output
from hwd.cli.recorded_runs import RunSource, recorded, run_reports
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError, FailedError
from hwd_drivers.core.ids import Draws, RandomIds

if TYPE_CHECKING:
    from hwd.client import Client
    from hwd.report.run_report import RunReport
    from hwd.report.trial import TrialTable

NO_FIGURE_MOST = 3
"""Pairs in a row without a figure, after which a trial ends."""
RUNS_READ = 20_000

Treatments = tuple["_Treatment", "_Treatment"]

commands = typer.Typer(rich_markup_mode=None)


class _Treatment:
    """One side of a trial, `PLAYBOOK [K=V]...`, read once."""

    def __init__(self, words: str) -> None:
        from hwd.client.playbook_bundle import read_playbook

        name, *defined = words.split()
        self.words = " ".join((name, *defined))
        self.parameters = dict(_parameter(words, one) for one in defined)
        self.file, self.text = read_playbook(name, self.parameters)


@commands.command(epilog="Example: hwd trial 'smoke within_s=15' 'smoke within_s=30' --metric turnaround")
def trial(
    a: Annotated[
        str | None, typer.Argument(metavar="A", help="A playbook and parameters, 'smoke within_s=15'.")
    ] = None,
    b: Annotated[str | None, typer.Argument(metavar="B", help="What is compared with it.")] = None,
    on: Annotated[str | None, typer.Option("--on", metavar="TESTBED", help="The testbed, where several run.")] = None,
    metric: Annotated[
        str, typer.Option("--metric", metavar="M", help="A stage, whose median in each run counts; or `run`.")
    ] = "turnaround",
    until: Annotated[
        str, typer.Option("--until", metavar="decided|N", help="Until it is decided, or for so many pairs.")
    ] = "decided",
    most: Annotated[int, typer.Option("--most", metavar="N", min=1, max=10_000, help="At most so many pairs.")] = 100,
    margin: Annotated[
        float | None,
        typer.Option("--margin", metavar="PERCENT", min=0.1, max=100, help="A difference that does not matter."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Draws the orders; by default anew.")] = None,
    again: Annotated[
        str | None,
        typer.Option("--again", metavar="TRIAL", help="Show this trial; with A and B: go on with it."),
    ] = None,
    url: Url = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Compare two playbooks, or two settings of one, on the same rack until the difference is decided.

    Runs go in pairs, in an order that is drawn for each. After each pair it is judged by an interval that holds at all
    times together, so that looking often does no harm. Ctrl-C ends the run under way, and the trial.
    """
    from hwd.report.trial import METRICS

    output = Output(json=json)
    if metric not in METRICS:
        raise ConfigError(f"--metric {metric}: there are {', '.join(METRICS)}")
    pairs = _pairs(until, most)
    share = None if margin is None else margin / 100
    if a is None and b is None and again is not None:
        with recorded(url, data) as source:
            show(output, _table(source, again, share, _reader(source)))
        return
    if a is None or b is None or data is not None:
        raise ConfigError("name two playbooks, A and B; or a trial of the records: --again TRIAL")
    treatments = _Treatment(a), _Treatment(b)
    with connect(url, testbed=on) as hwd, recorded(hwd.url if url is None else url, None) as source:
        run = _Trial(hwd, source, output, again, metric, share, seed, treatments)
        show(output, run.go_on(treatments, pairs, is_decided_enough=until == "decided"))


class _Trial:
    """The pairs of one trial, one after the other."""

    def __init__(
        self,
        hwd: "Client",
        source: RunSource,
        output: Output,
        again: str | None,
        metric: str,
        margin: float | None,
        seed: int | None,
        treatments: Treatments,
    ) -> None:
        self._hwd = hwd
        self._source = source
        self._output = output
        self._metric = metric
        self._margin = margin
        self._id = again or RandomIds().token(length=8)
        self._draws = Draws(seed)
        self._report_of = _reader(source)
        self._done = 0
        if again is not None:
            table = _table(source, again, margin, self._report_of)
            self._done = max(
                place.pair for run in source.runs(RUNS_READ) if (place := run.trial) and place.trial == again
            )
            for which, asked, before in zip("ab", treatments, table.treatments, strict=True):
                if asked.words != before:
                    raise ConfigError(f"trial {again}: its {which} is {before!r}, and not {asked.words!r}")
            if table.metric != metric:
                raise ConfigError(f"trial {again}: it compares {table.metric}: give it --metric {table.metric}")

    def go_on(self, treatments: Treatments, pairs: int, *, is_decided_enough: bool) -> "TrialTable":
        output = self._output
        output.note(f"trial {self._id}: {self._metric}, at most {plural(pairs, 'pair')}. Ctrl-C ends it")
        table: TrialTable | None = None
        without = 0
        for number in range(self._done + 1, self._done + pairs + 1):
            order: list[Literal["a", "b"]] = ["a", "b"]
            self._draws.stream(f"trial/{number}").shuffle(order)  # also the same where the trial is gone on with
            for which in order:
                self._run(number, which, treatments[0 if which == "a" else 1])
            table = _table(self._source, self._id, self._margin, self._report_of)
            last = table.pairs[-1]
            output.note(f"pair {number}: {table.line}{f'; this pair: {last.why}' if last.why else ''}")
            without = without + 1 if last.why else 0
            if without == NO_FIGURE_MOST:
                raise FailedError(f"trial {self._id}: {plural(without, 'pair')} in a row without a figure: {last.why}")
            if is_decided_enough and table.judgement.is_decided:
                break
        assert table is not None
        return table

    def _run(self, pair: int, which: Literal["a", "b"], treatment: _Treatment) -> None:
        from hwd.model.run import TrialRun

        place = TrialRun(trial=self._id, treatment=which, pair=pair, metric=self._metric, words=treatment.words)
        started = self._hwd.start_run(
            text=treatment.text, file=treatment.file, parameters=treatment.parameters, trial=place
        )
        try:
            for state in self._hwd.follow(started.run):
                if state.state.ended:
                    break
        except KeyboardInterrupt:
            self._output.note(f"aborting run {started.run}")
            self._hwd.abort(started.run, by=f"{me()}, Ctrl-C")
            raise


def show(output: Output, table: "TrialTable") -> None:
    from hwd.report.trial import pair_words

    output.say(f"trial {table.trial}: {table.metric} of a: {table.treatments[0]}; b: {table.treatments[1]}")
    output.table(("pair", "first", "a", "b", "b/a", "runs", ""), [pair_words(pair) for pair in table.pairs])
    output.say(table.line)
    output.data(table)


def _table(
    source: RunSource, trial: str, margin: float | None, report_of: "Callable[[str], RunReport]"
) -> "TrialTable":
    from hwd.report.trial import trial_table

    return trial_table(source.runs(RUNS_READ), trial, report_of, margin=margin)


def _reader(source: RunSource) -> "Callable[[str], RunReport]":
    """Reads each run once."""

    @cache
    def report_of(run: str) -> "RunReport":
        return run_reports(source, [run])[0]

    return report_of


def _pairs(until: str, most: int) -> int:
    if until == "decided":
        return most
    if not until.isascii() or not until.isdigit() or int(until) < 1:
        raise ConfigError(f"--until {until}: write `decided`, or a number of pairs")
    return int(until)


def _parameter(words: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise ConfigError(f"{words}: write parameters as name=value, not {text}")
    return key, value
