"""Leasing: leases in force, requests for some, and how leases ended."""

from dataclasses import dataclass
from typing import Self

from hwd.daemon.assembly.foundation import Foundation
from hwd.reconfigure.leases.ends import LeaseEnds
from hwd.reconfigure.leases.leases import Leases
from hwd.reconfigure.leases.requests import LeaseRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class Leasing:
    """The leases of ports, from the records."""

    leases: Leases
    requests: LeaseRequests
    ends: LeaseEnds

    @classmethod
    async def open(cls, base: Foundation) -> Self:
        """Read the leases and the requests for some."""
        store = base.records.leases
        leases = Leases(base.ledger, store=store, clock=base.clock, ids=base.ids, sink=base.sink)
        await leases.load()
        requests = LeaseRequests(leases, store=store, clock=base.clock, sink=base.sink)
        await requests.load()
        ends = LeaseEnds(base.ledger)
        await ends.load(base.records)
        return cls(leases=leases, requests=requests, ends=ends)
