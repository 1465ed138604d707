"""The table of stages: our figures, their origins, and the papers' figures."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from hwd.model.instant import Origin
from hwd.report.conditions import Conditions
from hwd.report.grouping import USUAL, group_samples
from hwd.report.papers import PaperFigure, figures, of_stage
from hwd.report.quantity import stated
from hwd.report.run_report import RunReport
from hwd.timeline import StageStatistics, summarise
from hwd_drivers.core.documents import Json

SEED = 20270110
"""Of the bootstrap: the same record gives the same report."""

ORIGIN_WORDS = {
    Origin.MEASURED: "measured on hardware",
    Origin.KERNEL: "a real kernel event on a twin",
    Origin.TWIN: "drawn from a model of the twin",
    Origin.FITTED: "drawn from a model that was made from a paper's own figure: never called reproduced",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A paper's figure for a row. `fitted`: the twin's timing was fitted to it, so that agreement shows nothing about
    the rack.
    """

    figure: PaperFigure
    fitted: bool

    def __str__(self) -> str:
        value = stated(self.figure.low_s, self.figure.high_s)
        words = [f"{self.figure.paper} {self.figure.where}: {self.figure.statistic} {value}"]
        words += [f"({text})" for text in (self.figure.condition, self.figure.remark) if text]
        return " ".join(words) + (" [fitted to it]" if self.fitted else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage of one group, with the papers' figures for it."""

    statistics: StageStatistics
    beside: tuple[Beside, ...]

    @property
    def origin(self) -> Origin | None:
        """The weakest origin of the values; fitted where the twin's timing was fitted to one of the papers' figures of
        this row.
        """
        return Origin.FITTED if any(one.fitted for one in self.beside) else self.statistics.origin

    @property
    def time(self) -> str:
        return "virtual time" if self.statistics.virtual_time else "real time"

    def to_data(self) -> dict[str, Json]:
        """As JSON; times in seconds, null where there are not enough values."""
        statistics: dict[str, Json] = asdict(self.statistics)
        return {**statistics, "origin": self.origin, "time": self.time, "papers": [str(one) for one in self.beside]}


def stage_table(
    reports: Sequence[RunReport],
    *,
    by: Sequence[str] = USUAL,
    compare_with: str | None = None,
    seed: int = SEED,
) -> tuple[StageRow, ...]:
    """`by`: parts of `Cut`; stages are always separate, and so are virtual and real time. Empty `by`: all together.
    Raises ConfigError for other parts.
    """
    taken = group_samples(reports, by)
    return tuple(_row(row, taken.conditions[row.group], compare_with) for row in summarise(taken.samples, seed=seed))


def _row(statistics: StageStatistics, under: Conditions, compare_with: str | None) -> StageRow:
    chosen = of_stage(figures(under, compare_with=compare_with), statistics.stage)
    drawn = statistics.origin not in (None, Origin.MEASURED)
    beside = [Beside(figure=one, fitted=drawn and not under.timings.isdisjoint(one.drawn_by)) for one in chosen]
    return StageRow(statistics=statistics, beside=tuple(beside))
