"""Which reconfiguration has which ports, and whose turn a switch is: those on ports of their own go on at once, and drive a switch one after the other."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from hwd_drivers.core.errors import RefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """`whole`: the switches as such, with all that is on them."""

    switches: frozenset[str]
    ports: frozenset[str]
    whole: bool


class Turns:
    """Owns the claims of all reconfigurations that have not ended."""

    def __init__(self) -> None:
        self._claims: dict[str, _Claim] = {}
        self._driving: dict[str, asyncio.Lock] = {}

    def claim(self, id: str, *, switches: Iterable[str], ports: Iterable[str], whole: bool) -> None:
        """Claim, or widen the claim of, a reconfiguration. Raises RefusedError, with the old claim as it was, where another one has a port of it, or a whole switch."""
        claim = _Claim(switches=frozenset(switches), ports=frozenset(ports), whole=whole)
        self._check(claim, id)
        self._claims[id] = claim

    def check(self, switch: str, ports: Iterable[str]) -> None:
        """Raises RefusedError where a reconfiguration is under way on one of these ports, or has the switch as a whole."""
        self._check(_Claim(switches=frozenset((switch,)), ports=frozenset(ports), whole=False), None)

    def _check(self, claim: _Claim, id: str | None) -> None:
        for other, theirs in self._claims.items():
            if other == id:
                continue
            both = sorted(claim.switches & theirs.switches) if claim.whole or theirs.whole else []
            if taken := both or sorted(claim.ports & theirs.ports):
                raise RefusedError(
                    f"{', '.join(taken)}: reconfiguration {other} is under way on it. `hwd confirm {other}` or `hwd rollback {other}` ends it"
                )

    def release(self, id: str) -> None:
        self._claims.pop(id, None)

    def ports_of_others(self, id: str) -> frozenset[str]:
        """Ports on which others are at work."""
        return frozenset(port for other, claim in self._claims.items() if other != id for port in claim.ports)

    @asynccontextmanager
    async def drive(self, switches: Iterable[str]) -> AsyncGenerator[None]:
        """Nobody else plans for these switches or drives them meanwhile, but for ways back."""
        async with AsyncExitStack() as stack:
            for switch in sorted(switches):  # in one order, so that no two wait for each other
                await stack.enter_async_context(self._driving.setdefault(switch, asyncio.Lock()))
            yield
