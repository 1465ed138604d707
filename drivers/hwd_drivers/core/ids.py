"""Ids and random draws: from the operating system in the field, from a seed in a simulation."""

import hashlib
import random
import secrets
import uuid
from typing import Protocol

_TOKEN_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
"""Valid in an MQTT client id, a TL1 CTAG, a file name and a URL alike."""


class Ids(Protocol):
    """Makes names that nobody else has."""

    def uuid(self) -> str:
        """Return a version 4 UUID in its usual text form."""

    def token(self, *, length: int) -> str:
        """Return `length` characters of a-z and 0-9."""


class RandomIds:
    """Ids from the randomness of the operating system."""

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def token(self, *, length: int) -> str:
        left = secrets.randbits(
            6 * length + 64
        )  # once, not for each letter: 64 bits more than needed leave none likelier
        letters = []
        for _ in range(length):
            left, letter = divmod(left, len(_TOKEN_ALPHABET))
            letters.append(_TOKEN_ALPHABET[letter])
        return "".join(letters)


class SeededIds:
    """Ids that are the same in every run of the same seed, and never secret."""

    def __init__(self, seed: int) -> None:
        self._stream = Draws(seed).stream("ids")

    def uuid(self) -> str:
        return str(uuid.UUID(int=self._stream.getrandbits(128), version=4))

    def token(self, *, length: int) -> str:
        return "".join(self._stream.choice(_TOKEN_ALPHABET) for _ in range(length))


class Draws:
    """Random streams by name: who draws more from one does not move the others.

    `seed` None takes one from the operating system; `Draws.seed` tells which, for the record.
    """

    def __init__(self, seed: int | None) -> None:
        self.seed = secrets.randbits(64) if seed is None else seed
        self._streams: dict[str, random.Random] = {}

    def stream(self, name: str) -> random.Random:
        """Return the one stream of this name; asked for again, it goes on where it was."""
        if name not in self._streams:
            digest = hashlib.sha256(f"{self.seed}:{name}".encode()).digest()
            self._streams[name] = random.Random(int.from_bytes(digest))  # not hash(): that differs between processes
        return self._streams[name]
