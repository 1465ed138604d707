"""The command `hwd host`: programs on hosts."""

import sys
from contextlib import closing
from typing import Annotated

import typer

from hwd.cli import completion as completing
from hwd.cli.daemon import connect, me
from hwd.cli.options import JsonLines, Url, group
from hwd.cli.output import Output
from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.standard_streams import end_with_reader

commands = group("host", help="Programs on hosts.", epilog="Example: hwd host exec h0 -- ping 10.5.0.2")


@commands.command(name="exec", epilog="Example: hwd host exec h0 -- ping 10.5.0.2")
def execute(
    host: Annotated[str, typer.Argument(metavar="HOST", help="A host.", autocompletion=completing.hosts)],
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="-- PROGRAM [ARGUMENTS]...",
            help="An entry under `programs` of the testbed file, and arguments where it takes some.",
        ),
    ],
    url: Url = None,
    json: JsonLines = False,
) -> None:
    """Run a program on a host, as the user that the testbed file names, to its end; Ctrl-C ends it.

    What it writes comes here as it is. The exit status is its own, or 128 and the number of the signal that ended it;
    where it could not be started, or its end is not known, it is that of hwd. It has no input.
    """
    from hwd.model.program import ProgramEnd, ProgramOutput

    output = Output(json=json)
    end_with_reader()
    end = ProgramEnd()
    with connect(url) as hwd, closing(hwd.run_program(host, *words, by=me())) as all_news:
        for news in all_news:
            output.line(news)
            match news:
                case ProgramOutput() if not json:
                    stream = (sys.stdout if news.stream == "out" else sys.stderr).buffer
                    stream.write(news.data)
                    stream.flush()
                case ProgramEnd():
                    end = news
    if end.status is None and not end.signal:
        raise LinkError(f"{host}: {words[0]}: {end}")
    if end.signal or end.why:
        output.note(f"{host}: {words[0]}: {end}")
    raise typer.Exit(end.exit_status)
