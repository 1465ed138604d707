"""Escapes text for HTML: it can neither end its element nor change the direction of its neighbours."""

import html

from hwd_drivers.core.printable import printable


def escape(text: str) -> str:
    """Lines and tabs stay, as in files; other invisible characters become escapes."""
    return html.escape("\n".join("\t".join(map(_shown, line.split("\t"))) for line in text.split("\n")))


def _shown(text: str) -> str:
    return printable(text.replace("\u00a0", " "), most=len(text) * 10 + 1)
