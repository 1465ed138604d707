"""Kinds of documents with their fields, from hwd.model.kinds; the remarks are those beside them there."""

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
    found = re.findall(r'^ *"([\w.-]+)":.*",  # (.*)$', inspect.getsource(kinds), re.MULTILINE)
    return dict(found)


def _in_order(kind: str, fields: frozenset[str]) -> list[str]:
    """As they are written there: a frozenset has forgotten it."""
    source = inspect.getsource(kinds)
    start = source.index(f'"{kind}":')
    return sorted(fields, key=lambda field: _place(source, field, start))


def _place(source: str, field: str, start: int) -> int:
    found = re.compile(rf"(?<![\w.-]){field}(?!\w)").search(source, source.index(":", start))
    assert found is not None, field
    return found.start()
