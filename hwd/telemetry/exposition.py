"""One answer for Prometheus: metrics as they were at one moment, in the text format or in OpenMetrics, in chunks between which the event loop turns."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator

from hwd.telemetry.buckets import Buckets
from hwd.telemetry.series import Series

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OPENMETRICS_VERSIONS = ("", "0.0.1", "1.0.0")
"""That we can answer with 1.0.0."""
CHUNK_CHARS = 128 * 1024
"""Sent at once: some 100 us to put into bytes and hand over."""


class Exposition:
    """All values are taken when it is made, at once; `bytes` and iteration put them into words.

    ```
    exposition = metrics.render(accept)
    async for chunk in exposition: ...     # or bytes(exposition)
    ```
    """

    def __init__(self, metrics: Iterable[Series | Buckets], *, openmetrics: bool) -> None:
        self.content_type = OPENMETRICS if openmetrics else TEXT
        self._openmetrics = openmetrics
        self._frozen = [(self._head(metric), self._freeze(metric)) for metric in metrics if len(metric)]

    def __bytes__(self) -> bytes:
        return b"".join(self)

    def __iter__(self) -> Iterator[bytes]:
        """Once only."""
        kept, chars = list[str](), 0
        for text in self._texts():
            kept.append(text)
            chars += len(text)
            if chars >= CHUNK_CHARS:
                yield "".join(kept).encode()
                kept, chars = [], 0
        yield "".join(kept).encode()

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Once only; others have their turn before each chunk. (No async generator: a reader that goes away leaves nothing to be closed.)"""
        self._chunks = iter(self)
        return self

    async def __anext__(self) -> bytes:
        await asyncio.sleep(0)
        for chunk in self._chunks:
            return chunk
        raise StopAsyncIteration

    def _texts(self) -> Iterator[str]:
        for head, slices in self._frozen:
            yield head
            yield from slices
        if self._openmetrics:
            yield "# EOF\n"

    def _head(self, metric: Series | Buckets) -> str:
        name = metric.family if self._openmetrics else metric.name
        return f"# HELP {name} {metric.help}\n# TYPE {name} {metric.type}\n"

    def _freeze(self, metric: Series | Buckets) -> Iterator[str]:
        return metric.freeze(exemplars=self._openmetrics) if isinstance(metric, Buckets) else metric.freeze()


def wants_openmetrics(accept: str) -> bool:
    """Whether an `Accept` header names OpenMetrics, in a version that we have, at least as gladly as the text format."""
    openmetrics = text = 0.0
    for one in accept.split(","):
        media, *rest = (part.strip() for part in one.split(";"))
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        gladly = _quality(parameters.get("q", "1"))
        if media == "application/openmetrics-text" and parameters.get("version", "") in OPENMETRICS_VERSIONS:
            openmetrics = max(openmetrics, gladly)
        elif media == "text/plain":
            text = max(text, gladly)
    return openmetrics > 0 and openmetrics >= text


def _quality(text: str) -> float:
    """0 where it is no number: who cannot say how gladly does not want it."""
    try:
        return float(text)
    except ValueError:
        return 0.0
