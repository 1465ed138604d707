"""Signs of a terminal server that does not pass on the bytes of its serial line: what to do about each."""

import re
from typing import Final

SEEN_BYTES: Final = 200
"""The first bytes of a connection that are looked at: a server speaks before the device can."""
NEGOTIATION: Final = re.compile(rb"\xff[\xfb-\xfe]", re.DOTALL)
"""IAC with WILL, WON'T, DO or DON'T (RFC 854), which is no text of any encoding."""
TAKEN: Final = re.compile(
    rb"(?i)\bbusy\b|\bin use\b|\balready (?:open|connected|in use)\b|\bconnection (?:refused|denied)\b"
)
LOGIN: Final = re.compile(rb"(?i)\b(?:login|user ?name|password) ?:\s*$")


def hint_of(first: bytes) -> str:
    """A sentence on the first bytes of a connection that brought no answer; empty where they are no such sign."""
    first = first[:SEEN_BYTES]
    if NEGOTIATION.search(first):
        return (
            "The other side negotiates telnet: is it a terminal server? "
            "Set that port of it to raw TCP, without telnet, banner and login"
        )
    words = " ".join(first.decode("ascii", "replace").split())[:80]
    if TAKEN.search(first):
        return (
            f"The other side says {words!r}: does somebody else have this port of a terminal server? End that session"
        )
    if LOGIN.search(first):
        return (
            f"The other side says {words!r}: is it a terminal server that asks for a login? "
            "Set that port of it to raw TCP, without a login"
        )
    return ""
