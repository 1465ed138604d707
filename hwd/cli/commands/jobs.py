"""The command `hwd job`: jobs of the testbed file, on the rack and under their control plane."""

import sys
import threading
from contextlib import suppress
from typing import Annotated, Final

import typer

from hwd.cli.daemon import connect, me
from hwd.cli.options import Json, Url, Why, group
from hwd.cli.output import Output
from hwd.cli.write_target import busy
from hwd.model.job_status import JobStatus
from hwd.model.local_time import local_time
from hwd.model.plural import plural
from hwd_drivers.core.errors import FailedError, LinkError
from hwd_drivers.core.standard_streams import end_with_reader

LOOK_S: Final = 0.25
"""Between two looks at a job that is followed."""

commands = group(
    "job",
    help="Jobs: ranks on hosts, whose control plane steers the light.",
    epilog="Example: hwd job run train -- --steps 10",
)
_Id = Annotated[str, typer.Argument(metavar="JOB", help="The id of a job, from `hwd job list`.")]
_JobOrRun = Annotated[str, typer.Argument(metavar="RUN", help="The id of a job, or of a run that ran some.")]


@commands.command(epilog="Example: hwd job run train -- --steps 10")
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An entry under `jobs` of the testbed file.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- [ARGUMENTS]...", help="Arguments of its command, where its entry takes some."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Stay until it has ended; Ctrl-C leaves it running.")
    ] = True,
    url: Url = None,
    json: Json = False,
) -> None:
    """Start a job: take its lease, prepare the targets of its plane, start its ranks.

    It goes on without this command, and without the daemon where that is started anew. Exits with 1 where it failed or
    was stopped.
    """
    output = Output(json=json)
    with connect(url) as hwd:
        status = hwd.start_job(name, *(words or []), by=me())
        output.note(
            f"job {status.id} of {name}: {plural(len(status.ranks), 'rank')}; `hwd job stop {status.id}` ends it"
        )
        said = ""
        while follow and not status.ended:
            if (line := _line(status)) != said:
                said = line
                output.note(line)
            threading.Event().wait(LOOK_S)
            try:
                status = hwd.job(status.id)
            except LinkError as error:
                raise LinkError(f"{error}. The job goes on all the same: `hwd job show {status.id}`") from error
    _show(output, status)
    if follow:
        _check(status)


@commands.command(name="list", epilog="Example: hwd job list")
def list_jobs(url: Url = None, json: Json = False) -> None:
    """The newest jobs, newest first, also those that have ended."""
    output = Output(json=json)
    with connect(url) as hwd:
        found = hwd.jobs()
    output.data(found)
    if not json and not found:
        output.say("no job yet. Start one with `hwd job run NAME`")
    elif not json:
        rows = [
            (
                one.id,
                one.entry,
                one.plane,
                str(len(one.ranks)),
                one.state,
                local_time(one.started_wall_ns, now_wall_ns=None),
                one.by,
            )
            for one in found
        ]
        output.table(("job", "entry", "plane", "ranks", "state", "started", "by"), rows)


@commands.command(epilog="Example: hwd job show k3v9a1xx")
def show(job: _Id, url: Url = None, json: Json = False) -> None:
    """One job: its state, its light, and what each rank does."""
    with connect(url) as hwd:
        status = hwd.job(job)
    _show(Output(json=json), status)


@commands.command(epilog="Example: hwd job logs k3v9a1xx --rank 2")
def logs(
    job: _Id,
    rank: Annotated[int, typer.Option("--rank", metavar="N", min=0, help="Of which rank.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the job has ended.")] = False,
    url: Url = None,
) -> None:
    """What a rank has written, as it is: both streams, in the order in which they came."""
    first = 0
    end_with_reader()
    with connect(url) as hwd:
        while True:
            ended = hwd.job(job).ended
            while (piece := hwd.job_output(job, rank, first=first)).data:
                first = piece.next
                sys.stdout.buffer.write(piece.data)
                sys.stdout.buffer.flush()
            if ended or not follow:
                return
            threading.Event().wait(LOOK_S)


@commands.command(epilog="Example: hwd job stop k3v9a1xx")
def stop(job: _Id, why: Why = "", url: Url = None, json: Json = False) -> None:
    """End a job: its ranks, and what they started; then it gives back its lease. Its light stays as it is."""
    output = Output(json=json)
    with connect(url) as hwd:
        status = hwd.stop_job(job, by=me(), why=why)
        with suppress(KeyboardInterrupt):  # it ends without this command
            while not status.ended:
                threading.Event().wait(LOOK_S)
                status = hwd.job(job)
    _show(output, status)


@commands.command(epilog="Example: hwd job verify k3v9a1xx")
def verify(
    id: _JobOrRun,
    url: Url = None,
    json: Json = False,
) -> None:
    """Whether a job kept its promises, from the records alone: each operation went over light that was there, at rest
    and seen ready before, its bytes went that way, and nothing cut it.

    Exits with 1 where it did not, or where the records do not show it.
    """
    output = Output(json=json)
    with busy(output, "reading the records"), connect(url) as hwd:
        found = hwd.verify_job(id)
    output.data(found)
    for one in found if not json else ():
        for breach in one.breaches:
            output.say(str(breach))
        for what in one.unshown:
            output.say(f"not shown: {what}")
        if (more := one.breaches_total + one.unshown_total - len(one.breaches) - len(one.unshown)) > 0:
            output.say(f"and {more} more")
        output.say(str(one))
    if not all(one.holds for one in found):
        raise typer.Exit(1)


