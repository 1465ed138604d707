"""What an error of the system or of a library says to a person: its words, without numbers, names of calls and tuples."""

import os
import re
from collections.abc import Mapping
from typing import Any, Final

_REFUSED: Final = re.compile(r"(?:\[Errno (\d+)\] )?Connect call failed \(.*?\)")
_BOUND: Final = re.compile(r"error while attempting to bind on address \(.*?\): ")
_NUMBER: Final = re.compile(r"\[Errno -?\d+\] ")
_TLS: Final = re.compile(r"\[\w+(?:: \w+)?\] | \(_ssl\.c:\d+\)")
_PLACE: Final = re.compile(r"(.+) - at `\$\.?([^`]+)`")
"""Of msgspec: Expected `float`, got `str` - at `$.seconds`."""
_PARTS_OF_A_REQUEST: Final = ("body", "query", "path", "header")


def finding_of(detail: Mapping[str, Any]) -> str:
    """One of what pydantic found, `ready_within_s: must be greater than 0`; where in a request it stood says its library, not ours."""
    place = [str(part) for part in detail["loc"]]
    if place[:1] and place[0] in _PARTS_OF_A_REQUEST:
        place = place[1:]
    kind, text = detail["type"], str(detail["msg"])
    if kind == "missing":
        text = "is missing"
    elif kind == "extra_forbidden":
        text = "is no field that this takes"
    elif kind == "json_invalid":
        return f"the body is not JSON: {detail.get('ctx', {}).get('error', text)}"
    elif kind == "value_error":
        text = str(detail["ctx"]["error"])
    else:
        text = text.replace("Input should", "must").replace("String should", "must").replace("List should", "must")
    return f"{'.'.join(place) or 'the body'}: {text}"


def reason_of(error: BaseException) -> str:
    """`Connection refused` of `[Errno 111] Connect call failed ('127.0.0.1', 1)`. What we said ourselves stays as it is; never empty."""
    number = error.errno if isinstance(error, OSError) else None
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)

    def refused(match: re.Match[str]) -> str:
        known = match[1] or number
        return os.strerror(int(known)) if known else "it was refused"

    text = _NUMBER.sub("", _BOUND.sub("", _REFUSED.sub(refused, text)))
    if "_ssl.c" in text:
        text = _TLS.sub("", text)
    if place := _PLACE.fullmatch(text):
        text = f"{place[2]}: {place[1][0].lower()}{place[1][1:]}".replace("`", "")
    if text:
        return text
    return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
