"""Rival: another boot that says that it is a host's agent, while the one that lives has not said farewell."""

from dataclasses import dataclass
from typing import Final

from hwd_agents.wire import Birth

ANSWER_WITHIN_S: Final = 3.0
"""So long has the agent that lives to answer over the broker, on its own boot, when another boot is born. It is asked
each second."""

ON_ITS_WAY_S: Final = 0.5


@dataclass(slots=True, kw_only=True)
class Rival:
    """`asked_s`: since when the one that lives is asked.

    `refused`: it answered, so the rival waits for its end, or for its own next birth; `told`: once.
    """

    birth: Birth
    retained: bool
    asked_s: float
    refused: bool = False
    told: bool = False

    def again(self, birth: Birth, now_s: float, *, retained: bool) -> None:
        """It was born once more. Who is being asked has no more time by that."""
        self.birth, self.retained = birth, retained
        if self.refused:
            self.asked_s, self.refused = now_s, False

    def hears(self, heard_s: float | None) -> bool:
        """Whether the one that lives was heard of since it was asked; what was on its way by then does not count."""
        return heard_s is not None and heard_s >= self.asked_s + ON_ITS_WAY_S

    def waits(self, now_s: float) -> bool:
        """Whether the one that lives may still answer."""
        return now_s - self.asked_s < ANSWER_WITHIN_S
