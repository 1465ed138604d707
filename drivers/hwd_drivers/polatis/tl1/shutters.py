"""ShutterWords: what the words of a unit for its shutters mean; no source tells them, so they are learned by closing and opening."""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from hwd_drivers.kit.values import PortOverride

PLAIN: Final = {"OPEN": PortOverride.NORMAL, "CLOSE": PortOverride.FORCE_BLOCKED, "CLOSED": PortOverride.FORCE_BLOCKED}
"""Words that mean what they say: a port that says OPEN after it was closed has a shutter that sticks."""

log = logging.getLogger(__name__)


class ShutterWords:
    """What each word that the unit uses means. `told` are those of the testbed, which stand; others are what ports said after they were closed or opened."""

    def __init__(self, device: str, told: Mapping[str, PortOverride]) -> None:
        self._device = device
        self._told = {word.upper(): meaning for word, meaning in told.items()}
        self._learned: dict[str, PortOverride] = {}
        self._asked: set[str] = set()

    def learn(self, words: Iterable[str], meaning: PortOverride) -> None:
        """The unit said these words of ports that it had just closed, or opened. Where they differ, one of them sticks, and nothing is learned."""
        said = {word.upper() for word in words}
        if len(said) == 1 and said.isdisjoint({*self._told, *PLAIN}):
            self._learned[said.pop()] = meaning

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
