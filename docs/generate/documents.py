"""Kinds of documents with their fields, from hwd.model.kinds; the remarks are the docstrings of their types."""

import inspect

from docs.generate.pages import code, table
from hwd.model.kinds import FACTS


def documents() -> str:
    rows = (
        (code(fact.KIND), ", ".join(map(code, fact.__struct_fields__)), " ".join((inspect.getdoc(fact) or "").split()))
        for several in FACTS.values()
        for fact in several
    )
    return table(("kind", "fields", "remark"), rows)
