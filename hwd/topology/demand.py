"""The demand of a topology: written out, `demand=h0:h1:5,h0:h2:1`, or stored, by its name: `demand=moe layer=3`."""

import math
from collections.abc import Mapping

from hwd.model.demand import DemandKey, DemandMatrix, check_name
from hwd.model.testbed import Testbed
from hwd.topology.kind import whole_number
from hwd_drivers.core.errors import ConfigError


def demand_key(name: str, arguments: Mapping[str, str]) -> DemandKey | None:
    """The stored demand that a topology of this name and arguments reads; None where it reads none.

    Raises ConfigError where none can have such a name, or its layer or micro-batch is no number.
    """
    text = arguments.get("demand", "")
    if not text or ":" in text or "," in text:
        for argument in ("layer", "microbatch"):
            if argument in arguments:
                raise ConfigError(f"{name}: {argument}={arguments[argument]}: is that of a stored demand, demand=NAME")
        return None
    check_name(text)
    layer, microbatch = (whole_number(name, arguments, word, default=0, least=0) for word in ("layer", "microbatch"))
    return DemandKey(name=text, layer=layer, microbatch=microbatch)


def demand_of(
    name: str, testbed: Testbed, arguments: Mapping[str, str], stored: DemandMatrix | None
) -> Mapping[tuple[str, str], float]:
    """The demand by pairs of hosts, the smaller name first, both ways together; empty where none is asked for.

    `stored`: that of `demand_key`. Raises ConfigError where it is not known here, and for hosts that the testbed does
    not have.
    """
    if demand_key(name, arguments) is None:
        return _written(name, testbed, arguments.get("demand", ""))
    if stored is None:
        raise ConfigError(
            f"{name}: demand={arguments['demand']}: stored demands are for plans, prepared sets and playbooks of the "
            "daemon; write h0:h1:5 here"
        )
    if gone := [host for host in stored.hosts if host not in testbed.hosts]:
        raise ConfigError(
            f"{name}: {stored.name} has demand of host {gone[0]}, which testbed {testbed.name} does not have. "
            f"`hwd demand add {stored.name} FILE --hosts ... --replace` gives it others"
        )
    return stored.between


def _written(name: str, testbed: Testbed, text: str) -> dict[tuple[str, str], float]:
    """Read the demand of `h0:h1:5,h1:h0:2`: both ways of two hosts are added."""
    found: dict[tuple[str, str], float] = {}
    for item in filter(None, text.split(",")):
        one, _, rest = item.partition(":")
        other, _, amount = rest.partition(":")
        for host in (one, other):
            if host not in testbed.hosts:
                raise ConfigError(
                    f"{name}: demand={item}: no host {host!r}; write h0:h1:5. Testbed {testbed.name} has "
                    f"{', '.join(testbed.hosts)}"
                )
        try:
            value = float(amount)
        except ValueError:
            value = math.nan
        if one == other or not 0 <= value < math.inf:
            raise ConfigError(f"{name}: demand={item}: write two hosts and how much, not below 0: h0:h1:5")
        smaller, larger = sorted((one, other))
        found[smaller, larger] = found.get((smaller, larger), 0.0) + value
    return found
