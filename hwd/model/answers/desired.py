"""The desired state and what differs from it, in the answers of the API."""

from typing_extensions import override

from hwd.model.answers.answer import Answer
from hwd.model.link import Link, SwitchCrossconnect
from hwd_drivers.core.values import Crossconnect, PortSide


class SwitchDesired(Answer, frozen=True, kw_only=True):
    """What confirmed reconfigurations want of one switch, and how what it reports differs.

    `crossconnects`: those that are wanted; `free`: ends that shall have none; all other ends nobody ever named, and
    nothing is wanted of them. `by`: the reconfiguration that wanted it, by end. `missing`: wanted and not there;
    `stale`: there, at an end of which something else is wanted; `unasked`: there, at ends that nobody ever named.
    All three are None while what the switch carries is unknown, and `unknown` says why. `changing`: ports of
    reconfigurations in progress, at which no difference counts.
    """

    switch: str
    crossconnects: list[Crossconnect]
    free: list[PortSide]
    by: dict[PortSide, str]
    unknown: str | None
    missing: list[Crossconnect] | None
    stale: list[Crossconnect] | None
    unasked: list[Crossconnect] | None
    changing: list[str]

    @property
    def differs(self) -> bool:
        """Whether something is known to differ."""
        return bool(self.missing or self.stale)

    @override
    def __str__(self) -> str:
        if self.unknown is not None:
            return f"{self.switch}: what it carries is unknown: {self.unknown}"
        parts = [f"{one} is missing" for one in self.missing or ()] + [f"{one} is stale" for one in self.stale or ()]
        return f"{self.switch}: {', '.join(parts) or 'as desired'}"


class UnlitLink(Answer, frozen=True, kw_only=True):
    """A link that is wanted and that the crossconnects do not make now.

    `missing`: the crossconnects that it lacks, `ocs1:1A-2B`; `instead`: those that have their ends.
    `reconfiguration`: the one under way that took them away; they come back where that is rolled back.
    """

    link: Link
    missing: list[SwitchCrossconnect]
    instead: list[SwitchCrossconnect]
    reconfiguration: str | None = None

    @override
    def __str__(self) -> str:
        if self.reconfiguration is not None:
            return f"taken away by reconfiguration {self.reconfiguration}, which is under way"
        instead = f"; there is {', '.join(self.instead)} instead" if self.instead else ""
        return f"wanted, and {', '.join(self.missing)} {'is' if len(self.missing) == 1 else 'are'} missing{instead}"
