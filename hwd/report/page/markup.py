"""Text in HTML: whoever said it, it neither ends its element nor turns what stands beside it."""

import html

from hwd_drivers.core.printable import printable


def escape(text: str) -> str:
    """Lines and tabs stay, as files have them; what else does not show itself is shown as an escape."""
    return html.escape("\n".join("\t".join(map(_shown, line.split("\t"))) for line in text.split("\n")))


def _shown(text: str) -> str:
    return printable(text.replace("\u00a0", " "), most=len(text) * 10 + 1)
