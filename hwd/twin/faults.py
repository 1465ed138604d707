"""The faults of a rack: what its twins were told to do wrong, done and remembered.

faults = RackFaults(rack, kill_agent=lambda host: ...)
faults.set(parse_fault({"port": "h0.eth0", "fault": "slow-firmware", "seconds": 4}))
for fault in faults.present(): print(fault)
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from hwd.model.fault import (
    AgentKilled,
    Clear,
    ClockStep,
    Cut,
    Deny,
    Fault,
    Flap,
    Garble,
    Half,
    PortFault,
    Refuse,
    Reset,
    Silent,
    Slow,
    SlowFirmware,
    Stick,
    StuckPhy,
    SwitchFault,
    Unplug,
    Weak,
    check_fault,
)
from hwd.model.testbed import NicPortId
from hwd.twin.nic import Nic
from hwd.twin.rack import TwinRack
from hwd_drivers.kit.errors import RefusedError
from hwd_drivers.kit.server import Denial
from hwd_drivers.kit.values import PortSide

log = logging.getLogger(__name__)


class RackFaults:
    """`kill_agent` sends SIGKILL to the agent of a host; None where the rack has no agents of its own.

    Of one subject each kind of fault is set once: a second takes the place of the first, and one that is switched off, or is 0, is set no more. Clock
    steps add up.
    """

    def __init__(self, rack: TwinRack, *, kill_agent: Callable[[str], None] | None = None) -> None:
        self._rack = rack
        self._kill_agent = kill_agent
        self._set: dict[tuple[str, type[object]], Fault] = {}
        self._flaps: dict[NicPortId, asyncio.TimerHandle] = {}

    def set(self, fault: Fault) -> None:
        """Let it go wrong from now on. Raises ConfigError for a subject that is not there, RefusedError where it is no twin."""
        check_fault(fault, self._rack.testbed)
        match fault:
            case Clear():
                for known in self._of(fault):
                    self._undo(known)
                    self._set.pop((known.subject, type(known)), None)
                if fault.switch is not None:
                    self._rack.switches[fault.switch].faults.clear()
            case SwitchFault():
                self._set_switch(fault)
            case PortFault():
                self._set_port(fault)
            case AgentKilled(host=host):
                if self._kill_agent is None:
                    raise RefusedError(f"fault: {fault}: this rack does not keep the agents")
                self._kill_agent(host)
            case ClockStep(host=host, seconds=seconds):
                twin = self._rack.hosts[host]
                twin.step_clock(twin.clock_step_s + seconds)
                self._remember(ClockStep(host=host, seconds=twin.clock_step_s), on=twin.clock_step_s != 0)
        log.info("fault: %s", fault)

    def present(self) -> tuple[Fault, ...]:
        """What is wrong now, in the order in which it was set; what was momentary, or has been used up, is not."""
        for key, fault in list(self._set.items()):
            if self._is_over(fault):
                del self._set[key]
        return tuple(self._set.values())

    def close(self) -> None:
        """Let no carrier flap any more."""
        for timer in self._flaps.values():
            timer.cancel()
        self._flaps.clear()

    def _set_switch(self, fault: SwitchFault) -> None:
        faults = self._rack.switches[fault.switch].faults
        match fault:
            case Deny(code=code, text=text):
                faults.deny_next = Denial(code=code, text=text)
                self._remember(fault)
            case Reset():
                faults.reset()
            case Refuse(on=on):
                faults.refusing = on
                self._remember(fault, on=on)
            case Slow(seconds=seconds):
                faults.slow_s = seconds
                self._remember(fault, on=seconds > 0)
            case Silent(on=on):
                faults.silent = on
                self._remember(fault, on=on)
            case Half():
                faults.half_next = True
                self._remember(fault)
            case Garble():
                faults.garble_next = True
                self._remember(fault)
            case Stick(switch=switch, ends=ends):
                faults.stick([PortSide.parse(end) for end in ends])
                before = self._set.get((switch, Stick))
                more = before.ends if isinstance(before, Stick) else ()
                self._remember(Stick(switch=switch, ends=tuple(dict.fromkeys([*more, *ends]))))

    def _set_port(self, fault: PortFault) -> None:
        id = fault.id
        match fault:
            case SlowFirmware(seconds=seconds):
                self._rack.nics[id].firmware_more_s = seconds
                self._remember(fault, on=seconds > 0)
            case StuckPhy(on=on):
                self._rack.change_nic(id, lambda nic, now_ns: _stick(nic, on))
                self._remember(fault, on=on)
            case Unplug(on=on):
                self._rack.hosts[id.host].unplug(id, on)
                self._remember(fault, on=on)
                self._shut_light(id)
            case Cut():
                self._remember(fault)
                self._shut_light(id)
            case Weak(loss_db=loss_db):
                self._rack.change_light(lambda rays: rays.weaken(id, loss_db))
                self._remember(fault, on=loss_db > 0)
            case Flap():
                self._stop_flap(id)
                self._flap(fault, fault.times)

    def _undo(self, fault: Fault) -> None:
        match fault:
            case Flap():
                self._stop_flap(fault.id)
            case SlowFirmware(port=port):
                self._set_port(SlowFirmware(port=port, seconds=0))
            case StuckPhy(port=port):
                self._set_port(StuckPhy(port=port, on=False))
            case Unplug(port=port):
                self._set_port(Unplug(port=port, on=False))
            case Cut():
                del self._set[fault.subject, Cut]
                self._shut_light(fault.id)
            case Weak(port=port):
                self._set_port(Weak(port=port, loss_db=0))
            case ClockStep(host=host):
                self._rack.hosts[host].step_clock(0.0)
            case SwitchFault(switch=switch):
                self._rack.switches[switch].faults.clear()

    def _shut_light(self, id: NicPortId) -> None:
        """What an unplugged module and cut strands leave of the light, together."""
        cut = self._set.get((str(id), Cut))
        strand = cut.strand if isinstance(cut, Cut) else None
        unplugged = (str(id), Unplug) in self._set
        self._rack.change_light(lambda rays: rays.silence(id, unplugged or strand in ("tx", "both")))
        self._rack.change_light(lambda rays: rays.deafen(id, unplugged or strand in ("rx", "both")))

    def _flap(self, fault: Flap, times: int) -> None:
        self._rack.change_nic(fault.id, lambda nic, now_ns: nic.flap(now_ns, fault.down_s))
        if times > 1:
            loop = asyncio.get_running_loop()
            self._flaps[fault.id] = loop.call_later(fault.down_s + fault.up_s, self._flap, fault, times - 1)
            self._remember(fault)
        else:
            self._stop_flap(fault.id)

    def _stop_flap(self, id: NicPortId) -> None:
        if (timer := self._flaps.pop(id, None)) is not None:
            timer.cancel()
        self._set.pop((str(id), Flap), None)

    def _of(self, clear: Clear) -> Iterable[Fault]:
        """The faults that it clears: those of a host are those of its ports, too."""
        match clear:
            case Clear(host=str(host)):
                return [fault for (subject, _), fault in self._set.items() if subject.partition(".")[0] == host]
            case Clear(switch=None, port=None):
                return list(self._set.values())
            case _:
                return [fault for (subject, _), fault in self._set.items() if subject == clear.subject]

    def _is_over(self, fault: Fault) -> bool:
        match fault:
            case Deny(switch=switch):
                return self._rack.switches[switch].faults.deny_next is None
            case Half(switch=switch):
                return not self._rack.switches[switch].faults.half_next
            case Garble(switch=switch):
                return not self._rack.switches[switch].faults.garble_next
            case _:
                return False

    def _remember(self, fault: Fault, *, on: bool = True) -> None:
        self._set.pop((fault.subject, type(fault)), None)
        if on:
            self._set[fault.subject, type(fault)] = fault


def _stick(nic: Nic, on: bool) -> None:
    nic.stuck = on
