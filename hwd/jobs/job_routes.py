"""JobRoutes: the static routes that the plane of a job has set on its hosts, by their agents, and back at its end."""

import asyncio
import ipaddress
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import Final, Protocol

from hwd.model.action import Action
from hwd.model.job import JobRecord
from hwd.model.nic_port import NicPortId
from hwd.model.plane import StaticRoute
from hwd.model.testbed import Setting, Testbed
from hwd.ports.claim import Claim
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError, DeadlineError, LinkError

AWAY_S: Final = 60.0
"""So long a host may be away when its routes are to be set, where no switch of light is under way that could fail."""
AGAIN_S: Final = 0.5
_UNKNOWN: Final[frozenset[StaticRoute]] = frozenset()
"""What differs from any routes, and from none: it is put back first."""


class HostSettings(Protocol):
    """Settings of hosts, with their earlier values, for whoever is active in the ledger under the name `run`."""

    async def do(self, run: str, action: Action, *, lease: str | None = None) -> Mapping[str, Json]: ...

    async def put_back(self, run: str, *, hosts: Collection[str] | None = None, lease: str | None = None) -> None: ...


class JobRoutes:
    """The routes of one job. `begin` comes first; until `end` the agents keep what was set, also while the daemon is
    away.
    """

    def __init__(self, testbed: Testbed, settings: HostSettings, ledger: Ledger) -> None:
        self._testbed = testbed
        self._settings = settings
        self._ledger = ledger
        self._set: dict[str, frozenset[StaticRoute]] = {}
        """By host, where it is known."""
        self._touched: set[str] = set()
        """Hosts where something of this job may be set."""

    def begin(self, record: JobRecord) -> None:
        self._ledger.claim(Claim(id=record.id, reason=Reason.RUN, owner=str(record), ports=frozenset(), run=record.id))

    def check(self, routes: Iterable[StaticRoute]) -> None:
        """Raises ConfigError where the testbed file does not allow them, or a port has no address."""
        for route in routes:
            if Setting.ROUTE not in self._testbed.host_actions:
                raise ConfigError(
                    f"its plane sets routes of hosts, and {Setting.ROUTE} is not among the host_actions of testbed "
                    f"{self._testbed.name}"
                )
            for port in (route.to, *([] if route.via is None else [route.via])):
                self._address(port)

    async def set(self, record: JobRecord, routes: Iterable[StaticRoute]) -> None:
        """These and no others, from now on. Hosts whose routes are the same are left alone. Raises HwdError."""
        wanted: dict[str, frozenset[StaticRoute]] = {}
        for route in routes:
            wanted[route.host] = wanted.get(route.host, frozenset()) | {route}
        changed = [host for host in {*self._set, *wanted} if self._set.get(host) != wanted.get(host)]
        work = (self._set_at(record, host, wanted.get(host, frozenset())) for host in changed)
        for done in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(done, BaseException):
                raise done

    async def keep(
        self, record: JobRecord, routes: Iterable[StaticRoute], *, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        """Set routes as `set` does, and wait `AWAY_S` for hosts that are away, but not for a job that is over."""
        wanted, loop = tuple(routes), asyncio.get_running_loop()
        by_s = loop.time() + AWAY_S
        while True:
            try:
                return await self.set(record, wanted)
            except (LinkError, DeadlineError):
                if loop.time() >= by_s or is_over():
                    raise
            await asyncio.sleep(AGAIN_S)

    async def resume(
        self,
        record: JobRecord,
        routes: Iterable[StaticRoute],
        busy: Set[str],
        *,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Set the routes once more after a restart of the daemon, which may have cut a change off. At hosts that are
        `busy` with an operation nothing had begun to change, and they are never without their routes.
        """
        hosts = {rank.host for rank in record.ranks}
        self._touched = hosts - busy
        self._set = dict.fromkeys(self._touched, _UNKNOWN)
        await self.keep(record, routes, is_over=is_over)
        self._touched |= busy
        self._set = dict.fromkeys(busy, _UNKNOWN) | self._set

    async def end(self, record: JobRecord) -> None:
        """Put all back as it was before; a host that is away gets it back when it comes."""
        try:
            await self._settings.put_back(record.id, lease=record.lease or None)
        finally:
            self._ledger.release(Reason.RUN, record.id)

    async def _set_at(self, record: JobRecord, host: str, routes: frozenset[StaticRoute]) -> None:
        lease = record.lease or None
        self._set[host] = _UNKNOWN
        if host in self._touched:
            await self._settings.put_back(record.id, hosts=[host], lease=lease)
            self._touched.discard(host)
        for action in self._actions(routes):
            self._touched.add(host)
            await self._settings.do(record.id, action, lease=lease)
        if routes:
            self._set[host] = routes
        else:
            del self._set[host]

    def _actions(self, routes: frozenset[StaticRoute]) -> list[Action]:
        """The actions in their order: a port that packets go by has to be in reach itself, straight."""
        straight = {(route.port, self._address(route.to)) for route in routes if route.via is None}
        named = {address for _, address in straight}
        vias = {(route.port, self._address(route.via)) for route in routes if route.via is not None}
        straight |= {(port, address) for port, address in vias if address not in named}
        found = [_action(port, {"to": _only(address)}) for port, address in sorted(straight, key=str)]
        return found + [
            _action(route.port, {"to": _only(self._address(route.to)), "via": self._address(route.via)})
            for route in sorted(routes, key=str)
            if route.via is not None
        ]

    def _address(self, port: NicPortId) -> str:
        found = {one.id: one.ip_address for one in self._testbed.hosts[port.host].ports}
        if (address := found[port]) is None:
            raise ConfigError(f"{port}: a route needs its address: give it an `ip` in the testbed file")
        return address


def _only(address: str) -> str:
    """The prefix of one address."""
    return str(ipaddress.ip_network(address))


def _action(port: NicPortId, value: Mapping[str, str]) -> Action:
    return Action(port=port, setting=Setting.ROUTE, value={**value})
