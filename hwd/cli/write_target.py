"""Standard output as the target of an export, and progress of a command that writes. Files are
`hwd_drivers.core.output_file`.
"""

import contextlib
import sys
from collections.abc import Generator, Iterable, Iterator
from typing import BinaryIO, TypeVar

from hwd.cli.output import Output
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.printable import printable
from hwd_drivers.core.standard_streams import end_with_reader

T = TypeVar("T")

STANDARD = "-"
LOADING = "loading"
"""Shown while the libraries of a command are loaded, some of which take over a second."""
_SHOWN_EVERY = 500


@contextlib.contextmanager
def standard(*, binary: bool) -> Generator[BinaryIO, None, None]:
    """Standard output. Raises ConfigError where it is a terminal and the output is not text."""
    if binary and sys.stdout.isatty():
        raise ConfigError(
            "-o -: this is no text, and standard output is a terminal. Name a file, or send it into a pipe"
        )
    end_with_reader()
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def counted(items: Iterable[T], output: Output, what: str) -> Iterator[T]:
    """Yield the items again, and count them on a terminal as they pass."""
    if not output.on_terminal:
        yield from items
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(printable(what))) as status:
        for count, item in enumerate(items):
            if count % _SHOWN_EVERY == 0:
                status.update(Text(printable(f"{what}: {plural(count, 'document')}")))
            yield item


@contextlib.contextmanager
def busy(output: Output, what: str) -> Generator[None, None, None]:
    """Show on a terminal that work is under way."""
    if not output.on_terminal:
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(printable(what))):
        yield
