"""An answer for Prometheus, in the text format or in OpenMetrics, rendered in parts between turns of the event loop."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.registry import Collector

from hwd.telemetry.series import PART_SERIES

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OPENMETRICS_VERSIONS: Final = ("", "0.0.1", "1.0.0")
"""Versions that an answer in 1.0.0 serves."""
_END: Final = b"# EOF\n"
"""The end of an answer in OpenMetrics."""


class Exposition:
    """An answer with the values of the moment when this object is made. `bytes` and iteration render it, once only.

    ```
    exposition = metrics.render(accept)
    async for part in exposition: ...     # or bytes(exposition)
    ```
    `registry` collects all values when its first family is requested. Several consecutive families may have one name:
    they are parts of one family, and the answer has their HELP and TYPE once.

    Answers that share a `lock` render their parts in turn, so that many clients at once block the loop no longer than
    one.
    """

    def __init__(self, registry: Collector, *, openmetrics: bool, lock: asyncio.Lock | None = None) -> None:
        self.content_type = OPENMETRICS if openmetrics else TEXT
        self._lock = lock or asyncio.Lock()
        self._openmetrics = openmetrics
        families = iter(registry.collect())
        self._parts = self._render(chain(list(islice(families, 1)), families))

    def __bytes__(self) -> bytes:
        return b"".join(self._parts)

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Other tasks run before each part. (No async generator: a client that disconnects leaves nothing to close.)"""
        return self

    async def __anext__(self) -> bytes:
        async with self._lock:
            await asyncio.sleep(0)
            for part in self._parts:
                return part
        raise StopAsyncIteration

    def _render(self, families: Iterable[Metric]) -> Iterator[bytes]:
        last_name = ""
        for part in _parts(families):
            text = self._generate(part).removesuffix(_END)
            if part.families[0].name == last_name:
                text = _without_header(text)
            yield text
            last_name = part.families[-1].name
        if self._openmetrics:
            yield _END

    def _generate(self, part: "_Part") -> bytes:
        if self._openmetrics:
            text: bytes = openmetrics_exposition.generate_latest(part)  # type: ignore[no-untyped-call]
            return text
        return generate_latest(part)


@dataclass(frozen=True, slots=True)
class _Part:
    """Families with at most PART_SERIES samples together, as a collector: prometheus_client renders them in one go."""

    families: list[Metric]

    def collect(self) -> list[Metric]:
        return self.families


def _parts(families: Iterable[Metric]) -> Iterator[_Part]:
    part, size = list[Metric](), 0
    for family in families:
        if part and (size + len(family.samples) > PART_SERIES or family.name == part[-1].name):
            yield _Part(part)
            part, size = [], 0
        part.append(family)
        size += len(family.samples)
    if part:
        yield _Part(part)


def _without_header(text: bytes) -> bytes:
    """No line of a sample begins with `#`."""
    while text.startswith(b"#"):
        _, _, text = text.partition(b"\n")
    return text


def wants_openmetrics(accept: str) -> bool:
    """Whether an `Accept` header names OpenMetrics, in a version that we render, with at least the quality of text."""
    openmetrics = text = 0.0
    for one in accept.split(","):
        media, *rest = (part.strip() for part in one.split(";"))
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        quality = _quality(parameters.get("q", "1"))
        if media == "application/openmetrics-text" and parameters.get("version", "") in OPENMETRICS_VERSIONS:
            openmetrics = max(openmetrics, quality)
        elif media == "text/plain":
            text = max(text, quality)
    return openmetrics > 0 and openmetrics >= text


def _quality(text: str) -> float:
    """0 where it is no number."""
    try:
        return float(text)
    except ValueError:
        return 0.0
