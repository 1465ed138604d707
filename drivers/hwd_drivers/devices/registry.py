"""Registry: drivers by the names of their entry points. A package declares a driver in one line under `hwd.drivers`."""

import difflib
import functools
import importlib
import importlib.metadata
import logging
import os
import pkgutil
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.errors import BugError, ConfigError
from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.abilities import Device
from hwd_drivers.devices.masked_device import masked
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.mask import Mask
from hwd_drivers.transports.masked_dialer import MaskedDialer

OptionsT = TypeVar("OptionsT", bound=BaseModel)

log = logging.getLogger(__name__)

GROUP: Final = "hwd.drivers"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenContext:
    """The context of a driver: all that it needs to open one session. `capabilities`: of the model and size in the
    testbed file.
    """

    name: str
    address: str
    dialer: Dialer
    clock: Clock
    sink: Sink
    user: str | None
    password: str | None = field(repr=False)
    options: BaseModel
    capabilities: Capabilities

    def options_as(self, kind: type[OptionsT]) -> OptionsT:
        """The options, which are of the kind that the driver's spec names."""
        if not isinstance(self.options, kind):
            raise BugError(f"{self.name}: options are {type(self.options).__name__}, not {kind.__name__}")
        return self.options


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchSettings:
    """The settings of a switch in a testbed file, before there is a session. A twin takes any login."""

    name: str
    capabilities: Capabilities
    options: BaseModel
    user: str | None
    has_password: bool
    is_twin: bool


def check_login(settings: SwitchSettings) -> None:
    """Raises ConfigError without a user, or without a password where no option `key_file` takes its place."""
    has_key = getattr(settings.options, "key_file", None) is not None
    if settings.is_twin or (settings.user is not None and (settings.has_password or has_key)):
        return
    raise ConfigError("needs a login: write login: {user: NAME, password: {env: VARIABLE}}")


class TwinDeclaration(Protocol):
    """The part of `hwd_drivers.twins.registry.TwinSpec` that is needed to check a testbed file."""

    @property
    def options(self) -> type[BaseModel]:
        """Schema of the options of a twin."""
        ...


class Evidence(StrEnum):
    """The evidence for a device's protocol."""

    VENDOR = "vendor"
    """A manual, a model file or captures of the vendor's."""
    PUBLISHED = "published"
    """Programs that their authors used on real units."""
    THIN = "thin"
    """One source, or one that nobody has confirmed."""


class Options(BaseModel):
    """Options in a testbed file; an unknown name is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoOptions(Options):
    """There is nothing to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSpec:
    """A driver as its package declares it.

    `options`: schema of the options in the testbed file. `models`: capabilities by model name, for a size; they raise
    ConfigError for a size that the model does not have. `twin`: the place of its TwinSpec, as `package.module:NAME`, or
    of the SerialPart from which driver and twin come.
    It is imported only where a twin is needed: a daemon that drives real switches never loads the simulator.
    `default_port`: TCP port where an address names none, 0 where it must. `sizes`: a size of each model for the checks.
    `evidence`: the sources of its protocol. `threads`: it works in threads (paramiko) and is checked in real time only.
    `check`: raises ConfigError for settings with which no session can be opened. `blind`: the device cannot be asked
    for its state; a reading is what this session set last. `usual`: of several drivers that know a model, the one to
    take where nobody names one.
    """

    name: str
    open: Callable[[OpenContext], Awaitable[Device]]
    options: type[BaseModel]
    models: Mapping[str, Callable[[str | None], Capabilities]]
    twin: str
    default_port: int
    sizes: Mapping[str, str] = field(default_factory=dict)
    evidence: Evidence = Evidence.PUBLISHED
    threads: bool = False
    check: Callable[["SwitchSettings"], None] = lambda settings: None
    blind: bool = False
    usual: bool = False

    def declared_twin(self) -> TwinDeclaration:
        """Import the declaration of its twins. Raises ConfigError where there is none to import."""
        about = f"driver {self.name!r}: its twin {self.twin} "
        try:
            found = pkgutil.resolve_name(self.twin)
        except Exception as error:
            raise ConfigError(f"{about}cannot be loaded: {_in_one_line(error)}{_place(error)}") from error
        if not (isinstance(options := getattr(found, "options", None), type) and issubclass(options, BaseModel)):
            raise ConfigError(f"{about}is not a TwinSpec but {type(found).__name__}")
        declared: TwinDeclaration = found
        return declared

    @property
    def twin_options(self) -> type[BaseModel]:
        """Schema of the options of its twins. Raises ConfigError where its twin cannot be loaded."""
        return self.declared_twin().options

    def capabilities(self, model: str, size: str | None) -> Capabilities:
        """Raises ConfigError for a model or size that there is not."""
        if model not in self.models:
            raise ConfigError(f"model {model!r}: driver {self.name} does not know it.{_nearest(model, self.models)}")
        return self.models[model](size)


