"""Label values as they may stand in an exposition, whatever came from outside."""

from functools import lru_cache
from typing import Final

VALUE_MAX: Final = 200
"""Characters of a label value; more than any name of ours, and little enough that garbage stays small."""

KEPT_MOST: Final = 4096


def clean(value: str) -> str:
    """At most VALUE_MAX characters that are UTF-8: lone surrogates are not, and become `?`."""
    if len(value) > VALUE_MAX:
        value = value[:VALUE_MAX]
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


@lru_cache(maxsize=KEPT_MOST)
def labelled(name: str, labels: tuple[str, ...], values: tuple[str, ...]) -> str:
    """A series as it stands before its value, labels in the order of the alphabet: `name{label="value"}`. Kept: series of light go and come with it."""
    pairs = sorted(zip(labels, values, strict=True))
    inner = ",".join(f'{label}="{escaped(value)}"' for label, value in pairs)
    return f"{name}{{{inner}}}" if inner else name


def escaped(value: str) -> str:
    """The same in the text format and in OpenMetrics."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
