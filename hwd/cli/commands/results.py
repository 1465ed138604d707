"""The commands `hwd show`, `report`, `compare`, `export`: the results of runs."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from hwd.cli.options import Data, Json, RunId, Url
from hwd.cli.output import Output, coloured, seconds, size
from hwd.cli.recorded_runs import recorded, run_reports, short, started_at
from hwd.cli.run_steps import folded, steps_of, switches_left
from hwd.cli.write_target import LOADING, STANDARD, busy, counted, standard
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError, FailedError
from hwd_drivers.core.output_file import output_file, write_file

if TYPE_CHECKING:
    from hwd.model.recorded_run import Run
    from hwd.report.figures.figure import Figure
    from hwd_drivers.core.documents import Document

Runs = Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids, or the beginnings of them.")]

FORMATS = {
    "jsonl": "jsonl",
    "csv": "csv",
    "parquet": "parquet",
    "perfetto": "pftrace",
    "bluesky": "bluesky.jsonl",
    "bundle": "hwd.zip",
}
"""The extension of each format's files."""
BINARY = frozenset({"parquet", "perfetto", "bundle"})

By = Annotated[
    str | None,
    typer.Option("--by", metavar="PARTS", help="Split by topology, sweep, link, run, testbed; commas between."),
]
CompareWith = Annotated[
    str | None,
    typer.Option("--compare-with", metavar="PAPER", help="The paper whose figures are added: opus, mfabric, acos."),
]

commands = typer.Typer(rich_markup_mode=None)


class Column(StrEnum):
    """The width of a figure on paper."""

    SINGLE = "single"
    """A single column of two."""
    DOUBLE = "double"
    """Both columns."""

    @property
    def inches(self) -> float:
        from hwd.report.figures.figure import DOUBLE_IN, SINGLE_IN

        return SINGLE_IN if self is Column.SINGLE else DOUBLE_IN


@commands.command(epilog="Example: hwd show k3v9")
def show(run: RunId, url: Url = None, data: Data = None, json: Json = False) -> None:
    """One run: its outcome, its steps, and the durations of its stages."""
    output = Output(json=json)
    with busy(output, LOADING):
        from hwd.report.grouping import compared_with, notes, split_by
        from hwd.report.jobs import job_rows
        from hwd.report.predictions import prediction_rows
        from hwd.report.rc_recovery import recovery_rows
        from hwd.report.stages import pairs_rows, stage_table
        from hwd.report.text import job_text, pairs_text, prediction_text, recovery_text, stage_text

    with recorded(url, data) as source, busy(output, "reading"):
        found = source.run(run)
        documents = [*source.stream(found.id)]
        [loaded] = run_reports(source, [found.id], observations=True)
    outcome = coloured(found.outcome or "under way")
    output.say(f"run {found.id} ", outcome, f": {found.why}" if found.why else "")
    output.say(f"playbook {found.playbook} on testbed {found.testbed}, hwd {found.version}")
    output.say(
        f"started {started_at(found.started_wall_ns, virtual=found.virtual_time)}, "
        f"took {seconds(found.seconds) or 'until now'}"
    )
    if found.parameters:
        output.say(f"parameters {', '.join(f'{key}={value}' for key, value in found.parameters.items())}")
    switches = switches_left(found.safe_state or ("unknown" if found.outcome == "crashed" else None), documents)
    if switches:
        output.say(f"switches {switches}")
    steps = steps_of(documents, ended=found.outcome is not None)
    if steps:
        output.say()
        output.table(("step", "what", "state", ""), folded(steps))
    rows = stage_table([loaded], by=split_by([loaded], None), compare_with=compared_with([loaded]))
    for note in notes(loaded):
        output.say(note)
    by_pairs = pairs_rows([loaded])
    tables = [
        stage_text(rows) if rows else "",
        pairs_text(by_pairs) if by_pairs and (len(by_pairs) > 1 or not rows) else "",
        recovery_text(recoveries) if (recoveries := recovery_rows(loaded.timelines)) else "",
        job_text(jobs) if (jobs := job_rows(loaded.jobs)) else "",
        prediction_text(predictions) if (predictions := prediction_rows(loaded.predictions)) else "",
    ]
    for text in filter(None, tables):
        output.say()
        output.block(text.rstrip())
    for timeline in loaded.timelines:
        for breach in timeline.breaches:
            output.say(f"order broken in {timeline.reconfiguration}: {breach}")
    if explained := sum(len(timeline.explained) for timeline in loaded.timelines):
        output.say(
            f"{plural(explained, 'fall')} of links that the run caused by setting NIC ports; `hwd report` lists each"
        )
    for remark in loaded.remarks:
        output.say(remark)
    for ending in loaded.endings:
        for hang in ending.hangs:
            output.say(f"{ending.reconfiguration} {ending.outcome}: {hang}")
    if loaded.events_lost:
        output.say(f"{plural(loaded.events_lost, 'event')} of agents were lost")
    output.data(
        {
            **short(found),
            "parameters": found.parameters,
            "inventory": found.inventory,
            "switches": switches,
            "steps": [{"step": one.number, "what": one.what, "state": one.state} for one in steps],
            "timelines": [timeline.to_data() for timeline in loaded.timelines],
            "events_lost": loaded.events_lost,
            "overruns": loaded.guard.overruns,
            "clock_steps": [*loaded.clock_steps],
            "predictions": {
                one.reconfiguration: one.prediction for one in loaded.endings if one.prediction is not None
            },
            "hangs": {ending.reconfiguration: ending.hangs for ending in loaded.endings if ending.hangs},
        }
    )


