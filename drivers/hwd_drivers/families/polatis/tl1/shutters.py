"""ShutterWords: the meaning of a unit's words for its shutters, undocumented and so learned by switching them."""

import logging
from collections.abc import Mapping
from typing import Final

from hwd_drivers.core.values import PortOverride

PLAIN: Final = {"OPEN": PortOverride.NORMAL, "CLOSE": PortOverride.FORCE_BLOCKED, "CLOSED": PortOverride.FORCE_BLOCKED}
"""Words with an obvious meaning: a port that reports OPEN after closing has a shutter that sticks."""

OPPOSITE = {
    PortOverride.NORMAL: PortOverride.FORCE_BLOCKED,
    PortOverride.FORCE_BLOCKED: PortOverride.NORMAL,
}

log = logging.getLogger(__name__)


class ShutterWords:
    """The meaning of each word. `configured` are words of the testbed, which never change; others are learned.

    A word is learned from the words of ports before and after they were closed or opened.
    """

    def __init__(self, device: str, configured: Mapping[str, PortOverride]) -> None:
        self._device = device
        self._configured = {word.upper(): meaning for word, meaning in configured.items()}
        self._learned: dict[str, PortOverride] = {}
        self._asked: set[str] = set()

    def learn(self, before: Mapping[int, str], after: Mapping[int, str], meaning: PortOverride) -> None:
        """Learn from the words of ports before and after a command. A word that did not change teaches nothing.

        The port may have been in that state already, or report late.
        """
        for port, word in after.items():
            if word.upper() != before[port].upper():
                self._learned[before[port].upper()] = OPPOSITE[meaning]
                self._learned[word.upper()] = meaning

    def meaning(self, word: str) -> PortOverride | None:
        """The meaning of a word; None for an unknown one, which is logged once."""
        word = word.upper()
        for known in (self._configured, self._learned, PLAIN):
            if word in known:
                return known[word]
        if word not in self._asked:
            self._asked.add(word)
            log.warning(
                "%s: reports %s for a shutter, and its meaning is not known yet. Block and unblock a port once, "
                "or state it in the option shutter_words of the testbed file",
                self._device,
                word,
            )
        return None
