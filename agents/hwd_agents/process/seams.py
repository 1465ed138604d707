"""Seams, Storage: what an agent takes from its process; a simulation or a test replaces all of it."""

from dataclasses import dataclass, field

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.disk import Disk
from hwd_drivers.core.ids import Draws, Ids
from hwd_drivers.core.offload import InlineOffload, Offload
from hwd_drivers.transports.dial import Dialer, TcpDialer


@dataclass(frozen=True, slots=True, kw_only=True)
class Seams:
    """Clock, identifiers, random numbers and connections of one host.

    `clock_name` names `clock`: two agents whose clocks have the same name have the same clock. `dialer` connects to
    the switches that the host owns.
    """

    clock: Clock
    clock_name: str = ""
    ids: Ids
    draws: Draws
    dialer: Dialer = field(default_factory=TcpDialer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The files of one agent.

    `events` is the spool's file. `settings` stores the settings of the ports as they were before runs changed them.
    `offload` runs the spool's syncs.
    """

    events: Disk
    settings: Disk
    offload: Offload = field(default_factory=InlineOffload)
