"""Ids and random draws: from the operating system in the field, from a seed in a simulation."""

import hashlib
import random
import secrets
import uuid
from typing import Protocol

_TOKEN_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
"""Characters that are valid in an MQTT client id, a TL1 CTAG, a file name and a URL."""


class Ids(Protocol):
    """Makes unique names."""

    def uuid(self) -> str:
        """Return a version 4 UUID in its usual text form."""

    def token(self, *, length: int) -> str:
        """Return `length` characters of a-z and 0-9."""


class RandomIds:
    """Ids from the randomness of the operating system."""

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def token(self, *, length: int) -> str:
        left = secrets.randbits(6 * length + 64)  # one draw for all letters: with 64 spare bits they are equally likely
        letters = []
        for _ in range(length):
            left, letter = divmod(left, len(_TOKEN_ALPHABET))
            letters.append(_TOKEN_ALPHABET[letter])
        return "".join(letters)


class SeededIds:
    """Ids that are the same in every run with the same seed, and never secret."""

    def __init__(self, seed: int) -> None:
        self._stream = Draws(seed).stream("ids")

    def uuid(self) -> str:
        return str(uuid.UUID(int=self._stream.getrandbits(128), version=4))

    def token(self, *, length: int) -> str:
        return "".join(self._stream.choice(_TOKEN_ALPHABET) for _ in range(length))


class Draws:
    """Random streams by name: more draws from one stream do not change the others.

    Where `seed` is None the operating system gives one; `Draws.seed` has it, for the record.
    """

    def __init__(self, seed: int | None) -> None:
        self.seed = secrets.randbits(64) if seed is None else seed
        self._streams: dict[str, random.Random] = {}

    def stream(self, name: str) -> random.Random:
        """Return the only stream of this name; a second call returns it in its present state."""
        if name not in self._streams:
            digest = hashlib.sha256(f"{self.seed}:{name}".encode()).digest()
            self._streams[name] = random.Random(int.from_bytes(digest))  # not hash(): that differs between processes
        return self._streams[name]
