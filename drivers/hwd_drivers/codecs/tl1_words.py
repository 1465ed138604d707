"""TL1 values: groups of access identifiers (AID), and quoting."""

import re
from collections.abc import Sequence
from typing import Final

from hwd_drivers.core.errors import ProtocolError

GROUP_LIMIT: Final = 65_536
"""Most members of one AID group: `1&&999999999` is a mistake."""

_NUMBER = re.compile(r"[0-9]{1,9}")
"""Python refuses to convert numbers of thousands of digits."""
_BARE = re.compile(r"[A-Za-z0-9_.()+/*#@!$%^|~>&-]*")
"""Values that need no quotes."""
_MEMBER = re.compile(r"[A-Za-z0-9_.()+/*#@!$%^|~>-]+")
_ESCAPED = re.compile(r'\\(["\\])')


def parse_group(text: str) -> tuple[str, ...]:
    """Members of an AID group in order: `1&&3&7` is 1, 2, 3, 7. Raises ProtocolError on any other text."""
    members: list[str] = []
    through = False
    for part in text.replace("&&", "&\0").split("&"):
        through, member = part.startswith("\0"), part.removeprefix("\0")
        if not _MEMBER.fullmatch(member):
            raise ProtocolError(f"AID {shorten(text)}: not a group such as 1&3&&7")
        if not through:
            members.append(member)
            continue
        first, last = members[-1] if members else "", member
        if not (_NUMBER.fullmatch(first) and _NUMBER.fullmatch(last)) or int(last) < int(first):
            raise ProtocolError(
                f"AID {shorten(text)}: {shorten(first)}&&{shorten(last)} is not a range of rising numbers"
            )
        if int(last) - int(first) + len(members) > GROUP_LIMIT:
            raise ProtocolError(f"AID {shorten(text)}: more than {GROUP_LIMIT} members")
        members += map(str, range(int(first) + 1, int(last) + 1))
    return tuple(members)


def format_group(numbers: Sequence[int]) -> str:
    """`1&&4&7` for 1, 2, 3, 4, 7: in this order, with three or more rising numbers as a range."""
    parts: list[str] = []
    start = 0
    while start < len(numbers):
        end = start
        while end + 1 < len(numbers) and numbers[end + 1] == numbers[end] + 1:
            end += 1
        if end - start >= 2:
            parts.append(f"{numbers[start]}&&{numbers[end]}")
        else:
            parts += map(str, numbers[start : end + 1])
        start = end + 1
    return "&".join(parts)


def quote(value: str) -> str:
    """The value as a parameter: in quotes where it has characters with a meaning in TL1."""
    return value if _BARE.fullmatch(value) else quote_always(value)


def unquote(value: str) -> str:
    """The value of a parameter, with or without its quotes."""
    if len(value) < 2 or value[0] != '"' or value[-1] != '"':
        return value
    return _ESCAPED.sub(r"\1", value[1:-1])


def quote_always(value: str) -> str:
    """The value in quotes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"') if "\\" in value or '"' in value else value
    return f'"{escaped}"'


def shorten(text: str) -> str:
    """The text cut to one line, for error messages."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
