"""Metrics with type, labels and meaning, from the daemon's registry, and how many series they may have."""

from dataclasses import fields, replace

from docs.generate.pages import code, table
from hwd.rack.nic_ports import NicPorts
from hwd.rack.ready_links import ReadyLinks
from hwd.telemetry import Metrics
from hwd.telemetry.budget import Budget

_ONE = Budget(switches=1, ends=1, hosts=1, ports=1, lanes=1)
_OPUS = Budget(switches=1, ends=64, hosts=4, ports=16, lanes=64)
_WORDS = {"ends": "fibre ends", "ports": "NIC ports"}


def _of(budget: Budget) -> Metrics:
    return Metrics(budget, ReadyLinks(NicPorts()))


def metrics() -> str:
    """The budget does not matter here: no series is made."""
    rows = sorted((code(one.name), one.type, ", ".join(one.labels), one.help) for one in _of(_ONE))
    return table(("metric", "type", "labels", "means"), rows)


def series() -> str:
    """The most series as a sum over the sizes of a testbed: what one more of each size allows."""
    least = _of(_ONE).limit
    more = {size.name: _of(replace(_ONE, **{size.name: 2})).limit - least for size in fields(Budget)}
    terms = [f"{count} x {_WORDS.get(size, size)}" for size, count in more.items()]
    return (
        f"```text\nseries <= {' + '.join([str(least - sum(more.values())), *terms])}\n```\n\n"
        "The testbed of the Opus paper (one switch with 64 fibre ends, four hosts, 16 NIC ports of four lanes) may "
        f"have {_of(_OPUS).limit}."
    )
