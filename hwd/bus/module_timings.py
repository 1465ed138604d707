"""The delays of the modules of a host, for the configuration file of its agent."""

from hwd.model.testbed import Host
from hwd_agents.process.config import ModuleTiming


def declared_timings(host: Host) -> dict[str, ModuleTiming]:
    """The delays of light in the testbed file, by the part number of the module.

    A part without delays is left out: of its light only the latest possible time is known, not the earliest.
    """
    return {
        port.module.part: ModuleTiming(los_s=port.module.los_s, monitor_s=port.module.monitor_s)
        for port in host.ports
        if port.module.part is not None and (port.module.los_s is not None or port.module.monitor_s is not None)
    }
