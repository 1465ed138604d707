"""The claims of reconfigurations in the ledger of ports, and who asks for them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from hwd.model.request import Caller, Request
from hwd.ports.claim import Claim, holder_of
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction, Reason
from hwd.reconfigure.plans.route import RoutedRequest
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Json
from hwd_drivers.switching.moves import ApplyMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A request that becomes a reconfiguration. `run`, `branch`, `sweep`: of a run, with the values of its parameters.

    `caller`: who asks for it. It waits for the end of transfers for `drain_s`, from `since_s` of the loop's clock on.
    """

    id: str
    request: Request
    run: str | None
    branch: str
    sweep: Mapping[str, Json]
    caller: Caller | None
    drain_s: float
    since_s: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    @property
    def owner(self) -> str:
        """The owner of the reconfiguration, for others who want its ports."""
        if self.run is not None:
            return holder_of(self.run)
        return "an unnamed caller" if self.caller is None else self.caller.name

    @property
    def drained_by_s(self) -> float:
        """When its wait is over, on the loop's clock."""
        return self.since_s + self.drain_s

    def asker(self, *, cuts: bool, switches: frozenset[str] = frozenset()) -> Asker:
        """The attempt, to the ledger. `cuts`: in spite of transfers in flight."""
        request = self.request
        return Asker(
            lease=request.body.lease,
            epoch=request.body.epoch,
            run=self.run,
            reconfiguration=self.id,
            switches=switches,
            whole=request.body.mode is ApplyMode.OVERWRITE or bool(request.wanted.emptied),
            cuts=cuts,
            is_way_back=request.is_way_back,
        )


class PortClaims:
    """Takes the claims. Between a question to the ledger and the claim nothing is awaited."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    def take(
        self,
        attempt: Attempt,
        routed: RoutedRequest,
        *,
        relies_on: frozenset[str],
        changes: frozenset[str] = frozenset(),
        cuts: bool = False,
    ) -> None:
        """Claim ports for an attempt, or widen its claim; raises RefusedError, and the old claim then stays.

        `cuts`: in spite of transfers in flight.
        """
        now, switches = self._clock.wall_ns(), frozenset(routed.switches)
        asker = attempt.asker(cuts=cuts, switches=switches)
        self._ledger.check(asker, relies_on | changes, PortAction.RELY, now_wall_ns=now)
        if changes:
            self._ledger.check(asker, changes, PortAction.CHANGE, now_wall_ns=now)
        self._ledger.claim(
            Claim(
                id=attempt.id,
                reason=Reason.RECONFIGURATION,
                owner=attempt.owner,
                ports=changes,
                run=attempt.run,
                relies_on=relies_on,
                switches=switches,
                whole=asker.whole,
                what=attempt.request.wanted.name,
            )
        )

    def check_change(self, attempt: Attempt, ports: frozenset[str]) -> None:
        """Raises RefusedError where another reason than a transfer keeps these ports from being changed."""
        self._ledger.check(attempt.asker(cuts=True), ports, PortAction.CHANGE, now_wall_ns=self._clock.wall_ns())

    def of_others(self, id: str) -> frozenset[str]:
        """Ports that other reconfigurations in progress change or rely on, and those that prepared sets may switch."""
        claims = self._ledger.all(Reason.RECONFIGURATION, Reason.PREPARED_SET)
        others = (claim for claim in claims if claim.id != id)
        return frozenset(port for claim in others for port in claim.ports | claim.relies_on)
