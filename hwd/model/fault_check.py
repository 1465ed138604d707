"""Checks of a fault against a testbed: its subject is there, and a twin."""

from collections.abc import Mapping

from hwd.model.fault import Clear, Drift, Fail, Fault, HostFault, Panel, PortFault, Stick, SwitchFault
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.values import Capabilities, PortSide, natural_key


def check_fault(fault: Fault, testbed: Testbed) -> None:
    """Raises ConfigError where the testbed has no such subject, RefusedError where it is a real device."""
    match fault:
        case Clear(switch=None, port=None, host=None):
            return
        case SwitchFault(switch=name) | Clear(switch=str(name)):
            if (switch := testbed.switches.get(name)) is None:
                raise ConfigError(f"fault: no switch {name} in testbed {testbed.name}; {_known(testbed.switches)}")
            if switch.twin is None:
                raise RefusedError(f"fault: {fault}: {name} is a real switch; faults can only be injected into twins")
            check_ends(fault, name, switch.capabilities)
        case PortFault(port=name) | Clear(port=str(name)):
            id = testbed.port(NicPortId.parse(name)).id
            if testbed.hosts[id.host].twin is None:
                raise RefusedError(f"fault: {fault}: {id.host} is a real host; faults can only be injected into twins")
        case HostFault(host=name) | Clear(host=str(name)):
            if (host := testbed.hosts.get(name)) is None:
                raise ConfigError(f"fault: no host {name} in testbed {testbed.name}; {_known(testbed.hosts)}")
            if host.twin is None:
                raise RefusedError(f"fault: {fault}: {name} is a real host; faults can only be injected into twins")


def check_ends(fault: Fault, switch: str, capabilities: Capabilities) -> None:
    """Raises ConfigError where a fault of a switch names an end that the switch does not have."""
    match fault:
        case Stick(ends=ends) | Fail(ends=ends) | Drift(ends=ends):
            sides = {PortSide.parse(end) for end in ends}
        case Panel():
            sides = {end for pairs in fault.pairs() for pair in pairs for end in pair.ends}
        case _:
            return
    if missing := sorted((side for side in sides.difference(capabilities.ends)), key=natural_key):
        raise ConfigError(f"fault: {switch} has no port {', '.join(missing)}")


def _known(names: Mapping[str, object]) -> str:
    return f"it has {', '.join(names)}" if names else "it has none"
