"""Drift: finds where switches differ from the desired state by no command of ours, and does what the testbed says.

It emits `switch.drift` at each change of that, whatever the policy is.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from hwd.fabric.fabric import Fabric
from hwd.fabric.state import crossconnect_ports
from hwd.model.bodies import PlanBody
from hwd.model.daemon import DaemonRecovered, JournalGivenUp
from hwd.model.desired_state import SwitchDifference
from hwd.model.lease import LeaseReleased
from hwd.model.link import SwitchCrossconnect
from hwd.model.reconfiguration import ReconfigurationEnded
from hwd.model.request import Caller
from hwd.model.rules import DriftPolicy
from hwd.model.switch import SwitchAdopted, SwitchDrift
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction
from hwd.reconfigure.apply.switches import Switches
from hwd.reconfigure.desired.desired_state import DesiredState
from hwd.reconfigure.desired.restores import Restores
from hwd.reconfigure.plans.planner import Planner
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import HwdError, RefusedError
from hwd_drivers.core.values import Crossconnect, PortSide, natural_key
from hwd_drivers.devices.facts import SwitchDown, SwitchRead, SwitchRestarted

SETTLE_S: Final = 1.0
"""After a change was found, for others that follow: who sets a switch by hand sets one pair after the other."""
TRIES_MOST: Final = 3
"""Restores of one fibre end; then somebody else wants something else of it, or it cannot be restored."""
FIRST_PAUSE_S: Final = 10.0
"""After the first try of an end; it doubles with each, also with those that were refused."""
LONGEST_PAUSE_S: Final = 640.0
"""For what is refused again and again, as restores end before."""
QUIET_S: Final = 3600.0
"""An end that stays as desired for so long begins anew."""
BY_POLICY: Final = Caller(name="drift policy", is_verified=True)
FOUND: Final = "found at the switch"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tries:
    """How often an end was restored, how often that was refused before anything moved, and when last, `loop.time()`."""

    restores: int = 0
    refusals: int = 0
    last_s: float

    @property
    def again_s(self) -> float:
        pause_s = FIRST_PAUSE_S * 2.0 ** min(self.restores + self.refusals - 1, 16)
        return self.last_s + min(pause_s, LONGEST_PAUSE_S)

    @property
    def has_given_up(self) -> bool:
        return self.restores >= TRIES_MOST


class Drift:
    """A `Sink`, and a task: `run`."""

    TAKES: ClassVar = (
        *(SwitchRead, SwitchDown, SwitchRestarted, SwitchAdopted),
        *(ReconfigurationEnded, DaemonRecovered, JournalGivenUp, LeaseReleased),
    )

    def __init__(
        self,
        policy: DriftPolicy,
        *,
        desired: DesiredState,
        restores: Restores,
        reconfigurer: Reconfigurer,
        switches: Switches,
        planner: Planner,
        ledger: Ledger,
        clock: Clock,
        sink: Sink,
    ) -> None:
        self._policy = policy
        self._desired = desired
        self._restores = restores
        self._reconfigurer = reconfigurer
        self._switches = switches
        self._planner = planner
        self._ledger = ledger
        self._clock = clock
        self._emit = Emitter(clock, sink)
        self._changed = asyncio.Event()
        self._foreign: deque[SwitchRead] = deque()
        """Changes by others that are not adopted yet."""
        self._lost: dict[str, frozenset[str]] = {}
        """By switch: what it lost by its last restart."""
        self._emitted: dict[str, SwitchDrift] = {}
        self._tries: dict[tuple[str, PortSide], _Tries] = {}
        self._own: str | None = None
        """The restore of ours that is in progress."""

    def use_testbed(self, fabric: Fabric) -> None:
        """Go on with the testbed of this fabric."""
        self._policy = fabric.testbed.drift
        self._emitted = {name: one for name, one in self._emitted.items() if name in fabric.testbed.switches}
        self._changed.set()

    def __call__(self, document: Document) -> None:
        match document.fact:
            case SwitchDown(switch=switch):
                self._emitted.pop(switch, None)
            case SwitchRestarted(switch=switch, lost=lost):
                self._lost[switch] = frozenset(lost)
            case SwitchRead(switch=switch, added=added, ours=ours) as read:
                if switch in self._lost:
                    self._lost[switch] -= frozenset(added)
                if not ours and self._policy is DriftPolicy.ADOPT:
                    self._foreign.append(read)
            case ReconfigurationEnded(reconfiguration=id, wanted=list(wanted)) if id != self._own:
                for one in wanted:  # somebody else has decided about these ends
                    for end in self._ends_of(one.crossconnects, one.free):
                        self._tries.pop((one.switch, end), None)
        self._changed.set()

    async def run(self) -> None:
        """Watch the drift until cancelled."""
        while True:
            again_s = self._next_s()
            try:
                async with asyncio.timeout_at(again_s):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            try:
                await self._look()
            except Exception:  # a supervisor: the daemon goes on, and looks again at the next change
                log.exception("drift: a bug in looking for it")

    async def _look(self) -> None:
        if any(self._differences()) or self._foreign:
            await asyncio.sleep(SETTLE_S)
        while self._foreign:
            self._adopt(self._foreign.popleft())
        self._report()
        if self._policy is DriftPolicy.RESTORE:
            await self._restore()
            self._report()

    # --- report

    def _differences(self) -> Iterable[SwitchDifference]:
        """The differences of the switches that can be reached and were read."""
        latest, connected = self._switches.latest(), self._switches.connected
        for name in self._desired.switches:
            differs = self._desired.difference(name, latest) if name in connected else None
            if differs is not None:
                yield differs

    def _report(self) -> None:
        for differs in self._differences():
            tries = {end: self._tries.get((differs.switch, end)) for end in self._wrong(differs)}
            given_up = [end for end, one in tries.items() if one is not None and one.has_given_up]
            fact = SwitchDrift(
                switch=differs.switch,
                missing=[*differs.missing],
                stale=[*differs.stale],
                given_up=given_up,
            )
            if fact != self._emitted.get(differs.switch, SwitchDrift(switch=differs.switch, missing=[], stale=[])):
                self._emitted[differs.switch] = fact
                self._emit(fact)

    # --- adopt

    def _adopt(self, read: SwitchRead) -> None:
        """What somebody set is desired from here on, but for ports of reconfigurations in progress."""
        changing = self._desired.changing()
        there = {one.crossconnect for one in read.crossconnects}
        lost = self._lost.get(read.switch, frozenset())

        def counts(one: Crossconnect) -> bool:
            return not any(f"{read.switch}.{end.port}" in changing for end in one.ends)

        added = [one for one in read.added if one in there and counts(one)]
        removed = [one for one in read.removed if one not in lost and counts(one)]
        taken = self._ends_of(added, ())
        free = [end for end in self._ends_of(removed, ()) if end not in taken]
        if added or free:
            log.warning("%s: adopted as desired: %s", read.switch, " ".join([*(f"+{one}" for one in added), *removed]))
            self._emit(SwitchAdopted(switch=read.switch, crossconnects=added, free=[*free], by=FOUND))

    @staticmethod
    def _ends_of(crossconnects: Iterable[Crossconnect], free: Iterable[PortSide]) -> list[PortSide]:
        return [
            *(end for one in crossconnects for end in one.ends),
            *free,
        ]

    # --- restore

    async def _restore(self) -> None:
        """Bring back all that nobody leases and that may be tried now, once."""
        ends = [(differs.switch, end) for differs in self._differences() for end in self._due(differs)]
        if not ends:
            return
        now_s = asyncio.get_running_loop().time()
        before = {key: self._tries.get(key, _Tries(last_s=now_s)) for key in ends}
        for key, tries in before.items():
            self._tries[key] = replace(tries, restores=tries.restores + 1, last_s=now_s)
        ports = sorted({f"{switch}.{end.port}" for switch, end in ends}, key=natural_key)
        try:
            request = await self._restores.desired(PlanBody(restore=ports))
            if request.wanted.is_empty:
                return
            reconfiguration = await self._reconfigurer.begin(replace(request, is_way_back=True), caller=BY_POLICY)
            self._own = reconfiguration.id
            await self._reconfigurer.confirm(reconfiguration)
        except HwdError as error:
            if isinstance(error, RefusedError) and self._own is None:  # before any switch moved
                for key, tries in before.items():
                    self._tries[key] = replace(tries, refusals=tries.refusals + 1, last_s=now_s)
            log.warning("drift policy: %s could not be restored: %s", ", ".join(ports), error)
        else:
            log.warning("drift policy: %s (%s) restored", reconfiguration.id, ", ".join(ports))
        finally:
            self._own = None
        for switch, end in ends:
            if self._tries[switch, end].has_given_up:
                log.warning(
                    "drift policy: restoring %s:%s was tried %d times, and it is left from here on: "
                    "`hwd restore` tries again",
                    *(switch, end, TRIES_MOST),
                )

    def _due(self, differs: SwitchDifference) -> list[PortSide]:
        """Ends of a switch to restore now: neither they nor those that go with them wait, were given up, or are leased.

        What goes together is tried together, so that a stranger with ever new partners is no new case each time.
        """
        now_s = asyncio.get_running_loop().time()
        self._tries = {key: one for key, one in self._tries.items() if one.has_given_up or now_s - one.last_s < QUIET_S}
        return [
            end
            for end in self._wrong(differs)
            if all(self._may_try(differs.switch, one, now_s) for one in self._together(differs, end))
            and self._is_ours(differs, end)
        ]

    def _may_try(self, switch: str, end: PortSide, now_s: float) -> bool:
        tries = self._tries.get((switch, end))
        return tries is None or (not tries.has_given_up and tries.again_s <= now_s)

    def _together(self, differs: SwitchDifference, end: PortSide) -> set[PortSide]:
        """The ends that are restored with an end: those of the crossconnects in its way, and what is wanted of them."""
        desired = self._desired.of(differs.switch)
        wanted = desired[end].crossconnect
        ends = {end} if wanted is None else {*wanted.ends}
        others = {other for one in differs.stale if not ends.isdisjoint(one.ends) for other in one.ends}
        crossconnects = [one.crossconnect for other in others if (one := desired.get(other)) is not None]
        return {end, *others, *(one.a for one in crossconnects if one is not None)}

    def _wrong(self, differs: SwitchDifference) -> list[PortSide]:
        """The ends at which it is not as desired: the first of each missing one, and those that shall be free."""
        desired = self._desired.of(differs.switch)
        free = [
            end for one in differs.stale for end in one.ends if end in desired and desired[end].crossconnect is None
        ]
        return [*(one.a for one in differs.missing), *free]

    def _is_ours(self, differs: SwitchDifference, end: PortSide) -> bool:
        """Whether nobody leases a port that the restore of an end would change."""
        desired = self._desired.of(differs.switch).get(end)
        wanted = None if desired is None else desired.crossconnect
        ends = {end} if wanted is None else {*wanted.ends}
        moved = [one for one in differs.stale if not ends.isdisjoint(one.ends)] + ([wanted] if wanted else [])
        touched = [SwitchCrossconnect(switch=differs.switch, crossconnect=one) for one in moved]
        ports = crossconnect_ports(touched) | self._planner.ports_lit_by(touched, self._switches.latest())
        asker, now = Asker(cuts=True, is_way_back=True), self._clock.wall_ns()
        return self._ledger.may(asker, ports, PortAction.CHANGE, now_wall_ns=now) is None

    def _next_s(self) -> float | None:
        """`loop.time()` of the next try of an end that still differs; None where none waits."""
        if self._policy is not DriftPolicy.RESTORE:
            return None
        wrong = {(differs.switch, end) for differs in self._differences() for end in self._wrong(differs)}
        waiting = [one.again_s for key, one in self._tries.items() if key in wrong and not one.has_given_up]
        return min(waiting, default=None)
