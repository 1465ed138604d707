"""Which program synchronises the wall clock of this host, chrony or ptp4l, and how well, by their own tools.

The wall clock serves only for labels, never for the order of events: all stamps are of CLOCK_MONOTONIC_RAW, which
nobody sets, and the daemon aligns them.
"""

import math
import shutil
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from hwd_agents.wire import WallClock
from hwd_drivers.core.errors import LinkError, ProtocolError, RefusedError

from .tool import output_of

ANSWER_WITHIN_S: Final = 5.0
"""chronyc gives up after 3 tries of 1, 2 and 4 s; a running daemon answers in milliseconds."""
LEAP_UNSYNCHRONISED: Final = "Not synchronised"
LEAPS: Final = ("Normal", "Insert second", "Delete second", LEAP_UNSYNCHRONISED)
"""The leap status values of chronyc(1)."""
ITSELF: Final = "7F7F0101"
"""127.127.1.1: the reference of a server that follows its own clock (chrony.conf(5), `local`)."""
FOLLOWING: Final = "SLAVE"
"""State of a port that steers the clock (IEEE 1588-2008, 9.2.5); an UNCALIBRATED port only measures."""
_NS_IN_S: Final = 1e9


class WallSource(Protocol):
    """A program that may synchronise the wall clock."""

    async def read(self) -> WallClock:
        """The state of the wall clock.

        Raises LinkError when the program does not run, RefusedError when it does not synchronise the clock,
        ProtocolError when its output cannot be parsed.
        """
        ...


class Chrony:
    """chronyd, by `chronyc -c tracking` (chronyc(1), chrony.conf(5) `cmdport`, `bindcmdaddress`).

    `options`: of chronyc, for a chronyd with another command address.
    """

    def __init__(self, *options: str, find: Callable[[str], str | None] = shutil.which) -> None:
        self._options = options
        self._find = find

    async def read(self) -> WallClock:
        if (tool := self._find("chronyc")) is None:
            raise LinkError("chrony: chronyc is not installed")
        answer = await output_of(tool, "-c", "-n", *self._options, "tracking", within_s=ANSWER_WITHIN_S)
        return parse_tracking(answer.decode(errors="replace"))


class PtpForLinux:
    """ptp4l, by `pmc` over its Unix socket (pmc(8)), which only root may use.

    `-u` and `-b 0` restrict it to this host. `options`: further ones of pmc, such as `-f`.
    """

    def __init__(self, *options: str, find: Callable[[str], str | None] = shutil.which) -> None:
        self._options = options
        self._find = find

    async def read(self) -> WallClock:
        if (tool := self._find("pmc")) is None:
            raise LinkError("ptp4l: pmc is not installed")
        asked = ("GET PORT_DATA_SET", "GET CURRENT_DATA_SET", "GET PARENT_DATA_SET")
        answer = await output_of(tool, "-u", "-b", "0", *self._options, *asked, within_s=ANSWER_WITHIN_S)
        return parse_management(answer.decode(errors="replace"))


def parse_tracking(words: str) -> WallClock:
    """Parse the line of `chronyc -c tracking`: its fields are those of chronyc(1) `tracking`, in that order.

    The error of the clock is at most half the root delay, plus the root dispersion, plus the correction that is not
    applied yet (chronyc(1): clock error).
    """
    fields = words.strip().split(",")
    try:
        reference, name, stratum = fields[0], fields[1], int(fields[2])
        ahead_s, delay_s, dispersion_s, leap = -float(fields[4]), float(fields[10]), float(fields[11]), fields[13]
    except (IndexError, ValueError) as error:
        raise ProtocolError(
            f"chrony: chronyc -c tracking said {words.strip()[:100]!r}, which is no tracking line"
        ) from error
    if leap not in LEAPS:
        raise ProtocolError(f"chrony: chronyc -c tracking said {words.strip()[:100]!r}: {leap!r} is no leap status")
    if not all(map(math.isfinite, (ahead_s, delay_s, dispersion_s))):
        raise ProtocolError(f"chrony: chronyc -c tracking said {words.strip()[:100]!r}: a figure is not finite")
    if leap == LEAP_UNSYNCHRONISED or stratum == 0:
        raise RefusedError("chrony: chronyd runs, but is not synchronised to any source. See `chronyc sources`")
    if reference == ITSELF:
        raise RefusedError("chrony: chronyd follows only its own clock (`local`). See `chronyc sources`")
    return WallClock(
        synchronised_by="chrony",
        reference=name or reference,
        stratum=stratum,
        offset_s=ahead_s,
        error_s=abs(ahead_s) + dispersion_s + delay_s / 2,
    )


def parse_management(words: str) -> WallClock:
    """Parse the output of `pmc`: the state of a port, and the offset from its master (IEEE 1588-2019, 8.2.2, 8.2.15).

    PTP states no error bound. The bound is the offset as last measured, plus half the mean path delay, for asymmetry.
    """
    if "RESPONSE MANAGEMENT" not in words:
        raise LinkError("ptp4l: no answer to pmc: ptp4l does not run, or we may not ask it (only root may)")
    fields = [line.split() for line in words.splitlines() if line[:1].isspace()]
    found: Mapping[str, str] = {each[0]: each[1] for each in fields if len(each) == 2}
    states = [each[1] for each in fields if len(each) == 2 and each[0] == "portState"]
    if FOLLOWING not in states:
        raise RefusedError(f"ptp4l: it runs, and steers no clock: its ports are {', '.join(states) or 'not reported'}")
    try:
        ahead_s, delay_s = float(found["offsetFromMaster"]) / _NS_IN_S, float(found["meanPathDelay"]) / _NS_IN_S
    except (KeyError, ValueError) as error:
        raise ProtocolError(f"ptp4l: pmc reported no offset from its master: {words.strip()[:100]!r}") from error
    return WallClock(
        synchronised_by="ptp4l",
        reference=found.get("grandmasterIdentity", ""),
        offset_s=ahead_s,
        error_s=abs(ahead_s) + abs(delay_s) / 2,
    )
