"""The configuration of a twin host's agent, made from the testbed."""

from hwd.model.testbed import Testbed
from hwd_agents.config import AgentConfig, BrokerFrom, ClockConfig, ModuleTiming, PortConfig, SourcesConfig, SpoolConfig
from hwd_drivers.kit.errors import BugError

PROMPT = ModuleTiming(los_s=0.0, monitor_s=0.0)
"""What a twin's module shows is never old."""


def agent_config(
    testbed: Testbed,
    host: str,
    *,
    broker: str | BrokerFrom,
    sources: SourcesConfig,
    spool: SpoolConfig | None = None,
    shift_clock: bool = True,
) -> AgentConfig:
    """`shift_clock` false: whoever makes the agent gives it a clock that is moved already."""
    twin = testbed.hosts[host].twin
    if twin is None:
        raise BugError(f"{host}: is no twin; its agent is configured where it runs")
    shifted = ClockConfig(offset_s=twin.clock_offset_s, drift_ppm=twin.clock_drift_ppm)
    return AgentConfig(
        testbed=testbed.name,
        host=host,
        broker=broker,
        ports={
            port.id.port: PortConfig(
                interface=port.interface,
                ip=port.ip_address,
                rdma=port.rdma,
                lanes=port.module.lanes,
                dark_dbm=port.module.los_assert_dbm,
            )
            for port in testbed.hosts[host].ports
        },
        modules={port.module.type[:16]: PROMPT for port in testbed.hosts[host].ports},
        sources=sources,
        spool=spool or SpoolConfig(),
        clock=shifted if shift_clock else None,
        realtime=False,  # broker and daemon share its processors: kept waiting, they answer late, and the clocks seem off by that
    )