@commands.command(epilog="Example: hwd report k3v9 m2p0 -o report.html --pdf figures.pdf")
def report(
    run: Runs,
    file: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write the page.")] = Path(
        "report.html"
    ),
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="DIR", help="Write each figure there, in the size of a paper.")
    ] = None,
    pdf: Annotated[
        Path | None, typer.Option("--pdf", metavar="FILE", help="Write all figures there, a page each.")
    ] = None,
    column: Annotated[
        Column, typer.Option("--column", help="How wide on paper: one column (3.33 in) or both (7 in).")
    ] = Column.DOUBLE,
    by: By = None,
    compare_with: CompareWith = None,
    url: Url = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Report stages, waterfalls, distributions, pairs, links and comparisons of runs: one page, and
    figures for a paper.
    """
    output = Output(json=json)
    with busy(output, LOADING):
        from hwd.report.figures.figures import Figures
        from hwd.report.grouping import compared_with, split_by
        from hwd.report.page.html import all_compared, html

        _check_paper(compare_with)
    with recorded(url, data) as source, busy(output, "reading"):
        loaded = run_reports(source, run)
    split = split_by(loaded, _parts(by))
    compare_with = compare_with or compared_with(loaded)
    written = [file]
    with busy(output, "drawing"):
        comparisons = all_compared(loaded)
        page = html(loaded, by=split, compare_with=compare_with, comparisons=comparisons)
        write_file(file, page)
        if svg is not None or pdf is not None:
            drawn = Figures.of(loaded, by=split, compare_with=compare_with, comparisons=comparisons).all
            if svg is not None:
                written += _svg_files(svg, drawn, column.inches)
            if pdf is not None:
                written.append(_pdf_file(pdf, drawn, column.inches, title=", ".join(one.run.id for one in loaded)))
    output.say(f"{file}: {plural(len(loaded), 'run')}, {plural(sum(len(one.timelines) for one in loaded), 'timeline')}")
    for path in written[1:]:
        output.say(str(path))
    files = [str(path.absolute()) for path in written]
    output.data({"file": files[0], "files": files, "runs": [one.run.id for one in loaded]})


@commands.command(epilog="Example: hwd compare k3v9 m2p0")
def compare(
    first: Annotated[str, typer.Argument(metavar="RUN", help="What is compared with.")],
    second: Annotated[str, typer.Argument(metavar="RUN", help="What is compared.")],
    url: Url = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Compare two runs stage by stage: the difference with its interval, and the size of the effect. Exit status 1:
    they have no stage in common.
    """
    output = Output(json=json)
    with busy(output, LOADING):
        from hwd.report.comparison import NOTE, delta, medians, shift, verdict
        from hwd.report.comparison import compare as compared

    with recorded(url, data) as source, busy(output, "reading"):
        loaded = run_reports(source, [first, second])
    if len(loaded) == 1:
        raise ConfigError(f"{first}, {second}: both are run {loaded[0].run.id}. Name two runs; `hwd runs` lists them")
    found = compared(*loaded)
    if found.nothing:
        raise FailedError(found.nothing)
    output.say(f"run {found.runs[1]} against run {found.runs[0]}: {NOTE}")
    for remark in found.remarks:
        output.say(f"note: {remark}")
    topology = None
    for row in found.rows:
        if row.topology != topology:
            topology = row.topology
            output.say()
            rows = [
                (
                    str(one.stage),
                    "/".join(map(str, one.n)),
                    *medians(one),
                    shift(one),
                    delta(one),
                    verdict(one),
                    "/".join(str(origin or "") for origin in one.origins),
                )
                for one in found.rows
                if one.topology == topology
            ]
            headings = (
                topology or "all links",
                "n",
                *(one.run.id for one in loaded),
                "shift",
                "delta",
                "verdict",
                "origin",
            )
            output.table(headings, rows)
    output.data(found)


