"""How late the modules of a host are, for the file of its agent."""

from hwd.model.testbed import Host
from hwd_agents.process.config import ModuleTiming


def declared_timings(host: Host) -> dict[str, ModuleTiming]:
    """By part number, what the testbed file says; a part of which it says nothing is not there, and its light is known
    on one side only.
    """
    return {
        port.module.part: ModuleTiming(los_s=port.module.los_s, monitor_s=port.module.monitor_s)
        for port in host.ports
        if port.module.part is not None and (port.module.los_s is not None or port.module.monitor_s is not None)
    }
