"""`hwd twin serve`: one twin device alone on a port, for a look at it with a driver, a terminal or somebody else's client."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import yaml

from hwd_drivers.kit import registry
from hwd_drivers.kit.clock import SystemClock
from hwd_drivers.kit.dial import TcpDialer
from hwd_drivers.kit.documents import Json
from hwd_drivers.kit.errors import ConfigError
from hwd_drivers.kit.ids import Draws
from hwd_drivers.kit.timing import SwitchTiming, find_timing
from hwd_drivers.kit.values import Capabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleTwin:
    """What is simulated, and where it listens."""

    model: str
    spec: registry.DriverSpec
    capabilities: Capabilities
    timing: SwitchTiming
    seed: int
    listen: str
    options: Mapping[str, Json]

    @classmethod
    def parse(cls, model: str, *, listen: str, settings: Sequence[str]) -> Self:
        """`settings` are `key=value`: size, timing, seed, and the rest options of the twin. Raises ConfigError."""
        values = dict(_setting(text) for text in settings)
        size, timing, seed = values.pop("size", None), values.pop("timing", "ideal"), values.pop("seed", 0)
        if not isinstance(seed, int):
            raise ConfigError(f"--set seed={seed}: not a whole number")
        spec = _spec_of(model)
        return cls(
            model=model,
            spec=spec,
            capabilities=spec.capabilities(model, None if size is None else str(size)),
            timing=find_timing(str(timing)),
            seed=seed,
            listen=listen,
            options=values,
        )


async def serve_single(twin: SingleTwin, say: Callable[[str], None]) -> None:
    """Until cancelled; `say` is told the address when it listens."""
    device = twin.spec.twin(
        name=twin.model,
        capabilities=twin.capabilities,
        timing=twin.timing,
        draws=Draws(twin.seed),
        clock=SystemClock(),
        dialer=TcpDialer(),
        address=twin.listen,
        options=twin.options,
    )
    try:
        address = await device.start()
    except (OSError, ValueError) as error:
        raise ConfigError(f"--listen {twin.listen}: cannot listen: {error}") from error
    try:
        say(address)
        await asyncio.Event().wait()
    finally:
        await device.close()


def _setting(text: str) -> tuple[str, Json]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise ConfigError(f"--set {text}: write it as --set key=value")
    try:
        read = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {text}: cannot read the value: {error}") from error
    return key, read


def _spec_of(model: str) -> registry.DriverSpec:
    specs = [registry.find(name) for name in registry.names()]
    for spec in specs:
        if model in spec.models:
            return spec
    known = ", ".join(sorted(name for spec in specs for name in spec.models))
    raise ConfigError(f"model {model!r}: no driver knows it; they know {known}")
