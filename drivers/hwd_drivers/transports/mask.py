"""Mask: removes secrets from the texts of a device. A device may echo a command with its password in a refusal.

`registry.open_device` applies it to a session: errors, identity, documents and log lines of that device pass through
it, whatever its driver.
"""

import base64
import html
import json
import re
import string
from dataclasses import replace
from typing import Final
from urllib.parse import quote, quote_plus

from hwd_drivers.core.documents import Document, Json, Sink
from hwd_drivers.core.errors import DeviceError
from hwd_drivers.core.structs import from_plain

STARS: Final = "***"
PUBLIC: Final = frozenset({"twin", "bench"})
"""The default login of twins: it is in the docs, and a common word."""
LEAST_CHARACTERS: Final = 4
"""A shorter secret is not masked: it would be found in any text, and can be guessed anyway."""
WHOLE_WORD_CHARACTERS: Final = 8
"""A shorter secret is masked only as a whole word: the password `port` must not make `support` unreadable."""
KEPT_MOST: Final = 64
"""Most secrets of one session; the oldest is dropped. Cookies are secrets too."""
LOOKED_FOR_MOST: Final = 255
"""Characters of a longer secret that are searched for; the text after them up to a blank is masked too.

A device chooses the length of its cookies. A multiple of 3, so that the base64 of the whole begins with the base64 of
this part.
"""

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
"""Lower case with every character at its place, which `lower` does not guarantee."""
_DOTS: Final = re.compile(r"\.\.\.")


class Mask:
    """Masks the secrets of one session with a device.

    It finds them in any case, quoted, escaped, percent-encoded, in base64, and cut off by `...`.
    """

    def __init__(self, *, user: str | None = None, password: str | None = None) -> None:
        self._secrets: dict[str, _Secret] = {}
        self._longest_first: list[_Secret] = []
        if password is not None and password not in PUBLIC:
            self.add(password)
            if len(password) >= LEAST_CHARACTERS:
                self.add(_base64(f"{user or ''}:{password}"))

    def add(self, secret: str) -> None:
        """Mask this secret too; one that is too short is ignored."""
        if len(secret) < LEAST_CHARACTERS or secret in self._secrets:
            return
        self._secrets[secret] = _Secret(secret)
        if len(self._secrets) > KEPT_MOST:
            del self._secrets[next(iter(self._secrets))]
        self._longest_first = [self._secrets[each] for each in sorted(self._secrets, key=len, reverse=True)]

    def text(self, text: str) -> str:
        """The text with three stars for each secret."""
        for secret in self._longest_first:
            text = secret.hidden_in(text)
        return text

    def json(self, value: Json) -> Json:
        """The value with all its texts masked; keys are not secret."""
        match value:
            case str():
                return self.text(value)
            case list() | tuple():
                return [self.json(each) for each in value]
            case dict():
                return {key: self.json(each) for key, each in value.items()}
            case _:
                return value

    def error(self, error: BaseException) -> None:
        """Mask the text of an exception, and of its causes, in place."""
        seen: set[int] = set()
        waiting: list[BaseException | None] = [error]
        while waiting:
            each = waiting.pop()
            if each is None or id(each) in seen:
                continue
            seen.add(id(each))
            each.args = tuple(self.text(part) if isinstance(part, str) else part for part in each.args)
            if isinstance(each, DeviceError):
                each.code, each.text = self.text(each.code), self.text(each.text)
            waiting += [each.__cause__, each.__context__]

    def sink(self, sink: Sink) -> Sink:
        """A sink that masks documents and passes them to `sink`."""

        def masked(document: Document) -> None:
            fact = from_plain(self.json(document.fact.to_data()), type(document.fact))
            sink(replace(document, fact=fact))

        return masked


class _Secret:
    """One secret in all its forms. The search is linear in the length of the text."""

    def __init__(self, secret: str) -> None:
        begun = secret[:LOOKED_FOR_MOST]
        self._rest = r"\S*" if len(begun) < len(secret) else ""
        self._forms = _forms(begun)
        self._lower = [form.translate(_LOWER) for form in self._forms]
        self._begins = {form[:LEAST_CHARACTERS] for form in self._lower}
        self._pattern: re.Pattern[str] | None = None

    def hidden_in(self, text: str) -> str:
        """The text with stars for the secret."""
        lower = text.translate(_LOWER)
        if all(begin.isascii() and begin not in lower for begin in self._begins):
            return text
        if self._pattern is None:
            patterns = [_pattern(form) for form in sorted(self._forms, key=len, reverse=True)]
            self._pattern = re.compile(f"(?:{'|'.join(patterns)}){self._rest}", re.IGNORECASE)
        return self._pattern.sub(STARS, self._uncut(text, lower))

    def _uncut(self, text: str, lower: str) -> str:
        """The text with stars also for a beginning of the secret that is cut off by `...`."""
        parts: list[str] = []
        done = since = 0
        for dots in _DOTS.finditer(lower):
            found = [self._begun(form, lower, since, dots.start()) for form in self._lower]
            if starts := [start for start in found if start is not None]:
                parts += [text[done : min(starts)], STARS]
                done = dots.start()
            since = dots.end()
        return "".join([*parts, text[done:]])

    @staticmethod
    def _begun(form: str, lower: str, since: int, until: int) -> int | None:
        """The place before `until` where this form begins and is cut off; None where there is none."""
        if len(form) < WHOLE_WORD_CHARACTERS:
            return None
        begin, start = form[:LEAST_CHARACTERS], max(since, until - len(form)) - 1
        while (start := lower.find(begin, start + 1, until)) >= 0:
            if form.startswith(lower[start:until]):
                return start
        return None


def _forms(secret: str) -> list[str]:
    """The secret as devices and our own messages write it."""
    backslashed = secret.replace("\\", "\\\\").replace('"', '\\"')
    texts = [
        secret,
        backslashed,  # TL1
        secret.replace('"', '""'),  # SCPI
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        repr(secret.encode())[2:-1],
        repr(backslashed)[1:-1],
        html.escape(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        _base64(secret),
    ]
    return list(dict.fromkeys(texts))


def _pattern(form: str) -> str:
    whole = re.escape(form)
    return whole if len(form) >= WHOLE_WORD_CHARACTERS else rf"(?<![A-Za-z0-9]){whole}(?![A-Za-z0-9])"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
