"""The wait for a confirm as the journal has it, so that the next process of the daemon can go on with it."""

import msgspec

from hwd.model.circuit import RoutedLink
from hwd.model.link import Link
from hwd.model.plan import Plan, PlannedLink
from hwd.ports.claim import Claim
from hwd.ports.rules import Reason
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves

_NS_IN_S = 1_000_000_000


class ConfirmTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of a reconfiguration that will await a confirm, beside its moves, as a begin in the journal has them.

    `links`: those that are wanted, each with whether it was kept. `owner` to `whole`: its claim of ports and switches.
    """

    mode: ApplyMode
    lease: str | None
    ready_within_s: float | None
    confirm_within_s: float = msgspec.field(name="within_s")
    links: tuple[tuple[Link, bool], ...]
    owner: str
    ports: tuple[str, ...]
    relies_on: tuple[str, ...]
    switches: tuple[str, ...]
    whole: bool

    @classmethod
    def of(cls, plan: Plan, claim: Claim | None) -> "ConfirmTerms | None":
        """The terms of a plan; None for a plan that is confirmed as soon as it is ready."""
        if plan.confirm_within_s is None or claim is None:
            return None
        return cls(
            mode=plan.mode,
            lease=plan.lease,
            ready_within_s=plan.ready_within_s,
            confirm_within_s=plan.confirm_within_s,
            links=tuple((planned.routed.link, planned.kept) for planned in plan.links),
            owner=claim.owner,
            ports=tuple(sorted(claim.ports)),
            relies_on=tuple(sorted(claim.relies_on)),
            switches=tuple(sorted(claim.switches)),
            whole=claim.whole,
        )

    def plan(self, *, what: str, hash: str, moves: tuple[SwitchMoves, ...]) -> Plan:
        """The plan, without the paths of its links and without what it expected: nothing is driven by it any more."""
        return Plan(
            what=what,
            mode=self.mode,
            moves=moves,
            links=tuple(PlannedLink(routed=RoutedLink(link=link, circuits=()), kept=kept) for link, kept in self.links),
            dark=(),
            touches=frozenset(self.ports),
            expected_s=0.0,
            expected_from="driven before the daemon started",
            warnings=(),
            lease=self.lease,
            ready_within_s=self.ready_within_s,
            confirm_within_s=self.confirm_within_s,
            hash=hash,
        )

    def claim(self, *, id: str, run: str | None, what: str) -> Claim:
        """The claim of the reconfiguration, which moves nothing now."""
        return Claim(
            id=id,
            reason=Reason.RECONFIGURATION,
            owner=self.owner,
            ports=frozenset(self.ports),
            run=run,
            relies_on=frozenset(self.relies_on),
            switches=frozenset(self.switches),
            whole=self.whole,
            at_rest=True,
            what=what,
        )


class ConfirmWait(msgspec.Struct, frozen=True, kw_only=True):
    """A wait for a confirm until `until_wall_ns`, of `within_s` in all. `started_wall_ns`: when its apply began.

    All times are unix times: they must outlive the host.
    """

    started_wall_ns: int
    until_wall_ns: int
    within_s: float

    def left_s(self, now_wall_ns: int) -> float:
        """The seconds that are left; zero or less when its time is over.

        Never more than `within_s`: a clock that was set back while the daemon was away would otherwise lengthen it.
        """
        return min((self.until_wall_ns - now_wall_ns) / _NS_IN_S, self.within_s)
