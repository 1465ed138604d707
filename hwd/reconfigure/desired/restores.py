"""Restores: the desired state of some ports as a request, which is planned and applied as any other."""

from collections.abc import Iterable

from hwd.config.yaml.file_problem import nearest
from hwd.fabric.in_use import InUse
from hwd.model.bodies import PlanBody
from hwd.model.circuit import Observed
from hwd.model.link import SwitchCrossconnect, SwitchEnd
from hwd.model.request import Request, WantedState
from hwd.ports.rules import Reason
from hwd.ports.testbed_ports import leasable
from hwd.reconfigure.apply.switches import Switches
from hwd.reconfigure.desired.desired_state import DesiredState
from hwd.reconfigure.plans.planner import Planner
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, PortSide


class Restores:
    """Reads the switches, and asks for no more than differs: all else stays with whoever uses it."""

    def __init__(self, in_use: InUse, desired: DesiredState, switches: Switches, planner: Planner) -> None:
        self._in_use = in_use
        self._desired = desired
        self._switches = switches
        self._planner = planner

    async def desired(self, body: PlanBody) -> Request:
        """The way to the desired state of the ports in `body.restore`, of all where it is empty.

        Switches that cannot be reached are left out, and named. Raises ConfigError for a port that there is not.
        """
        names = body.restore or ()
        ports = self._ports(names)
        name = f"desired state of {', '.join(names)}" if names else "desired state"
        warnings = (
            *(
                f"prepared set {one.id} of {one.owner} says what is desired of its ports, and they are left out. "
                f"It is up to {one.owner}: `hwd switch {one.id} TARGET`, or `hwd release {one.id}`"
                for one in self._desired.on_their_way(Reason.PREPARED_SET, ports)
            ),
            *(
                f"reconfiguration {one.id} ({one.what}) is under way, asked for by {one.owner}, and its ports are left "
                "out. `hwd status` shows how long it lasts; restore them when it is over"
                for one in self._desired.on_their_way(Reason.RECONFIGURATION, ports)
            ),
        )
        concerned = [one for one in self._desired.switches if self._concerns(one, ports)]
        if not concerned:
            why = f"{name}: no confirmed reconfiguration has named {'these ports' if names else 'any port'} so far"
            why = f"{why}: nothing is desired there"
            return Request(wanted=WantedState(name=name), body=body, warnings=(why, *warnings))
        away = tuple(self._switches.away(concerned))
        reachable = [one for one in concerned if self._switches.cause(one) is None]
        observed = (await self._switches.read_unmoved(reachable)).observed
        wanted = WantedState(
            name=name,
            crossconnects=tuple(self._missing(reachable, ports, observed)),
            freed=tuple(self._freed(reachable, ports, observed)),
        )
        return Request(wanted=wanted, body=body, away=away, warnings=warnings)

    def _ports(self, names: Iterable[str]) -> frozenset[str] | None:
        """The ports that names mean, `ocs1.3` and `h0.eth0`; None for all."""
        testbed = self._in_use.testbed
        known = leasable(testbed)
        found: set[str] = set()
        for name in names:
            if name in testbed.switches:
                found.update(f"{name}.{end.port}" for end in testbed.ends_of(name))
            elif name in testbed.composites:
                found.update(testbed.port_of(name, end) for end in testbed.ends_of(name))
            elif name in known:
                found.update(known[name])
            else:
                raise ConfigError(
                    f"restore: {name} is no port and no switch of testbed {testbed.name}; write ocs1, ocs1.3 or "
                    f"h0.eth0; {nearest(name, [*testbed.askable, *known])}"
                )
        return frozenset(found) if names else None

    def _concerns(self, switch: str, ports: frozenset[str] | None) -> bool:
        """Whether one of the ports may have to do with a switch: any NIC port may."""
        return ports is None or any(
            port.startswith(f"{switch}.") or port.partition(".")[0] in self._in_use.testbed.hosts for port in ports
        )

    def _missing(
        self, switches: Iterable[str], ports: frozenset[str] | None, observed: Observed
    ) -> Iterable[SwitchCrossconnect]:
        wanted = {
            name: tuple(CrossconnectReading(crossconnect=one, state=CrossconnectState.TUNED) for one in found)
            for name, found in self._desired.crossconnects().items()
        }
        for name in switches:
            if (differs := self._desired.difference(name, observed)) is None:
                continue
            named = {end for one in differs.stale if self._is_in(name, one, ports, observed) for end in one.ends}
            for one in differs.missing:
                if self._is_in(name, one, ports, {**observed, **wanted}) or not named.isdisjoint(one.ends):
                    yield SwitchCrossconnect(switch=name, crossconnect=one)

    def _freed(self, switches: Iterable[str], ports: frozenset[str] | None, observed: Observed) -> Iterable[SwitchEnd]:
        """Ends that shall have no crossconnect and have one."""
        for name in switches:
            ends = self._desired.of(name)
            differs = self._desired.difference(name, observed)
            for one in () if differs is None else differs.stale:
                if self._is_in(name, one, ports, observed):
                    free: list[PortSide] = [end for end in one.ends if end in ends and ends[end].crossconnect is None]
                    yield from (SwitchEnd(switch=name, end=end) for end in free[:1])

    def _is_in(self, switch: str, one: Crossconnect, ports: frozenset[str] | None, observed: Observed) -> bool:
        """Whether a crossconnect has an end at one of the ports, or may carry the light of one."""
        if ports is None or any(f"{switch}.{end.port}" in ports for end in one.ends):
            return True
        lit = self._planner.ports_lit_by([SwitchCrossconnect(switch=switch, crossconnect=one)], observed)
        return not ports.isdisjoint(lit)
