"""All interlocks of one testbed: `found` for a plan, `of_links` for links before there is one."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from hwd.fabric.fabric import Fabric
from hwd.interlocks.light import input_power, loss_budget, overload
from hwd.interlocks.overrides import WAY_BACK, check_allowed, overridden
from hwd.interlocks.ports import forbidden_pairs, port_state, transfers_in_flight
from hwd.interlocks.proposal import Proposal
from hwd.interlocks.wear import rate, wear
from hwd.model.circuit import RoutedLink
from hwd.model.interlock import Interlock, InterlockName, InterlockState, in_order
from hwd_drivers.core.values import Side


class Interlocks:
    """Holds what the checks need of the testbed; it has no state. A new interlock is a line of `_found`."""

    def __init__(self, fabric: Fabric) -> None:
        self._testbed = fabric.testbed
        self._fabric = fabric
        self._receivers = {end: port.module for port in fabric.testbed.ports() for end in port.ends(Side.RX)}

    def found(self, proposal: Proposal, overrides: Mapping[InterlockName, str]) -> tuple[Interlock, ...]:
        """All checks of a proposal, those that do not hold first.

        `overrides`: reasons, by interlock. Raises RefusedError where the testbed does not allow one.
        """
        rules = self._testbed.interlocks
        check_allowed(overrides, rules)
        return in_order(overridden(self._found(proposal), overrides, rules))

    def found_back(self, proposal: Proposal) -> tuple[Interlock, ...]:
        """Check a way back as `found` checks a proposal: what would refuse is named, and does not refuse."""
        overrides = dict.fromkeys(InterlockName, WAY_BACK)
        return in_order(overridden(self._found(proposal), overrides, self._testbed.interlocks))

    def in_flight(
        self, transfers: Mapping[str, str], ports: int, overrides: Mapping[InterlockName, str]
    ) -> tuple[Interlock, ...]:
        """See `transfers_in_flight`. Apart from `found`, as it is asked again when the plan is applied."""
        return tuple(overridden(transfers_in_flight(transfers, ports), overrides, self._testbed.interlocks))

    def of_links(self, links: Iterable[RoutedLink], overrides: Mapping[InterlockName, str]) -> tuple[Interlock, ...]:
        """What refuses links whatever the switches carry and however they have moved. Raises as `found` does."""
        proposal = Proposal.of(links=links, moves=(), composites={}, after={})
        lasting = chain(self._of_light(proposal), self._of_ports(proposal))
        check_allowed(overrides, self._testbed.interlocks)
        judged = overridden(lasting, overrides, self._testbed.interlocks)
        return tuple(one for one in judged if one.state is InterlockState.REFUSED)

    def _found(self, proposal: Proposal) -> Iterator[Interlock]:
        testbed = self._testbed
        yield from input_power(
            proposal.crossconnects, self._fabric.input_powers(proposal.crossconnects, proposal.after), testbed
        )
        yield from self._of_light(proposal)
        yield from self._of_ports(proposal)
        yield from wear(proposal.moves, proposal.motion, testbed)
        yield from rate(proposal.moves, proposal.motion, testbed.interlocks)

    def _of_light(self, proposal: Proposal) -> Iterator[Interlock]:
        yield from loss_budget(proposal.links)
        yield from overload(proposal.links, self._receivers)

    def _of_ports(self, proposal: Proposal) -> Iterator[Interlock]:
        yield from port_state(proposal.crossconnects, self._fabric.set_aside)
        yield from forbidden_pairs(proposal.links, proposal.crossconnects, self._testbed.interlocks)
