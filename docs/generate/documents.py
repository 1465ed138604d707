"""Kinds of documents with their fields, from hwd.model.kinds; the remarks are the comments there."""

import inspect
import re

from docs.generate.pages import code, table
from hwd.model import kinds


def documents() -> str:
    remarks = _remarks()
    rows = (
        (code(kind), ", ".join(map(code, _in_order(kind, fields))), remarks.get(kind, ""))
        for kind, fields in kinds.KINDS.items()
    )
    return table(("kind", "fields", "remark"), rows)


def _remarks() -> dict[str, str]:
    """By kind; its comment may have several lines. `# ---` starts the title of a section."""
    source = inspect.getsource(kinds)
    above = re.findall(r'((?:^ *# (?!---).*\n)+) *"([\w.-]+)":', source, re.MULTILINE)
    beside = re.findall(r'^ *"([\w.-]+)":.*",  # (.*)$', source, re.MULTILINE)
    return {kind: " ".join(re.findall("# (.*)", text)) for text, kind in above} | dict(beside)


def _in_order(kind: str, fields: frozenset[str]) -> list[str]:
    """In the order of the source: a frozenset has none."""
    source = inspect.getsource(kinds)
    start = source.index(f'"{kind}":')
    return sorted(fields, key=lambda field: _place(source, field, start))


def _place(source: str, field: str, start: int) -> int:
    found = re.compile(rf"(?<![\w.-]){field}(?!\w)").search(source, source.index(":", start))
    assert found is not None, field
    return found.start()
