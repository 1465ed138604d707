"""status_of: the status of a host, from the state of its agent."""

from collections.abc import Mapping

from hwd.bus.birth_data import selection_trouble, spool_of, wall_clock
from hwd.bus.host_agent import HostAgent
from hwd.model.host import HostPort, HostStatus


def status_of(
    agent: HostAgent,
    ports: Mapping[str, HostPort],
    *,
    heard_wall_ns: int | None,
    since_wall_ns: int | None,
    trouble: str,
    skew: str,
) -> HostStatus:
    """`trouble`: the work of the daemon that fails for this host; empty where all works."""
    birth, exchange, alignment = agent.birth, agent.exchange, agent.alignment
    return HostStatus(
        host=agent.name,
        up=agent.up,
        cause=agent.cause,
        since_wall_ns=since_wall_ns,
        heard_wall_ns=heard_wall_ns,
        boot=agent.boot,
        version=None if birth is None else birth.version,
        clock=None if exchange is None or alignment is None else exchange.status(alignment),
        wall_clock=None if birth is None else wall_clock(birth),
        ports=dict(ports),
        settings=[] if birth is None else birth.settings,
        lost=agent.lost,
        rival=None if agent.rival is None else agent.rival.birth.boot,
        trouble=trouble,
        spool=None if birth is None else spool_of(birth),
        selection="" if birth is None else selection_trouble(birth),
        skew=skew,
    )
