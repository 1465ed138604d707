"""ShutterWords: what the words of a unit for its shutters mean; no source tells them, so they are learned by closing and opening."""

import logging
from collections.abc import Mapping
from typing import Final

from hwd_drivers.core.values import PortOverride

PLAIN: Final = {"OPEN": PortOverride.NORMAL, "CLOSE": PortOverride.FORCE_BLOCKED, "CLOSED": PortOverride.FORCE_BLOCKED}
"""Words that mean what they say: a port that says OPEN after it was closed has a shutter that sticks."""

OPPOSITE = {
    PortOverride.NORMAL: PortOverride.FORCE_BLOCKED,
    PortOverride.FORCE_BLOCKED: PortOverride.NORMAL,
}

log = logging.getLogger(__name__)


class ShutterWords:
    """What each word that the unit uses means. `told` are those of the testbed, which stand; others are what ports said before and after they were closed or opened."""

    def __init__(self, device: str, told: Mapping[str, PortOverride]) -> None:
        self._device = device
        self._told = {word.upper(): meaning for word, meaning in told.items()}
        self._learned: dict[str, PortOverride] = {}
        self._asked: set[str] = set()

    def learn(self, before: Mapping[int, str], after: Mapping[int, str], meaning: PortOverride) -> None:
        """Ports said the one word before they were closed, or opened, and the other after it. One that says the same tells nothing: it may have been so, or be late."""
        for port, word in after.items():
            if word.upper() != before[port].upper():
                self._learned[before[port].upper()] = OPPOSITE[meaning]
                self._learned[word.upper()] = meaning

    def meaning(self, word: str) -> PortOverride | None:
        """None where nothing tells; said once in the log."""
        word = word.upper()
        for known in (self._told, self._learned, PLAIN):
            if word in known:
                return known[word]
        if word not in self._asked:
            self._asked.add(word)
            log.warning(
                "%s: says %s of a shutter, and what that means is not known yet. Block and unblock a port once, or say it in "
                "the option shutter_words of the testbed file",
                self._device,
                word,
            )
        return None
