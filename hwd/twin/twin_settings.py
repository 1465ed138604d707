"""Settings of a twin that is served alone: driver and model, size, timing and seed, and the options of its
driver's twins.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import yaml
from pydantic import ValidationError

from hwd.config.yaml.file_problem import nearest
from hwd.config.yaml.tree import Node, Reading
from hwd.config.yaml.validate import validate
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices import registry
from hwd_drivers.twins.registry import twin_of
from hwd_drivers.twins.timing import SWITCH_TIMINGS, SwitchTiming, find_timing

LIGHT_DBM: Final = (-60.0, 40.0)

OWN: Final[Mapping[str, str]] = {
    "size": "how many ports, as the model writes it, such as 8x8",
    "timing": f"how long it takes: {', '.join(SWITCH_TIMINGS)}",
    "light": "dBm that come in at every end of side A, or every end of a one-sided switch; left out, it is dark",
    "seed": "of all that is drawn; the same one gives the same twin",
}
"""Settings of every twin, with their meanings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinSettings:
    """The settings of one twin. `light_dbm`: the power at each end where light may enter. `options` are checked against
    those of its driver's twins.
    """

    model: str
    spec: registry.DriverSpec
    capabilities: Capabilities
    timing: SwitchTiming
    seed: int
    light_dbm: float | None
    options: Mapping[str, Json]

    @classmethod
    def parse(cls, model: str, settings: Sequence[str], *, driver: str | None = None, port: int | None = None) -> Self:
        """`settings` are `key=value`. `port`: where it listens, which selects the driver where several know the model.
        Raises ConfigError.
        """
        spec = find_spec(model, driver=driver, port=port)
        texts = dict(map(_setting, settings))
        fields = spec.twin_options.model_fields
        for key in texts:
            if key not in OWN and key not in fields:
                raise ConfigError(
                    f"--set {key}: twins of driver {spec.name} have no such setting; {nearest(key, [*OWN, *fields])}"
                )
        seed = texts.pop("seed", "0")
        if not (seed.isascii() and seed.isdigit()):
            raise ConfigError(f"--set seed={seed}: not a whole number from 0 on")
        light_dbm = _light(texts.pop("light", None))
        timing = find_timing(texts.pop("timing", "ideal"))
        return cls(
            model=model,
            spec=spec,
            capabilities=spec.capabilities(model, texts.pop("size", None)),
            timing=timing,
            seed=int(seed),
            light_dbm=light_dbm,
            options={**twin_of(spec).alone, **_options(spec, texts)},
        )


def find_spec(model: str, *, driver: str | None = None, port: int | None = None) -> registry.DriverSpec:
    """The driver of this name, else the one whose default port this is, else the first that is made for the model.
    Raises ConfigError.
    """
    specs = [registry.find(driver)] if driver else list(registry.installed().specs.values())
    fitting = [spec for spec in specs if model in spec.models]
    if not fitting:
        known = sorted({name for spec in specs for name in spec.models})
        whose = f"driver {driver} does not know it" if driver else "no driver knows it"
        near = difflib.get_close_matches(model, known, n=1)
        raise ConfigError(
            f"model {model!r}: {whose}.{f' Did you mean {near[0]}?' if near else ''} There are: {', '.join(known)}"
        )
    by_port = [spec for spec in fitting if port and spec.default_port == port]
    usual = [spec for spec in fitting if spec.usual]
    return (by_port or usual or fitting)[0]


def describe(model: str, *, driver: str | None = None) -> tuple[registry.DriverSpec, list[tuple[str, str, str]]]:
    """The settings of twins of a model: name, default, meaning."""
    spec = find_spec(model, driver=driver)
    rows = [(name, {"timing": "ideal", "seed": "0"}.get(name, ""), meaning) for name, meaning in OWN.items()]
    for name, field in spec.twin_options.model_fields.items():
        known = twin_of(spec).alone.get(name, field.default)
        default = "" if field.is_required() or known is None else str(known)
        rows.append((name, default, field.description or ""))
    return spec, rows


def _light(text: str | None) -> float | None:
    low_dbm, high_dbm = LIGHT_DBM
    try:
        light_dbm = None if text is None else float(text)
    except ValueError:
        raise ConfigError(f"--set light={text}: not a power in dBm") from None
    if light_dbm is not None and not low_dbm <= light_dbm <= high_dbm:
        raise ConfigError(f"--set light={text}: write a power from {low_dbm:g} to {high_dbm:g} dBm")
    return light_dbm


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise ConfigError(f"--set {text}: write it as --set key=value")
    return key, value


def _options(spec: registry.DriverSpec, texts: Mapping[str, str]) -> dict[str, Json]:
    """Values as YAML has them, except where only text is valid: a password of digits."""
    values: dict[str, Any] = {key: _value(text) for key, text in texts.items()}
    for key in _wrong(spec, values):
        if key not in _wrong(spec, {**values, key: texts[key]}):
            values[key] = texts[key]
    if _wrong(spec, values):
        nodes = {key: Node(value=value, line=1) for key, value in values.items()}
        root = Node(value=nodes, line=1, key_lines=dict.fromkeys(nodes, 1))
        reading = Reading("--set", root)
        validate(spec.twin_options, root, (), reading)
        raise ConfigError("\n".join(f"--set {problem.path}: {problem.text}" for problem in reading.problems))
    return values


def _wrong(spec: registry.DriverSpec, values: Mapping[str, Any]) -> Iterable[str]:
    try:
        spec.twin_options.model_validate(dict(values))
    except ValidationError as error:
        return {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]} or set(values)
    return ()


def _value(text: str) -> Json:
    try:
        value: Json = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value
