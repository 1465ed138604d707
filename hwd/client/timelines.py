"""Timelines in the client: one line of text, a waterfall in a notebook, and stage durations that explain themselves.

timelines = hwd.timelines("k3v9")
timelines.last.turnaround_s < 8           # the slowest link; a failed assert shows which link that was
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Self

from msgspec.structs import asdict
from typing_extensions import override

from hwd.model.html_table import table
from hwd.model.plural import plural
from hwd.model.recorded_run import Run
from hwd.model.run_facts import RunStarted
from hwd.report.comparison import Comparison
from hwd.report.quantity import bound, duration, resolved
from hwd.report.run_report import RunReport, of_documents
from hwd.report.stages import StageRow, stage_figures
from hwd.report.text import stage_text
from hwd.timeline import LinkTimeline, StageName, Timeline
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import FailedError
from hwd_drivers.core.structs import to_plain


class StageSeconds(float):
    """Seconds of one stage of one link; its repr says which link, with what error, and from which source.

    `hwd_table`: the stages of all links, which the pytest plugin shows below a comparison that fails.
    """

    words: str
    hwd_table: str

    def __new__(cls, seconds: float, words: str, table: str) -> Self:
        made = super().__new__(cls, seconds)
        made.words, made.hwd_table = words, table
        return made

    @override
    def __repr__(self) -> str:
        return f"<{self.words}>"

    __str__ = __repr__


class MeasuredTimeline(Timeline, frozen=True, kw_only=True):
    """One reconfiguration."""

    virtual_time: bool = False

    @classmethod
    def of(cls, timeline: Timeline, *, virtual_time: bool = False) -> Self:
        return cls(**asdict(timeline), virtual_time=virtual_time)

    def seconds(self, stage: StageName | str) -> StageSeconds:
        """The longest duration of a stage over all links that moved. Raises FailedError where a link's is unknown:
        unknown is not zero.
        """
        name = StageName(stage)
        found: list[StageSeconds] = []
        for link in self.moved:
            one = link.stage(name)
            if one.seconds is None:
                raise FailedError(
                    f"{self.reconfiguration} ({self.what}): {name} of {link.link} is {one.knowledge}: {one.why}"
                )
            words = f"{name} {duration(one.seconds)} {bound(one.error_s)} of {link.link}, {one.origin}"
            found.append(StageSeconds(one.seconds, words, self.table()))
        if not found:
            raise FailedError(f"{self.reconfiguration} ({self.what}): no link moved, so there is no {name}")
        return max(found)

    @property
    def turnaround_s(self) -> StageSeconds:
        """The time from the command to the first transfer, of the slowest link."""
        return self.seconds(StageName.TURNAROUND)

    def table(self) -> str:
        """Links and their stages, as text."""
        rows = [("link", *StageName), *map(_cells, self.links)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, *(f"order broken: {breach}" for breach in self.breaches)])

    @override
    def __repr__(self) -> str:
        return f"<timeline {self}>"

    @override
    def __str__(self) -> str:
        known = [one.seconds for link in self.moved if (one := link.stage(StageName.TURNAROUND)).seconds is not None]
        total = (
            f"turnaround {duration(max(known))}" if len(known) == len(self.moved) and known else "turnaround unknown"
        )
        links = plural(len(self.links), "link")
        return f"{self.reconfiguration} ({self.what}): {len(self.moved)} of {links} moved, {total}"

    def _repr_html_(self) -> str:
        """The waterfall, as an SVG inside the page."""
        from hwd.report.figures.waterfall import waterfall

        return waterfall(self, virtual_time=self.virtual_time)


class Timelines(tuple[MeasuredTimeline, ...]):
    """Timelines in the order in which their reconfigurations ended."""

    __slots__ = ()

    @classmethod
    def of_documents(cls, documents: Iterable[Document]) -> Self:
        """All timelines among some documents. They are in virtual time where the start of a run among the documents
        says so.
        """
        virtual = False
        found: list[MeasuredTimeline] = []
        for document in documents:
            match document.fact:
                case RunStarted(virtual_time=virtual):
                    pass
                case Timeline() as timeline:
                    found.append(MeasuredTimeline.of(timeline, virtual_time=virtual))
        return cls(found)

    def of(self, reconfiguration: str) -> MeasuredTimeline:
        """The timeline of one reconfiguration. Raises FailedError where there is none."""
        for one in self:
            if one.reconfiguration == reconfiguration:
                return one
        raise FailedError(
            f"reconfiguration {reconfiguration}: it has no timeline here. "
            "It moved nothing, has not ended, or is older than the events that are retained"
        )

    @property
    def last(self) -> MeasuredTimeline:
        """The newest timeline. Raises FailedError where there is none."""
        if not self:
            raise FailedError("no reconfiguration was timed here: nothing moved, or it has not ended yet")
        return self[-1]

    @override
    def __repr__(self) -> str:
        return f"<{plural(len(self), 'timeline')}: {'; '.join(map(str, self))}>"

    def _repr_html_(self) -> str:
        return "".join(one._repr_html_() for one in self) or "<p>no timelines</p>"


class Stages(tuple[StageRow, ...]):
    """The table of stages: the measurements next to the papers' figures."""

    __slots__ = ()

    def rows(self) -> list[dict[str, object]]:
        """Rows of plain values, as `pandas.DataFrame` takes them."""
        return [to_plain(row) for row in self]

    @override
    def __str__(self) -> str:
        return stage_text(self)

    @override
    def __repr__(self) -> str:
        return f"<{plural(len(self), 'stage')}>"

    def _repr_html_(self) -> str:
        headings = ("", "stage", "n", "median", "max", "bound", "origin", "papers")
        return table(headings, [_stage_cells(row) for row in self])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The measurements of a run. `report` is what the functions of `hwd.report` take."""

    report: RunReport

    @classmethod
    def of(cls, run: Run, documents: Iterable[Document]) -> Self:
        """Make it from the record and the documents of a run."""
        return cls(report=of_documents(run, documents))

    @property
    def timelines(self) -> Timelines:
        virtual = self.report.run.virtual_time
        return Timelines(MeasuredTimeline.of(one, virtual_time=virtual) for one in self.report.timelines)

    def stages(self, *, by: Sequence[str] | None = None, compare_with: str | None = None) -> Stages:
        """Statistics of each stage.

        `compare_with` names a paper's testbed whose figures are added. `by`: the variables to split by; None: as the
        playbook says.
        """
        from hwd.report.grouping import split_by
        from hwd.report.stages import stage_table

        return Stages(stage_table([self.report], by=split_by([self.report], by), compare_with=compare_with))

    @property
    def outcome(self) -> str | None:
        """The outcome of the run; None while the run is under way."""
        return self.report.run.outcome

    def compare(self, other: "RunResult") -> "RunComparison":
        """Compare the stages of two runs."""
        from hwd.report.comparison import compare

        return RunComparison(comparison=compare(self.report, other.report))

    def html(self) -> str:
        """The whole report as one HTML page."""
        from hwd.report.page.html import html

        return html([self.report])

    @override
    def __repr__(self) -> str:
        return f"<{self.report.run}, {plural(len(self.report.timelines), 'timeline')}>"

    def _repr_html_(self) -> str:
        """A typical waterfall of each sweep value, and the table of stages."""
        from hwd.report.figures.figures import typical_figures
        from hwd.report.figures.render import svg
        from hwd.report.figures.waterfall import WIDTH
        from hwd.report.grouping import notes

        said = "".join(f"<p>{escape(note)}</p>" for note in notes(self.report))
        drawn = "".join(svg(figure, WIDTH) for figure in typical_figures([self.report]))
        return f"<p>{escape(str(self.report.run))}</p>{said}{drawn}{self.stages()._repr_html_()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Two runs compared, the second against the first."""

    comparison: Comparison

    @override
    def __str__(self) -> str:
        nothing = [self.comparison.nothing] if self.comparison.nothing else []
        return "\n".join([*nothing, *self.comparison.remarks, *map(str, self.comparison.rows)])

    @override
    def __repr__(self) -> str:
        runs = " and ".join(self.comparison.runs)
        return f"<comparison of {runs}, {plural(len(self.comparison.rows), 'stage')}>"

    def _repr_html_(self) -> str:
        from hwd.report.page.html import comparison_html

        return comparison_html(self.comparison)


def _cells(link: LinkTimeline) -> tuple[str, ...]:
    stages = [link.stage(name) for name in StageName]
    return (
        f"{link.link}{' (kept)' if link.kept else ''}",
        *(
            str(stage.knowledge) if stage.seconds is None else resolved(stage.seconds, stage.error_s)
            for stage in stages
        ),
    )


def _stage_cells(row: StageRow) -> tuple[object, ...]:
    figures = stage_figures(row)
    return (
        " · ".join(row.group),
        row.stage,
        row.n,
        *(figures[name] for name in ("median", "max", "bound")),
        row.origin,
        "; ".join(row.papers),
    )
