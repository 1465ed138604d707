"""UncaughtErrors: uncaught exceptions during a check, which asyncio reports only to the loop's exception handler."""

import asyncio
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from hwd_drivers.core.errors import BugError, HwdError

_Handler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]

_MINE: Final[ContextVar["UncaughtErrors | None"]] = ContextVar("hwd_overheard", default=None)

log = logging.getLogger(__name__)


class UncaughtErrors:
    """Uncaught exceptions by type and place, with their number. Those in `printed` are printed already."""

    def __init__(self, printed: set[str]) -> None:
        self.counts: dict[str, int] = {}
        self.printed = printed

    def take(self, error: BaseException) -> None:
        """Count the exception, and print it."""
        words = what_and_where(error)
        self.counts[words] = self.counts.get(words, 0) + 1
        self.tell(error)

    def tell(self, error: BaseException) -> None:
        """Print it, if not printed before."""
        words = what_and_where(error)
        if words not in self.printed:
            self.printed.add(words)
            log.error("uncaught exception, printed once: %s", words, exc_info=error)

    def __str__(self) -> str:
        return "; ".join(
            f"uncaught: {words}{f' ({count} times)' if count > 1 else ''}" for words, count in self.counts.items()
        )


@contextmanager
def collect_uncaught(printed: set[str] | None = None) -> Iterator[UncaughtErrors]:
    """Collect uncaught exceptions of the running loop. Without `printed` that of an outer listener is used.

    An exception that belongs to this task, or to one that it started, is collected here; one without a known task is
    collected by all listeners.
    """
    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()
    ears = handler if isinstance(handler, _LoopHandler) else _LoopHandler(handler)
    loop.set_exception_handler(ears)
    outer = _MINE.get()
    if printed is None:
        printed = set() if outer is None else outer.printed
    mine = UncaughtErrors(printed)
    ears.listening.append(mine)
    token = _MINE.set(mine)
    try:
        yield mine
    finally:
        _MINE.reset(token)
        ears.listening.remove(mine)
        if not ears.listening:
            loop.set_exception_handler(ears.before)


def what_and_where(error: BaseException) -> str:
    """`ValueError: not a number at protocol.py:41`; of one without words its line of the source, as of `assert`."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    words = str(error) or (frames[-1].line or "" if frames else "")
    return f"{type(error).__name__}: {' '.join(words.split())[:WORDS]}{where}"


WORDS: Final = 200
"""Most characters that are printed of an exception's text."""


class _LoopHandler:
    """The exception handler of a loop while there are listeners."""

    def __init__(self, before: _Handler | None) -> None:
        self.before = before
        self.listening: list[UncaughtErrors] = []

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None:
            loop.default_exception_handler(context)
            return
        mine = _MINE.get()
        is_of_task = "task" in context or "future" in context
        for each in [mine] if mine in self.listening and mine is not None else self.listening:
            if is_of_task and isinstance(error, HwdError) and not isinstance(error, BugError):
                each.tell(error)  # one of our errors in a cancelled exchange, whose task is unknown
            else:
                each.take(error)
