"""The place where a link hangs: the end and the stage that it does not get past, why, and the powers on its way."""

import msgspec
from typing_extensions import override

from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.stage import StageName


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """The power at one place of the way of light, in dBm, None where it is dark: `ocs1.3B dark`.

    At the end of a switch it is that of the whole fibre; at a module (`h1.eth0.rx`) there is one for each lane, and
    four equal lanes are 6 dB over one of them. `age_s`: of a reading from before the light was lost, which says nothing
    of now; None of one from after that.
    """

    at: str
    dbm: tuple[float | None, ...]
    by_lane: bool = False
    age_s: float | None = None

    @override
    def __str__(self) -> str:
        if self.age_s is not None:
            return f"{self.at} not read since, for {self.age_s:.1f} s"
        lit = [power for power in self.dbm if power is not None]
        if not lit:
            return f"{self.at} dark"
        low, high = f"{min(lit):.1f}", f"{max(lit):.1f}"
        text = f"{low} dBm" if low == high else f"{low} to {high} dBm"
        if not self.by_lane:
            return f"{self.at} {text}"
        dark = [str(lane) for lane, power in enumerate(self.dbm, start=1) if power is None]
        return f"{self.at} {text} a lane" + (f", dark on lane {', '.join(dark)}" if dark else "")


class Hang(msgspec.Struct, frozen=True, kw_only=True):
    """The stage that a link does not get past. `end`: at which of its ends; None where it is both.

    `powers`: those that are known, in the order in which the light passes them. What is unknown is not among them.
    """

    link: Link
    end: NicPortId | None
    stage: StageName
    why: str
    powers: tuple[Power, ...] = ()

    @property
    def words(self) -> str:
        """All but the link: `hangs at h1.eth0, optical: light is lost between ocs1.3B and h1.eth0.rx (...)`."""
        powers = f" ({', '.join(map(str, self.powers))})" if self.powers else ""
        return f"hangs at {self.end or 'both ends'}, {self.stage}: {self.why}{powers}"

    @override
    def __str__(self) -> str:
        return f"{self.link} {self.words}"
