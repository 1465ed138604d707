"""The reason of a system's or a library's error, as text for a person: without numbers, calls and tuples."""

import os
import re
from collections.abc import Mapping
from typing import Any, Final

_REFUSED: Final = re.compile(r"(?:\[Errno (\d+)\] )?Connect call failed \(.*?\)")
_BOUND: Final = re.compile(r"error while attempting to bind on address \(.*?\): ")
_NUMBER: Final = re.compile(r"\[Errno -?\d+\] ")
_TLS: Final = re.compile(r"\[\w+(?:: \w+)?\] | \(_ssl\.c:\d+\)")
_PLACE: Final = re.compile(r"(.+) - at `\$\.?([^`]+)`")
"""The form of msgspec: Expected `float`, got `str` - at `$.seconds`."""
_FIELD: Final = re.compile(r"Object (missing required|contains unknown) field `([^`]+)`")
_OF_FIELD: Final = {"missing required": "missing", "contains unknown": "an unknown field"}
_PARTS_OF_A_REQUEST: Final = ("body", "query", "path", "header")


def finding_of(detail: Mapping[str, Any]) -> str:
    """One finding of pydantic, `ready_within_s: must be greater than 0`, without the part of the request it was in."""
    place = [str(part) for part in detail["loc"]]
    if place[:1] and place[0] in _PARTS_OF_A_REQUEST:
        place = place[1:]
    kind, text = detail["type"], str(detail["msg"])
    if kind == "missing":
        text = "is missing"
    elif kind == "extra_forbidden":
        text = "is an unknown field"
    elif kind == "json_invalid":
        return f"the body is not JSON: {detail.get('ctx', {}).get('error', text)}"
    elif kind == "value_error":
        text = str(detail["ctx"]["error"])
    else:
        text = text.replace("Input should", "must").replace("String should", "must").replace("List should", "must")
    return f"{'.'.join(place) or 'the body'}: {text}"


def reason_of(error: BaseException) -> str:
    """Return `Connection refused` for `[Errno 111] Connect call failed ('127.0.0.1', 1)`; never empty.

    Our own errors stay.
    """
    number = error.errno if isinstance(error, OSError) else None
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)

    def refused(match: re.Match[str]) -> str:
        known = match[1] or number
        return os.strerror(int(known)) if known else "it was refused"

    text = _NUMBER.sub("", _BOUND.sub("", _REFUSED.sub(refused, text)))
    if "_ssl.c" in text:
        text = _TLS.sub("", text)
    text = _FIELD.sub(lambda match: f"{match[2]} is {_OF_FIELD[match[1]]}", text)
    if place := _PLACE.fullmatch(text):
        text = f"{place[2]}: {place[1][0].lower()}{place[1][1:]}".replace("`", "")
    if text:
        return text
    return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
