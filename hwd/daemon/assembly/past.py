"""Past: what the records say of earlier reconfigurations, and what they left."""

from dataclasses import dataclass
from typing import Self

from hwd.daemon.assembly.foundation import Foundation
from hwd.reconfigure.desired.desired_state import DesiredState
from hwd.reconfigure.desired.history import History, Outcomes
from hwd.reconfigure.plans.device_times import DeviceTimes
from hwd.reconfigure.plans.move_counts import MoveCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """How long devices took, how often they moved, how reconfigurations ended, and what is desired."""

    history: History
    outcomes: Outcomes
    device_times: DeviceTimes
    move_counts: MoveCounts
    desired: DesiredState

    @classmethod
    async def open(cls, base: Foundation) -> Self:
        """Read the past from the records."""
        past = cls(
            history=History(base.in_use),
            outcomes=Outcomes(base.clock),
            device_times=DeviceTimes(),
            move_counts=MoveCounts(base.testbed, base.clock),
            desired=DesiredState(base.testbed, base.ledger, base.recorder.flush),
        )
        await past.history.load(base.records)
        await past.device_times.load(base.records)
        await past.outcomes.load(base.records)
        await past.move_counts.load(base.records)
        await past.desired.load(base.records)
        return past
