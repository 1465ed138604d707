"""Routes that planes set, on hosts that are played: what is asked of them, in which order, and what stands then."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from hwd.jobs.job_routes import AWAY_S, JobRoutes
from hwd.model.action import Action
from hwd.model.job import JobRank
from hwd.model.nic_port import NicPortId
from hwd.model.plane import StaticRoute
from hwd.model.testbed import Host, NicPort, Setting, Testbed
from hwd.ports.ledger import Ledger
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError, LinkError

from ..modules import LR4
from .job_record import job_record

JOB = job_record(lease="l1", ranks=[JobRank(host="h0"), JobRank(host="h1")])
H0, H0B, H1, H1B = (NicPortId(host=host, port=port) for host in ("h0", "h1") for port in ("eth0", "eth1"))
IPS = {H0: "10.0.0.1/24", H0B: "fd00::1/64", H1: "10.0.0.2/24", H1B: None}
TESTBED = Testbed(
    name="lab",
    switches={},
    hosts={
        name: Host(
            name=name,
            ports=tuple(
                NicPort(id=id, module=LR4, interface=id.port, ip=ip) for id, ip in IPS.items() if id.host == name
            ),
        )
        for name in ("h0", "h1")
    },
    strands=(),
    host_actions=(Setting.ROUTE,),
)
STRAIGHT = StaticRoute(host="h0", to=H1, port=H0)
BY_OTHER = StaticRoute(host="h0", to=H0B, port=H0, via=H1)
BACK = StaticRoute(host="h1", to=H0, port=H1)


class PlayedHosts:
    """Hosts that keep what is set, and what was asked; those that are `away` answer nothing."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.set: dict[str, set[str]] = {"h0": set(), "h1": set()}
        self.away: set[str] = set()

    async def do(self, run: str, action: Action, *, lease: str | None = None) -> Mapping[str, Json]:
        assert (run, lease) == (JOB.id, "l1")
        self._reach(action.port.host)
        assert isinstance(action.value, dict)
        words = f"{action.port} to {action.value['to']}" + (
            f" via {action.value['via']}" if "via" in action.value else ""
        )
        self.asked.append(words)
        self.set[action.port.host].add(words)
        return {}

    async def put_back(self, run: str, *, hosts: Collection[str] | None = None, lease: str | None = None) -> None:
        assert (run, lease) == (JOB.id, "l1"), "its own lease is in the way of whoever does not act under it"
        for host in hosts if hosts is not None else [*self.set]:
            self._reach(host)
            self.asked.append(f"put back {host}")
            self.set[host].clear()

    def _reach(self, host: str) -> None:
        if host in self.away:
            raise LinkError(f"{host}: its agent is not connected")


@pytest.fixture
def hosts() -> PlayedHosts:
    return PlayedHosts()


@pytest.fixture
def routes(hosts: PlayedHosts) -> JobRoutes:
    return JobRoutes(TESTBED, hosts, Ledger())


async def test_hosts_whose_routes_are_the_same_are_left_alone_and_others_are_put_back_first(
    hosts: PlayedHosts, routes: JobRoutes
) -> None:
    routes.begin(JOB)
    await routes.set(JOB, (STRAIGHT, BACK))
    assert sorted(hosts.asked) == ["h0.eth0 to 10.0.0.2/32", "h1.eth0 to 10.0.0.1/32"]
    hosts.asked.clear()
    await routes.set(JOB, (BACK, BY_OTHER))
    assert hosts.asked == ["put back h0", "h0.eth0 to 10.0.0.2/32", "h0.eth0 to fd00::1/128 via 10.0.0.2"]
    hosts.asked.clear()
    await routes.set(JOB, (BACK,))
    assert hosts.asked == ["put back h0"]
    await routes.end(JOB)
    assert hosts.set == {"h0": set(), "h1": set()}, "at the end of the job, while its lease stands"


async def test_host_that_is_away_is_waited_for_and_then_named(
    virtual_time: None, hosts: PlayedHosts, routes: JobRoutes
) -> None:
    loop = asyncio.get_running_loop()
    hosts.away.add("h1")
    loop.call_later(10, hosts.away.clear)
    await routes.keep(JOB, (STRAIGHT, BACK))
    assert 10 <= loop.time() < 11
    assert len(hosts.set["h1"]) == 1
    hosts.away.add("h0")
    with pytest.raises(LinkError, match="h0: its agent is not connected"):
        await routes.keep(JOB, ())
    assert loop.time() >= 10 + AWAY_S
    hosts.away.clear()
    await routes.set(JOB, ())
    assert hosts.set == {"h0": set(), "h1": set()}


async def test_host_that_is_away_does_not_hold_up_the_end_of_its_job(
    virtual_time: None, hosts: PlayedHosts, routes: JobRoutes
) -> None:
    loop = asyncio.get_running_loop()
    hosts.away.add("h1")
    with pytest.raises(LinkError, match="h1: its agent is not connected"):
        await routes.keep(JOB, (STRAIGHT, BACK), is_over=lambda: loop.time() >= 3)
    assert 3 <= loop.time() < 4
    with pytest.raises(LinkError, match="h1: its agent is not connected"):
        await routes.resume(JOB, (STRAIGHT, BACK), {"h0"}, is_over=lambda: loop.time() >= 6)
    assert 6 <= loop.time() < 7


async def test_next_daemon_sets_all_anew_and_takes_nothing_from_hosts_that_are_busy(
    hosts: PlayedHosts, routes: JobRoutes
) -> None:
    hosts.set = {"h0": {"h0.eth0 to 10.0.0.2/32"}, "h1": {"what a daemon that was killed had begun"}}
    await routes.resume(JOB, (STRAIGHT, BACK), {"h0"})
    assert "put back h0" not in hosts.asked
    assert hosts.set == {"h0": {"h0.eth0 to 10.0.0.2/32"}, "h1": {"h1.eth0 to 10.0.0.1/32"}}
    await routes.set(JOB, (BACK,))
    assert hosts.set == {"h0": set(), "h1": {"h1.eth0 to 10.0.0.1/32"}}


async def test_next_daemon_puts_back_what_may_be_left_where_there_are_no_routes(
    hosts: PlayedHosts, routes: JobRoutes
) -> None:
    hosts.set = {"h0": {"old"}, "h1": {"old too"}}
    await routes.resume(JOB, (), {"h0"})
    assert hosts.set == {"h0": {"old"}, "h1": set()}, "h0 is busy"
    await routes.set(JOB, ())
    assert hosts.set == {"h0": set(), "h1": set()}


def test_routes_that_cannot_be_set_are_refused_before_the_job_begins(hosts: PlayedHosts, routes: JobRoutes) -> None:
    routes.check((STRAIGHT, BY_OTHER, BACK))
    with pytest.raises(ConfigError, match=r"h1\.eth1: a route needs its address"):
        routes.check((StaticRoute(host="h0", to=H1B, port=H0),))
    unwilling = JobRoutes(replace(TESTBED, host_actions=()), hosts, Ledger())
    unwilling.check(())
    with pytest.raises(ConfigError, match="route is not among the host_actions of testbed lab"):
        unwilling.check((STRAIGHT,))
