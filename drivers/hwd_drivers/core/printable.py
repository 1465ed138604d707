"""A stranger's text, made safe for a log line or a terminal: of an agent, a device, a topic, a file that somebody else wrote."""

import logging
from types import TracebackType
from typing import Final

LOG_MOST: Final = 2000
"""Characters of one line of a log."""
TERMINAL_MOST: Final = 20_000
"""Of one line for a person: a table of many columns is long."""
_Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def printable(text: str, most: int = TERMINAL_MOST) -> str:
    r"""In one line of characters that only show themselves, at most `most` of them and how many there were.

    Shown as escapes (`\x1b`, `\n`, `\u202e`): control characters of C0 and C1, line and paragraph separators, those that turn the direction of text or
    have no width, half surrogates, and what is no character.
    """
    if not text.isprintable():
        text = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def printable_lines(text: str, most: int = TERMINAL_MOST) -> str:
    """As `printable`, of text in lines of our own."""
    return "\n".join(printable(line, most) for line in text.split("\n"))


class LineFormatter(logging.Formatter):
    """One record, one line, whatever is in its message; the lines of a trace stand behind a mark, so that none of them looks like a record."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line."""
        record.message = printable(record.message, LOG_MOST)
        return super().formatMessage(record)

    def formatException(self, ei: _Raised) -> str:  # noqa: N802
        """The trace; an exception's own text is a stranger's, too."""
        return _marked(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        """Where it was logged."""
        return _marked(super().formatStack(stack_info))


def _marked(text: str) -> str:
    return "\n".join(f"  | {printable(line, LOG_MOST)}" for line in text.split("\n"))
