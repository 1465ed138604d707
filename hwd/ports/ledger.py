"""The ledger: every claim on a port, and the one question that everything asks before it touches ports.

ledger.check(Asker(lease="l7"), {"ocs1.3"}, PortAction.CHANGE, now_wall_ns=clock.wall_ns())
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from hwd.fabric.fabric import Fabric
from hwd.ports.claim import Claim, utc
from hwd.ports.rules import ROWS, Pass, PortAction, Reason, Row, Rule
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import natural_key

AGAIN: Final = "See those in force with `hwd lease list`, or take a new one with `hwd lease take`"

LEASE_REQUIRED: Final = (
    "this testbed wants a lease for every change. Take one with `hwd lease take`, and act under it with --lease"
)
NEED_LEASE: Final = frozenset({PortAction.CHANGE, PortAction.OVERRIDE})
"""What a testbed that wants leases refuses without one."""
ENDS_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who asks: the lease that it acts under, its run, the reconfiguration that it is.

    `epoch`: of its lease, where it says which. `request`: the request for a lease that it is. `prepared_set`: the set
    that it is, or that it switches. `switches`: those that it uses; `whole`: it wants them for itself alone. `cuts`: it
    may cut transfers in flight. `is_way_back`: it brings back what was there. What it does lasts from `from_wall_ns`
    (None: now) until `until_wall_ns` (None: it is over at once).
    """

    lease: str | None = None
    epoch: int | None = None
    request: str | None = None
    from_wall_ns: int | None = None
    until_wall_ns: int | None = None
    run: str | None = None
    reconfiguration: str | None = None
    prepared_set: str | None = None
    switches: frozenset[str] = frozenset()
    whole: bool = False
    cuts: bool = False
    is_way_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why somebody may not: `claim` has `ports`, or whole switches. None: the asker's own lease is over, or it has none
    where one is required.
    """

    claim: Claim | None
    ports: frozenset[str]
    text: str

    def __str__(self) -> str:
        return self.text


class ClaimedError(RefusedError):
    """Somebody else has a claim on these ports."""

    def __init__(self, text: str, claim: Claim) -> None:
        super().__init__(text)
        self.claim = claim


class Ledger:
    """Owns all claims. Neither time nor storage is its business: `now_wall_ns` is given, and others store leases.

    `lease_required`: who changes light needs a lease of each port whose light changes.
    """

    def __init__(self, *, lease_required: bool = False) -> None:
        self._lease_required = lease_required
        self._ends: dict[str, str] = {}
        self._claims: dict[Reason, dict[str, Claim]] = {reason: {} for reason in Reason}
        self._watchers: list[Callable[[Claim], None]] = []
        self._reports: dict[Reason, Callable[[Claim], str]] = {}

    def use_testbed(self, fabric: Fabric) -> None:
        """Go on with the testbed of this fabric."""
        self._lease_required = fabric.testbed.leases.required

    # --- claims

    def claim(self, claim: Claim) -> None:
        """Add a claim, or replace that of the same reason and id. Ask with `may` before, where it is not a fact."""
        self._claims[claim.reason][claim.id] = claim

    def release(self, reason: Reason, id: str) -> Claim | None:
        """Remove a claim; returns it, None where there is none."""
        claim = self._claims[reason].pop(id, None)
        if claim is not None:
            for call in self._watchers:
                call(claim)
        return claim

    def get(self, reason: Reason, id: str) -> Claim | None:
        claim = self._claims[reason].get(id)
        return None if claim is None else self._present(claim)

    def all(self, *reasons: Reason) -> tuple[Claim, ...]:
        """The claims of these reasons, in the order in which they came."""
        return tuple(self._present(claim) for reason in reasons for claim in self._claims[reason].values())

    def is_active(self, run: str | None) -> bool:
        """Whether a run is active: whether it has a claim as a run."""
        return run in self._claims[Reason.RUN]

    def is_left_open(self, run: str) -> bool:
        """Whether a reconfiguration of a run was cut off, and is neither undone nor given up."""
        return any(
            claim.run == run for reason in (Reason.CUT_OFF, Reason.IN_DOUBT) for claim in self._claims[reason].values()
        )

    def on_release(self, call: Callable[[Claim], None]) -> None:
        """Call `call` with each claim that is released."""
        self._watchers.append(call)

    def report_why(self, reason: Reason, why: Callable[[Claim], str]) -> None:
        """Ask `why`, each time, for the `why` of a claim of this reason: what keeps it changes without the ledger."""
        self._reports[reason] = why

    def note_end(self, lease: str, text: str) -> None:
        """How a lease ended, in words, for who acts under it all the same. The last `ENDS_REMEMBERED` are kept."""
        self._ends.pop(lease, None)
        self._ends[lease] = text
        while len(self._ends) > ENDS_REMEMBERED:
            del self._ends[next(iter(self._ends))]

    def why_not_in_force(self, lease: str) -> str:
        """Why nobody can act under a lease that is not in force."""
        for reason in (Reason.WAIT, Reason.RESERVATION):
            if (request := self._claims[reason].get(lease)) is not None:
                when = "waits in the queue" if reason is Reason.WAIT else f"begins {utc(request.since_wall_ns)}"
                return f"lease {lease}: is not granted yet, it {when}. See `hwd lease list`"
        if (over := self._claims[Reason.LEASE].get(lease)) is not None and over.expires_wall_ns is not None:
            return f"lease {lease}: not in force; it expired at {utc(over.expires_wall_ns)}. {AGAIN}"
        unknown = f"no lease of this id is known: none is in force, nor among the last {ENDS_REMEMBERED} that ended"
        return f"lease {lease}: {self._ends.get(lease, f'{unknown}. {AGAIN}')}"

    # --- the question

    def may(self, asker: Asker, ports: Iterable[str], action: PortAction, *, now_wall_ns: int) -> Refusal | None:
        """Whether `asker` may do `action` on `ports`: None, or the first of the refusals."""
        return next(self.refusals(asker, ports, action, now_wall_ns=now_wall_ns), None)

    def check(self, asker: Asker, ports: Iterable[str], action: PortAction, *, now_wall_ns: int) -> None:
        """Check as `may` does; raises RefusedError with the text of the refusal, ClaimedError where a claim is in the
        way.
        """
        refusal = self.may(asker, ports, action, now_wall_ns=now_wall_ns)
        if refusal is not None and refusal.claim is not None:
            raise ClaimedError(refusal.text, refusal.claim)
        if refusal is not None:
            raise RefusedError(refusal.text)

    def refusals(
        self, asker: Asker, ports: Iterable[str], action: PortAction, *, now_wall_ns: int
    ) -> Iterator[Refusal]:
        """All refusals, by reason and age."""
        wanted, covered = frozenset(ports), frozenset[str]()
        if asker.lease is not None:
            own = self.get(Reason.LEASE, asker.lease)
            if own is None or not own.is_in_force(now_wall_ns):
                yield Refusal(claim=None, ports=frozenset(), text=self.why_not_in_force(asker.lease))
                return
            if asker.epoch not in (None, own.epoch):
                text = (
                    f"lease {own.id}: epoch {asker.epoch} is not in force, epoch {own.epoch} is. See `hwd lease list`"
                )
                yield Refusal(claim=None, ports=frozenset(), text=text)
                return
            covered = own.ports
        for reason, row in ROWS.items():
            claims = self._claims[reason]
            if (rule := row.bars.get(action)) is None or not claims:
                continue
            for claim in sorted(claims.values(), key=attrgetter("since_wall_ns")):
                if not _counts(row, rule, asker, claim, now_wall_ns) or self._passes(rule.passes, asker, claim):
                    continue
                taken = _whole_switches(asker, claim) if rule.whole else frozenset[str]()
                taken = taken or wanted & (claim.ports | claim.relies_on if rule.whole else claim.ports)
                if taken := taken - covered if Pass.COVERED in rule.passes else taken:
                    yield Refusal(claim=claim, ports=taken, text=self._present(claim).text(now_wall_ns, taken))
        if self._lease_required and action in NEED_LEASE and (bare := wanted - covered):
            yield Refusal(claim=None, ports=bare, text=f"{', '.join(sorted(bare, key=natural_key))}: {LEASE_REQUIRED}")

    def _present(self, claim: Claim) -> Claim:
        why = self._reports.get(claim.reason)
        return claim if why is None else replace(claim, why=why(claim))

    def _passes(self, passes: Pass, asker: Asker, claim: Claim) -> bool:
        return (
            (
                Pass.ITSELF in passes
                and claim.id in (asker.lease, asker.reconfiguration, asker.request, asker.prepared_set)
            )
            or (Pass.ITS_RUN in passes and claim.run is not None and claim.run == asker.run)
            or (Pass.RUN_IS_OVER in passes and not self.is_active(claim.run))
            or (Pass.RUN_IS_ACTIVE in passes and self.is_active(claim.run))
            or (Pass.CUTS in passes and asker.cuts)
            or (Pass.AT_REST in passes and claim.at_rest)
            or (Pass.WAY_BACK in passes and asker.is_way_back)
            or (Pass.HOLDER in passes and self._has_some_of(asker, claim.ports))
        )

    def _has_some_of(self, asker: Asker, ports: frozenset[str]) -> bool:
        """Whether the asker has one of these ports already, or waits for it; a lease does not count."""
        own = (
            (Reason.RECONFIGURATION, asker.reconfiguration),
            (Reason.PREPARED_SET, asker.prepared_set),
            (Reason.WAIT, asker.request),
            (Reason.RESERVATION, asker.request),
            (Reason.RUN, asker.run),
        )
        claims = [self._claims[reason].get(id) for reason, id in own if id is not None]
        return any((one.ports | one.relies_on) & ports for one in claims if one is not None)


def _counts(row: Row, rule: Rule, asker: Asker, claim: Claim, now_wall_ns: int) -> bool:
    """Whether the claim is in force while the asker acts."""
    begins = now_wall_ns if asker.from_wall_ns is None or not rule.spans else asker.from_wall_ns
    ends = begins if asker.until_wall_ns is None or not rule.spans else asker.until_wall_ns
    return claim.is_in_force(begins) and not (
        row.dated and claim.since_wall_ns > begins and claim.since_wall_ns >= ends
    )


def _whole_switches(asker: Asker, claim: Claim) -> frozenset[str]:
    """Switches that both use, where one of them wants them whole."""
    return asker.switches & claim.switches if asker.whole or claim.whole else frozenset()
