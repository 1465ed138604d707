"""Board: the switches that the daemon drives, and what is known of the rack now."""

from dataclasses import dataclass
from typing import Final, Self

from hwd.daemon.assembly.foundation import Foundation
from hwd.daemon.driven_switches import DrivenSwitches
from hwd.rack.changes import Changes
from hwd.rack.links import Links
from hwd.rack.switches import ReportedSwitches
from hwd.reconfigure.apply.switches import Switches
from hwd.telemetry.alerts import Alerts
from hwd.web.daemonboard import Daemonboard

CHANGES_READ: Final = 256
"""Documents of each kind that a start reads for the last change of each switch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Reports of switches, links, last changes and alerts; `daemonboard` is about the daemon itself."""

    driven: DrivenSwitches
    switches: Switches
    reported: ReportedSwitches
    links: Links
    changes: Changes
    daemonboard: Daemonboard
    alerts: Alerts

    @classmethod
    async def open(cls, base: Foundation) -> Self:
        """Make the board, and read what the records have of it. Connects to no switch."""
        driven = DrivenSwitches(base.testbed, base.access.open_switch, machine=base.machine, sink=base.sink)
        switches = Switches(driven.drivers, base.clock, driven.origins)
        reported = ReportedSwitches(base.testbed.switches, switches.cause)
        board = cls(
            driven=driven,
            switches=switches,
            reported=reported,
            links=Links(
                base.fabric,
                reported,
                base.ports,
                base.clock.wall_ns,
                powers_asked_wall_ns=driven.powers_asked_wall_ns,
            ),
            changes=Changes(base.testbed.switches),
            daemonboard=Daemonboard(),
            alerts=Alerts(base.clock, base.ports, base.ready),
        )
        for document in await base.records.unbroken([fact.KIND for fact in Changes.TAKES], limit=CHANGES_READ):
            board.changes(document)
        await board.alerts.load(base.records)
        await board.daemonboard.load(base.records)
        return board
