"""Interlock of transfers in flight: no process of a host is sending over a port that the plan moves."""

from collections.abc import Iterator, Mapping

from hwd.model.interlock import Interlock, InterlockName, InterlockState
from hwd.model.plural import plural


def transfers_in_flight(found: Mapping[str, str], ports: int) -> Iterator[Interlock]:
    """Check transfers: an interlock for each one on a port that moves, by its name with its text, or for all `ports`
    where there is none. None where nothing moves.
    """
    for subject, why in found.items():
        yield Interlock(
            name=InterlockName.TRANSFER_IN_FLIGHT,
            subject=subject,
            figure=1,
            limit=0,
            unit="transfers",
            state=InterlockState.REFUSED,
            why=why,
        )
    if not found and ports:
        yield Interlock(
            name=InterlockName.TRANSFER_IN_FLIGHT,
            subject=plural(ports, "port"),
            figure=0,
            limit=0,
            unit="transfers",
            state=InterlockState.HOLDS,
        )
