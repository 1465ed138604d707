"""Label values that an exposition can carry, whatever came from outside."""

from typing import Final

VALUE_MAX: Final = 200
"""Characters of a label value: more than any name of ours has, and few enough that garbage stays small."""


def clean(value: str) -> str:
    """Cut a value to at most VALUE_MAX characters that UTF-8 can encode: lone surrogates become `?`."""
    if len(value) > VALUE_MAX:
        value = value[:VALUE_MAX]
    return value if value.isascii() else value.encode("utf-8", "replace").decode()