@commands.command(epilog="Example: hwd export k3v9 --as perfetto -o k3v9.pftrace")
def export(
    run: RunId,
    kind: Annotated[str, typer.Option("--as", metavar="FORMAT", help=f"{', '.join(FORMATS)}.")],
    file: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Where to; - is standard output. Default: RUN.FORMAT."),
    ] = None,
    by: By = None,
    compare_with: CompareWith = None,
    url: Url = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Export a run for other programs: all its documents, a table of its stages, a trace for ui.perfetto.dev,
    documents for Bluesky; or a bundle that `hwd verify` checks. --by, --compare-with: of the report in a bundle.
    """
    output = Output(json=json)
    with busy(output, LOADING):
        from hwd.report import export as exports

    if kind not in FORMATS:
        raise ConfigError(f"--as {kind}: not a format. Use one of {', '.join(FORMATS)}")
    if json and file == STANDARD:
        raise ConfigError("--json, -o -: both would be on standard output. Name a file")
    if kind != "bundle" and (by is not None or compare_with is not None):
        raise ConfigError("--by, --compare-with: only a bundle has a report. Use --as bundle, or `hwd report`")
    _check_paper(compare_with)
    tables = {"csv": exports.csv, "parquet": exports.parquet}
    others = {"jsonl": exports.jsonl, "perfetto": exports.perfetto, "bluesky": exports.bluesky}
    rows = None
    with recorded(url, data) as source:
        found = source.run(run)
        path = Path(file or f"{found.id}.{FORMATS[kind]}")
        documents = counted(source.stream(found.id), output, f"{path}")
        with standard(binary=kind in BINARY) if file == STANDARD else output_file(path) as to:
            if kind in tables:
                rows = tables[kind](found, documents, to)
            elif kind in others:
                others[kind](found, documents, to)
            else:
                _bundle(found, documents, to, output, by=_parts(by), compare_with=compare_with)
    if rows == 0:
        output.note(f"run {found.id}: the table has only its heading, as no switch was commanded and no link timed")
    if file != STANDARD:
        count = path.stat().st_size if path.is_file() else None  # the size of a pipe's output is unknown
        rows_text = "" if rows is None else f", {plural(rows, 'row')}"
        output.say(f"{path}: run {found.id}{rows_text}{'' if count is None else f', {size(count)}'}")
        output.data({"file": str(path.absolute()), "run": found.id, "as": kind, "bytes": count, "rows": rows})


def _bundle(
    run: "Run",
    documents: "Iterable[Document]",
    to: BinaryIO,
    output: Output,
    *,
    by: list[str] | None,
    compare_with: str | None,
) -> None:
    with busy(output, LOADING):
        from hwd.daemon.commit import find_commit
        from hwd.report.bundle import BundleWriter, this_program

    with BundleWriter(run, to, made_by=this_program(commit=find_commit().id)) as writer:
        loaded = writer.record(documents)
        with busy(output, "drawing"):
            writer.derive(loaded, by=by, compare_with=compare_with)


def _parts(by: str | None) -> list[str] | None:
    return None if by is None else [part.strip() for part in by.split(",") if part.strip()]


def _check_paper(name: str | None) -> None:
    from hwd.report.papers import FIGURES

    papers = list(dict.fromkeys(figure.paper for figure in FIGURES))
    if name is not None and not name.startswith(tuple(papers)):
        raise ConfigError(f"--compare-with {name}: no figures of it are known. There are those of {', '.join(papers)}")


def _svg_files(folder: Path, drawn: "Sequence[Figure]", width_in: float) -> list[Path]:
    from hwd.report.figures.figure import PAPER_WIDTHS
    from hwd.report.figures.render import svg

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be made: {error.strerror}") from error
    paths = [folder / f"{one.name}.svg" for one in drawn]
    for path, one in zip(paths, drawn, strict=True):
        write_file(path, svg(one, PAPER_WIDTHS[width_in], width_in=width_in))
    return paths


def _pdf_file(path: Path, drawn: "Sequence[Figure]", width_in: float, *, title: str) -> Path:
    from hwd.report.figures.figure import PAPER_WIDTHS
    from hwd.report.figures.render import pdf

    if not drawn:
        raise ConfigError(f"{path}: there is nothing to draw: no link moved")
    with output_file(path) as to:
        pdf(drawn, to, width=PAPER_WIDTHS[width_in], width_in=width_in, title=title)
    return path
