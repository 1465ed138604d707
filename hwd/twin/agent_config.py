"""The configuration of a twin host's agent, made from the testbed."""

from collections.abc import Mapping

from hwd.bus.module_timings import declared_timings
from hwd.fabric.graph import Graph
from hwd.fabric.host_ports import ports_behind
from hwd.model.testbed import Host, Testbed
from hwd.twin.module import part_of
from hwd_agents.process.config import (
    AgentConfig,
    BrokerFrom,
    ClockConfig,
    ModuleTiming,
    PortConfig,
    SamplingConfig,
    SelectionConfig,
    SourcesConfig,
    SpoolConfig,
    SwitchConfig,
    TransfersConfig,
)
from hwd_drivers.core.errors import BugError

TWIN_LOGIN = "twin"
"""A twin accepts any."""
PROMPT = ModuleTiming(los_s=0.0, monitor_s=0.0)
"""The readings of a twin's module have no delay."""


def agent_config(
    testbed: Testbed,
    host: str,
    *,
    broker: str | BrokerFrom,
    sources: SourcesConfig,
    spool: SpoolConfig | None = None,
    shift_clock: bool = True,
    addresses: Mapping[str, str] | None = None,
    selection: SelectionConfig | None = None,
    transfers: TransfersConfig | None = None,
    sampling: SamplingConfig | None = None,
    graph: Graph | None = None,
) -> AgentConfig:
    """`graph` is that of the testbed, for callers that make many. `addresses`: those of the rack's twins, for the
    switches that the host owns. `selection`: the socket where its jobs set them; `transfers`: where they say what they
    are sending.

    `shift_clock` false: the clock of the agent's process is shifted already, or must not be.
    """
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
        modules=prompt_unless_declared(testbed.hosts[host]),
        switches=_switches(testbed, host, addresses or {}, graph),
        selection=selection or SelectionConfig(),
        transfers=transfers or TransfersConfig(),
        sampling=sampling or SamplingConfig(),
        sources=sources,
        spool=spool or SpoolConfig(),
        clock=shifted if shift_clock else None,
        # broker and daemon share its processors: kept waiting, they answer late, and the clocks seem off by that
        realtime=False,
    )


def prompt_unless_declared(host: Host) -> dict[str, ModuleTiming]:
    """The delays of the modules of a twin host, by part: none, unless the testbed declares some."""
    prompt = {part_of(port.module): PROMPT for port in host.ports}
    return {**prompt, **declared_timings(host)}


def _switches(
    testbed: Testbed, host: str, addresses: Mapping[str, str], graph: Graph | None
) -> dict[str, SwitchConfig]:
    """The switches that the host owns, at the addresses of their twins; a real one has that of the testbed file."""
    found = {}
    for name, ports in ports_behind(testbed, host, graph).items():
        switch = testbed.switches[name]
        address = switch.address if switch.twin is None else addresses.get(name)
        if address is None:
            raise BugError(f"{name}: the address of this switch of {host} is unknown; the rack gave none")
        found[name] = SwitchConfig(
            driver=switch.driver,
            model=switch.model,
            size=switch.size,
            address=address,
            options=dict(switch.options),
            ports=list(ports),
            user=TWIN_LOGIN if switch.twin is not None else switch.login_user,
            password=TWIN_LOGIN if switch.twin is not None else None,
        )
    return found
