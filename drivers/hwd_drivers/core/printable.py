"""Foreign text made safe for a log line or a terminal: text of an agent, a device, a topic or somebody else's file."""

import logging
from types import TracebackType
from typing import Final

LOG_MOST: Final = 2000
"""Most characters in one line of a log."""
TERMINAL_MOST: Final = 20_000
"""Most characters in one line for a person: a table with many columns is long."""
_Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def printable(text: str, most: int = TERMINAL_MOST) -> str:
    r"""Return `text` as one line of visible characters, cut to `most` characters with a note of the full length.

    Escapes (`\x1b`, `\n`, `\u202e`) replace control characters of C0 and C1, line and paragraph separators, characters
    that change the direction of text or have no width, half surrogates and code points that are not characters.
    """
    if not text.isprintable():
        text = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


class LineFormatter(logging.Formatter):
    """One line for each record. The lines of a traceback begin with a mark, so that none looks like a record."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line of one record."""
        record.message = printable(record.message, LOG_MOST)
        return super().formatMessage(record)

    def formatException(self, ei: _Raised) -> str:  # noqa: N802
        """The traceback; the text of an exception can be foreign too."""
        return _marked(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        """The stack of the logging call."""
        return _marked(super().formatStack(stack_info))


def _marked(text: str) -> str:
    return "\n".join(f"  | {printable(line, LOG_MOST)}" for line in text.split("\n"))
