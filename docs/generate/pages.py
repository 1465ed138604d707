"""Pages with generated parts, which lie between `<!-- generated: NAME -->` and `<!-- end of NAME -->`."""

import re
from collections.abc import Callable, Iterable, Mapping

PART = re.compile(r"<!-- generated: (?P<name>[\w-]+) -->\n(?P<text>.*?)<!-- end of (?P=name) -->", re.DOTALL)
MARK = re.compile(r"<!-- (generated:|end of) ")


def filled(page: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """The page with each part regenerated. Raises ValueError where a mark has no partner or names no part."""

    def part(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in parts:
            raise ValueError(f"there is no part {name!r}; there are {', '.join(sorted(parts))}")
        return f"<!-- generated: {name} -->\n\n{parts[name]().strip()}\n\n<!-- end of {name} -->"

    text, count = PART.subn(part, page)
    if len(MARK.findall(page)) != 2 * count:
        raise ValueError("a mark of a generated part has no partner")
    return text


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown. A bar within a cell is escaped, a line end is a space."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("|" + "".join(f" {_cell(cell)} |".replace("  |", " |") for cell in line) for line in lines) + "\n"


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
