"""The switches of a testbed as the daemon drives them: their supervisors, and the origin of their times."""

from hwd.daemon.seams import Machine
from hwd.daemon.switch_opener import OpenSwitch
from hwd.model.instant import Origin
from hwd.model.testbed import Switch, Testbed
from hwd_drivers.core.documents import Sink
from hwd_drivers.devices.abilities import Device
from hwd_drivers.devices.supervisor import LONGEST_RETRY_S, Supervisor

TWIN_RETRY_S = 1.0
"""The longest pause before a twin is tried again: it is a process of this machine, which an attempt costs nothing."""


def supervisors(testbed: Testbed, open_switch: OpenSwitch, *, machine: Machine, sink: Sink) -> dict[str, Supervisor]:
    """A supervisor for each switch that no host owns, by name."""

    def supervise(switch: Switch) -> Supervisor:
        async def open_device() -> Device:
            return await open_switch(switch, sink)

        return Supervisor(
            name=switch.name,
            open=open_device,
            clock=machine.clock,
            sink=sink,
            draws=machine.draws,
            longest_retry_s=LONGEST_RETRY_S if switch.twin is None else TWIN_RETRY_S,
        )

    return {name: supervise(switch) for name, switch in testbed.switches.items() if switch.owner is None}


def origins(testbed: Testbed) -> dict[str, Origin]:
    """The origin of the times of each switch, also of those that hosts own."""
    return {name: _origin(switch) for name, switch in testbed.switches.items()}


def _origin(switch: Switch) -> Origin:
    if switch.twin is None:
        return Origin.MEASURED
    from hwd_drivers.twins.timing import find_timing  # a daemon of real switches does not load the simulator

    return Origin.FITTED if find_timing(switch.twin.timing).fitted_to else Origin.TWIN