async def open_device(spec: DriverSpec, context: OpenContext) -> Device:
    """Open a session. No password or cookie is in its errors, logs or documents, even where the device echoes them.

    Errors as those of the driver.
    """
    mask = Mask(user=context.user, password=context.password)
    try:
        device = await spec.open(
            replace(context, dialer=MaskedDialer(context.dialer, mask), sink=mask.sink(context.sink))
        )
    except Exception as error:
        mask.error(error)
        raise
    return masked(device, mask)


def names() -> tuple[str, ...]:
    """Names of all drivers that are installed, sorted."""
    return tuple(sorted(_entry_points()))


def find(name: str) -> DriverSpec:
    """Raises ConfigError for an unknown name, with the nearest known one, and for a package that cannot be loaded."""
    return _load(name, _entry_point(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledDrivers:
    """The drivers that all packages declare. `broken`: why a driver cannot be used, with the remedy, by its name."""

    specs: Mapping[str, DriverSpec]
    broken: Mapping[str, str]


def installed() -> InstalledDrivers:
    """All drivers; those that cannot be loaded are logged with their reason, since nobody may need them here."""
    specs, broken = {}, {}
    for name, point in sorted(_entry_points().items()):
        try:
            specs[name] = _load(name, point)
        except ConfigError as error:
            broken[name] = str(error)
            log.warning("%s", error)
    return InstalledDrivers(specs=specs, broken=broken)


def distribution_of(name: str) -> str:
    """The package that brings this driver, such as `hwd-drivers`. Raises ConfigError for a name that none does."""
    return _package(_entry_point(name))


def _entry_point(name: str) -> EntryPoint:
    known = _entry_points()
    if name not in known:
        raise ConfigError(f"driver {name!r}: not installed.{_nearest(name, known)}")
    return known[name]


def _entry_points() -> dict[str, EntryPoint]:
    return _entry_points_of(tuple((folder, _changed_ns(folder)) for folder in sys.path))


@functools.lru_cache(maxsize=1)
def _entry_points_of(path: tuple[tuple[str, int | None], ...]) -> dict[str, EntryPoint]:
    """The entry points of the folders of `sys.path` as they were last changed, which installing does: each session asks
    for its driver.

    To read them takes some 5 ms, in which the event loop does nothing else.
    """
    return {point.name: point for point in entry_points(group=GROUP)}


def _changed_ns(folder: str) -> int | None:
    try:
        return os.stat(folder or os.curdir).st_mtime_ns
    except OSError:  # `sys.path` may name what is not there
        return None


def _load(name: str, point: EntryPoint) -> DriverSpec:
    """Raises ConfigError for a package that cannot be used."""
    package = _package(point) or "its package"
    about = f"driver {name!r}: entry point {point.value} of {package} "
    try:
        spec = point.load()
    except Exception as error:
        cause = f"{_in_one_line(error)}{_place(error)}"
        remedy = f"Mend {package}, install it whole, with the extras that it needs, or remove it"
        text = f"{about}cannot be loaded: {cause}. {remedy}"
        raise ConfigError(text) from error
    if not isinstance(spec, DriverSpec):
        raise ConfigError(f"{about}is not a DriverSpec but {type(spec).__name__}. Mend or remove {package}")
    if spec.name != name:
        raise ConfigError(f"{about}is named {spec.name!r} in its DriverSpec. Give both one name, or remove {package}")
    return spec


def _package(point: EntryPoint) -> str:
    return "" if point.dist is None else point.dist.name


def _in_one_line(error: Exception) -> str:
    """Type and message; a SyntaxError without its place, which `_place` returns."""
    words = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {' '.join(words.split())}"


def _place(error: Exception) -> str:
    """`, FILE:LINE` where the error was raised, or of a SyntaxError; empty where no file of a package is involved."""
    if isinstance(error, SyntaxError) and error.filename:
        return f", {error.filename}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_of_a_package(frame.filename)]
    return f", {frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _is_of_a_package(file: str) -> bool:
    """Not the import machinery, and not this file, which asks for the import."""
    return not file.startswith("<") and file not in (__file__, importlib.__file__, importlib.metadata.__file__)


def _nearest(name: str, known: Mapping[str, object]) -> str:
    if near := difflib.get_close_matches(name, list(known), n=1, cutoff=0.5):
        return f" Did you mean {near[0]}?"
    return f" There are: {', '.join(sorted(known)) or 'none'}"