@commands.command(epilog="Example: hwd job training k3v9a1xx")
def training(
    id: _JobOrRun,
    url: Url = None,
    json: Json = False,
) -> None:
    """How long the iterations of a job took, as its program says them, when its light moved, and how long operations
    waited for that; so far where it runs.
    """
    output = Output(json=json)
    with busy(output, "reading the records"), connect(url) as hwd:
        found = hwd.job_training(id)
    output.data(found)
    for one in found if not json else ():
        output.say(str(one))
        output.table(
            ("iteration", "seconds", "operations", "waited for the plane [s]"),
            [(row.iteration, _figure(row.seconds), row.operations, f"{row.held_s:.4f}") for row in one.iterations],
        )
        rows = [
            (
                move.target,
                f"{move.at_s:.3f}",
                _figure(move.seconds),
                "-" if move.links is None else move.links,
                f"{move.held_s:.4f}",
                move.why or move.held or "hidden",
            )
            for move in one.moves
        ]
        output.table(("light", "at [s]", "seconds", "new links", "waited for [s]", "by"), rows)


@commands.command(epilog="Example: hwd job demand k3v9a1xx --iteration 2")
def demand(
    id: _JobOrRun,
    iteration: Annotated[int | None, typer.Option("--iteration", metavar="N", min=0, help="Only of this one.")] = None,
    layer: Annotated[int | None, typer.Option("--layer", metavar="N", min=0, help="Only of this one.")] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """What the hosts of a job had for each other in its all-to-alls, in bytes: a row for each two of them."""
    output = Output(json=json)
    with busy(output, "reading the records"), connect(url) as hwd:
        found = hwd.job_demand(id, iteration=iteration, layer=layer)
    output.data(found)
    for one in found if not json else ():
        rows = [
            (
                "-" if matrix.iteration is None else matrix.iteration,
                "-" if matrix.layer is None else matrix.layer,
                f"{matrix.index} of {matrix.group}",
                one.hosts[sender],
                one.hosts[receiver],
                size_bytes,
            )
            for matrix in one.matrices
            for sender, row in enumerate(matrix.size_bytes)
            for receiver, size_bytes in enumerate(row)
            if size_bytes
        ]
        output.say(f"job {one.job} ({one.entry}): {plural(len(one.matrices), 'all-to-all')}")
        output.table(("iteration", "layer", "all-to-all", "from", "to", "bytes"), rows)


@commands.command(epilog="Example: hwd job efficiency k3v9a1xx")
def efficiency(
    id: _JobOrRun,
    url: Url = None,
    json: Json = False,
) -> None:
    """How much of the capacity of a job's network became data that its ranks go on with: eta = gamma x delta x theta,
    of the job, each phase and each kind of operation, from what its hosts counted; so far where it runs.
    """
    output = Output(json=json)
    with busy(output, "reading the records"), connect(url) as hwd:
        found = hwd.job_efficiency(id)
    output.data(found)
    for one in found if not json else ():
        output.say(str(one))
        rows = [
            (row.scope, row.name, row.operations, f"{row.seconds:.3f}", *map(_figure, row.factors)) for row in one.rows
        ]
        output.table(("of", "name", "operations", "seconds", "gamma", "delta", "theta", "eta"), rows)
        for why in dict.fromkeys(row.why for row in one.rows if row.why):
            names = ", ".join(f"{row.scope} {row.name}" for row in one.rows if row.why == why)
            output.say(f"not shown of {names}: {why}")
        for what in one.unshown:
            output.say(f"left out: {what}")


def _show(output: Output, status: JobStatus) -> None:
    output.data(status)
    if output.json:
        return
    output.say(str(status))
    if status.lease:
        held = f", prepared set {status.prepared_set}" if status.prepared_set else ""
        output.say(f"plane {status.plane}; lease {status.lease}{held}; {_light(status)}")
    if status.not_ready:
        output.say(f"not brought to {status.not_ready}")
    if status.moved:
        output.say(f"moved {status.moved}: no rank is let go until it is back")
    for line in status.moves_of_others:
        output.say(f"moved {line}")
    if status.failed:
        output.say(f"failed: {', '.join(status.failed)}")
    rows = [(str(one.rank), one.host, one.state, one.operation) for one in status.ranks]
    output.table(("rank", "host", "state", "operation"), rows)


def _line(status: JobStatus) -> str:
    """What the job does, in a line that changes only with that."""
    return f"job {status.id}: {status.state}, {_light(status)}"


def _light(status: JobStatus) -> str:
    return f"light on the way to {status.moving}" if status.moving else f"light at {status.at or 'no known target'}"


def _check(status: JobStatus) -> None:
    """Raises FailedError for a job that did not succeed."""
    if status.state != "succeeded":
        more = f"`hwd job logs {status.id} --rank N` has what a rank wrote"
        raise FailedError(f"job {status.id}: {status.state}: {status.why}. {more}")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
