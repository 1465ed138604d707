"""Faults of one switch twin: injected into the twin, and remembered while they are active."""

from hwd.model.fault import (
    Deny,
    Drift,
    Fail,
    Fault,
    Garble,
    Half,
    Panel,
    Partial,
    Reboot,
    Refuse,
    Reset,
    Silent,
    Slow,
    Stick,
    SwitchFault,
    Wrong,
)
from hwd.twin.faults.active_faults import ActiveFaults
from hwd_drivers.core.values import PortSide
from hwd_drivers.twins.server import Denial, Faults


def set_switch_fault(fault: SwitchFault, faults: Faults, standing: ActiveFaults) -> None:
    """Inject a fault. Raises RefusedError where the optics cannot make the change at the front panel."""
    match fault:
        case Deny(code=code, text=text):
            faults.deny_next = Denial(code=code, text=text)
            standing.add(fault)
        case Reset():
            faults.reset()
        case Refuse(on=on):
            faults.refusing = on
            standing.add(fault, on=on)
        case Slow(seconds=seconds):
            faults.slow_s = seconds
            standing.add(fault, on=seconds > 0)
        case Silent(on=on):
            faults.silent = on
            standing.add(fault, on=on)
        case Half():
            faults.half_next = True
            standing.add(fault)
        case Garble():
            faults.garble_next = True
            standing.add(fault)
        case Wrong():
            faults.wrong_next = True
            standing.add(fault)
        case Partial(pairs=pairs):
            faults.partial_next = pairs
            standing.add(fault)
        case Stick(switch=switch, ends=ends):
            faults.stick(map(PortSide.parse, ends))
            standing.add(Stick(switch=switch, ends=_with(standing.get(switch, Stick), ends)))
        case Fail(switch=switch, ends=ends):
            faults.fail(map(PortSide.parse, ends))
            standing.add(Fail(switch=switch, ends=_with(standing.get(switch, Fail), ends)))
        case Drift(switch=switch, ends=ends, loss_db=loss_db, over_s=over_s):
            faults.drift(map(PortSide.parse, ends), loss_db, over_s=over_s)
            drifts = [one for one in standing if isinstance(one, Drift)]
            before_db = sum(one.loss_db for one in drifts if (one.switch, one.ends) == (switch, ends))
            standing.add(Drift(switch=switch, ends=ends, loss_db=before_db + loss_db, over_s=over_s))
        case Panel():
            faults.panel(*fault.pairs())
        case Reboot(seconds=seconds):
            faults.reboot(seconds)
            standing.add(fault)


def is_over(fault: Fault, faults: Faults) -> bool:
    """Whether a fault was momentary and has happened."""
    match fault:
        case Deny():
            return faults.deny_next is None
        case Half():
            return not faults.half_next
        case Garble():
            return not faults.garble_next
        case Wrong():
            return not faults.wrong_next
        case Partial():
            return faults.partial_next is None
        case Reboot():
            return not faults.rebooting
        case _:
            return False


def _with(before: Stick | Fail | None, ends: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*(before.ends if before is not None else ()), *ends]))
