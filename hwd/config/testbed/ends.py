"""Fibre ends of a switch, from text: `3A`, a range `4A..6A`; one-sided ports as `5`, `in`."""

import re
from collections.abc import Sequence

from hwd.config.yaml.file_problem import nearest
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.values import PortSide

RANGE_MAX = 4096
"""More ports than any switch has."""

_RANGE = re.compile(r"(\d{1,6})([AB]?)\.\.(\d{1,6})([AB]?)")


def ports_in(text: str) -> tuple[PortSide, ...]:
    """One end, or those of a range. Raises ConfigError on anything else."""
    if ".." not in text:
        return (PortSide.parse(text),)
    match = _RANGE.fullmatch(text)
    if not match or match[2] != match[4]:
        raise ConfigError(f"{text!r} is no range; write 1A..4A, with the same side twice")
    first, last = int(match[1]), int(match[3])
    if not first <= last < first + RANGE_MAX:
        raise ConfigError(f"{text}: a range ascends, over at most {RANGE_MAX} ports")
    return tuple(PortSide.parse(f"{port}{match[2]}") for port in range(first, last + 1))


def parse_ends(switch: str, items: Sequence[str], testbed: Testbed) -> tuple[PortSide, ...]:
    """Ends of a switch that the daemon drives, each once. Raises ConfigError for an unknown switch or end, RefusedError
    for a host's own switch.
    """
    if (composite := testbed.composites.get(switch)) is not None:
        places = ", ".join(
            f"{end} is {composite.ports[end]}" for item in items for end in ports_in(item) if end in composite.ports
        )
        raise ConfigError(
            f"{switch}: is a composite; name ends of its switches ({places or 'it has none of these ends'})"
        )
    if switch not in testbed.switches:
        raise ConfigError(f"{switch!r} is no switch of testbed {testbed.name}; {nearest(switch, testbed.switches)}")
    if (owner := testbed.switches[switch].owner) is not None:
        raise RefusedError(f"{switch}: it belongs to host {owner}, which alone drives it")
    known = testbed.switches[switch].capabilities.ends
    found = dict.fromkeys(end for item in items for end in ports_in(item))
    if unknown := [end for end in found if end not in known]:
        raise ConfigError(f"{switch}: it has no {', '.join(unknown)}; its ends go from {known[0]} to {known[-1]}")
    return tuple(found)
