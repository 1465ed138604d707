"""The faults of a rack: injected into its twins, and remembered.

faults = RackFaults(rack, kill_agent=lambda host: ...)
faults.set(parse_fault({"port": "h0.eth0", "fault": "slow-firmware", "seconds": 4}))
for fault in faults.present(): print(fault)
"""

import asyncio
import logging
from collections.abc import Callable

from hwd.model.fault import (
    AgentKilled,
    Clear,
    ClockStep,
    Cut,
    Fault,
    Flap,
    OtherNicTiming,
    PortFault,
    Reboot,
    SlowFirmware,
    StuckPhy,
    SwitchFault,
    Unplug,
    Weak,
)
from hwd.model.fault_check import check_fault
from hwd.model.nic_port import NicPortId
from hwd.twin.faults.active_faults import ActiveFaults
from hwd.twin.faults.switch_faults import is_over, set_switch_fault
from hwd.twin.nic import Nic
from hwd.twin.nic_timing import nic_timing
from hwd.twin.rack import TwinRack
from hwd_drivers.core.errors import RefusedError

log = logging.getLogger(__name__)


class RackFaults:
    """The faults of a rack; `kill_agent` sends SIGKILL to a host's agent; None where the rack has no agents of its own.

    A subject has each kind of fault once: a second one replaces the first, and one that is switched off, or is 0, is
    removed. Clock steps, stuck and failed ends, and drifts add up.
    """

    def __init__(self, rack: TwinRack, *, kill_agent: Callable[[str], None] | None = None) -> None:
        self._rack = rack
        self._kill_agent = kill_agent
        self._standing = ActiveFaults()
        self._flaps: dict[NicPortId, asyncio.TimerHandle] = {}

    def set(self, fault: Fault) -> None:
        """Inject a fault. Raises ConfigError for an unknown subject, RefusedError where it is no twin."""
        check_fault(fault, self._rack.testbed)
        match fault:
            case Clear():
                for known in self._standing.of(fault):
                    self._undo(known)
                    self._standing.add(known, on=isinstance(known, Reboot))  # active until it is over
                if fault.switch is not None:
                    self._rack.switches[fault.switch].faults.clear()
            case SwitchFault():
                set_switch_fault(fault, self._rack.switches[fault.switch].faults, self._standing)
            case PortFault():
                self._set_port(fault)
            case AgentKilled(host=host):
                self._refuse_machine(host, fault, "its agent runs in a virtual machine: kill it there")
                if self._kill_agent is None:
                    raise RefusedError(f"fault: {fault}: this rack does not keep the agents")
                self._kill_agent(host)
            case ClockStep(host=host, seconds=seconds):
                self._refuse_machine(host, fault, "it is a virtual machine with a clock of its own: set that")
                twin = self._rack.hosts[host]
                twin.step_clock(twin.clock_step_s + seconds)
                self._standing.add(ClockStep(host=host, seconds=twin.clock_step_s), on=twin.clock_step_s != 0)
            case OtherNicTiming():
                self._set_timing(fault)
                self._standing.add(fault)
        log.info("fault: %s", fault)

    def present(self) -> tuple[Fault, ...]:
        """The active faults, in the order in which they were injected; momentary ones, and those that are used up, are
        not among them.
        """
        self._standing.drop_all(self._is_over)
        return tuple(self._standing)

    def close(self) -> None:
        """Stop all flaps."""
        for timer in self._flaps.values():
            timer.cancel()
        self._flaps.clear()

    def _set_port(self, fault: PortFault) -> None:
        id = fault.id
        match fault:
            case SlowFirmware(seconds=seconds):
                self._rack.nics[id].firmware_more_s = seconds
                self._standing.add(fault, on=seconds > 0)
            case StuckPhy(on=on):
                self._rack.change_nic(id, lambda nic, now_ns: _stick(nic, on))
                self._standing.add(fault, on=on)
            case Unplug(on=on):
                self._rack.hosts[id.host].unplug(id, on)
                self._standing.add(fault, on=on)
                self._shut_light(id)
            case Cut():
                self._standing.add(fault)
                self._shut_light(id)
            case Weak(loss_db=loss_db):
                self._rack.change_light(lambda rays: rays.weaken(id, loss_db))
                self._standing.add(fault, on=loss_db > 0)
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
                self._standing.drop(fault.subject, Cut)
                self._shut_light(fault.id)
            case Weak(port=port):
                self._set_port(Weak(port=port, loss_db=0))
            case ClockStep(host=host):
                self._rack.hosts[host].step_clock(0.0)
            case OtherNicTiming(host=host):
                self._restore_timing(host)
            case SwitchFault(switch=switch):
                self._rack.switches[switch].faults.clear()

    def _set_timing(self, fault: OtherNicTiming) -> None:
        """Set the timing of all NICs of the host, or of none: they may negotiate differently."""
        timing, nics = nic_timing(fault.timing), self._nics_of(fault.host)
        if unlike := [nic.id for nic in nics if nic.autoneg is not timing.autoneg]:
            does, do = ("does not negotiate", "do") if timing.autoneg else ("negotiates", "do not")
            raise RefusedError(
                f"fault: {fault}: {unlike[0]} {does}, and {timing.name} has the times of NICs that {do}"
                f"{f'. Use {timing.other}' if timing.other else ''}"
            )
        for nic in nics:
            nic.timing = timing

    def _restore_timing(self, host: str) -> None:
        """Restore the timing of the testbed, with the present negotiation where there is a figure for it."""
        twin = self._rack.testbed.hosts[host].twin
        assert twin is not None
        timing = nic_timing(twin.timing)
        for nic in self._nics_of(host):
            nic.timing = timing if nic.autoneg is timing.autoneg else nic_timing(timing.other or timing.name)
            nic.autoneg = nic.timing.autoneg

    def _nics_of(self, host: str) -> list[Nic]:
        return [nic for id, nic in self._rack.nics.items() if id.host == host]

    def _refuse_machine(self, host: str, fault: Fault, why: str) -> None:
        twin = self._rack.testbed.hosts[host].twin
        if twin is not None and twin.machine is not None:
            raise RefusedError(f"fault: {fault}: {host}: {why}")

    def _shut_light(self, id: NicPortId) -> None:
        """Apply the combined effect of an unplugged module and cut strands on the light."""
        cut = self._standing.get(id, Cut)
        strand = cut.strand if cut is not None else None
        unplugged = self._standing.get(id, Unplug) is not None
        self._rack.change_light(lambda rays: rays.silence(id, unplugged or strand in ("tx", "both")))
        self._rack.change_light(lambda rays: rays.deafen(id, unplugged or strand in ("rx", "both")))

    def _flap(self, fault: Flap, times: int) -> None:
        self._rack.change_nic(fault.id, lambda nic, now_ns: nic.flap(now_ns, fault.down_s))
        if times > 1:
            loop = asyncio.get_running_loop()
            self._flaps[fault.id] = loop.call_later(fault.down_s + fault.up_s, self._flap, fault, times - 1)
            self._standing.add(fault)
        else:
            self._stop_flap(fault.id)

    def _stop_flap(self, id: NicPortId) -> None:
        if (timer := self._flaps.pop(id, None)) is not None:
            timer.cancel()
        self._standing.drop(id, Flap)

    def _is_over(self, fault: Fault) -> bool:
        return isinstance(fault, SwitchFault) and is_over(fault, self._rack.switches[fault.switch].faults)


def _stick(nic: Nic, on: bool) -> None:
    nic.stuck = on
