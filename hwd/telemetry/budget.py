"""How many series a testbed may have: what a scrape costs at most, whatever hosts and switches say."""

from dataclasses import dataclass
from typing import Self

from hwd.model.testbed import Testbed

RUNS_SHOWN = 32
"""Runs with a series of their own: more than are ever under way at once on one testbed."""
JOBS_SHOWN = 16
"""Jobs with series of their own: each holds a lease on the NIC ports of its hosts."""
VERBS = 8
"""Kinds of commands of one switch: connect, disconnect, change, and room for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Sizes that limit the number of series: switches, their fibre ends, hosts, their NIC ports, lanes of these."""

    switches: int
    ends: int
    hosts: int
    ports: int
    lanes: int

    @classmethod
    def of(cls, testbed: Testbed) -> Self:
        return cls(
            switches=len(testbed.switches),
            ends=sum(len(switch.capabilities.ends) for switch in testbed.switches.values()),
            hosts=len(testbed.hosts),
            ports=sum(1 for _ in testbed.ports()),
            lanes=sum(port.module.lanes for port in testbed.ports()),
        )
