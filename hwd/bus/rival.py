"""Rival: another boot that claims to be a host's agent before the current boot has ended."""

from dataclasses import dataclass
from typing import Final

from hwd_agents.wire import Birth

ANSWER_WITHIN_S: Final = 3.0
"""The current boot has this long to answer a request over the broker when the birth of another boot came. It is asked
each second."""

ON_ITS_WAY_S: Final = 0.5
"""A message that comes within this time may have been sent before the request."""


@dataclass(slots=True, kw_only=True)
class Rival:
    """A rival of a boot; `asked_s`: when the current boot was first asked, on the loop's clock.

    `refused`: the current boot answered, so the rival waits for the end of that boot, or for its own next birth.
    `logged`: the refusal is in the log.
    """

    birth: Birth
    retained: bool
    asked_s: float
    refused: bool = False
    logged: bool = False

    def renew(self, birth: Birth, now_s: float, *, retained: bool) -> None:
        """Take its next birth. That does not extend the time which the current boot has to answer."""
        self.birth, self.retained = birth, retained
        if self.refused:
            self.asked_s, self.refused = now_s, False

    def was_answered(self, last_message_s: float | None) -> bool:
        """Whether the current boot, last heard at `last_message_s`, has answered since it was asked."""
        return last_message_s is not None and last_message_s >= self.asked_s + ON_ITS_WAY_S

    def has_to_wait(self, now_s: float) -> bool:
        """Whether the current boot may still answer."""
        return now_s - self.asked_s < ANSWER_WITHIN_S
