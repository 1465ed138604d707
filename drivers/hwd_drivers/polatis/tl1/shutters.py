"""ShutterWords: what the words of a unit for its shutters mean; no source tells them, so they are learned by closing and opening."""

import logging
from collections.abc import Iterable, Mapping

from hwd_drivers.kit.values import PortOverride

PLAIN = {"OPEN": PortOverride.NORMAL, "CLOSE": PortOverride.FORCE_BLOCKED, "CLOSED": PortOverride.FORCE_BLOCKED}
"""Words that mean what they say, until the unit shows otherwise."""

log = logging.getLogger(__name__)


class ShutterWords:
    """What each word that the unit uses means. `told` are those of the testbed, which stand; others are what ports said after they were closed or opened."""

    def __init__(self, device: str, told: Mapping[str, PortOverride]) -> None:
        self._device = device
        self._told = {word.upper(): meaning for word, meaning in told.items()}
        self._learned: dict[str, PortOverride] = {}
        self._asked: set[str] = set()

    def learn(self, words: Iterable[str], meaning: PortOverride) -> None:
        """The unit said these words of ports that it had just closed, or opened."""
        for word in map(str.upper, words):
            self._learned[word] = meaning

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
