"""ApiValue: what callers of the daemon see. An attribute has its JSON field's name, where its docstring has none."""

from html import escape

import msgspec
from typing_extensions import override

from hwd_drivers.core.structs import to_plain


class ApiValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value with one line of text, and a display for notebooks.

    A field of a newer daemon is ignored. A field that is UNSET is left out of the JSON.
    """

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    @override
    def __str__(self) -> str:
        data = to_plain(self)
        return ", ".join(f"{key}={value}" for key, value in data.items() if isinstance(value, str | int | float))

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>"
