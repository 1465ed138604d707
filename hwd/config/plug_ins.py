"""Plug-ins that are installed: those of hwd and of other packages, by the entry points of a group."""

import logging
from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from hwd.config.yaml.file_problem import nearest
from hwd_drivers.core.errors import ConfigError

T = TypeVar("T")

log = logging.getLogger(__name__)


class PlugIns(Generic[T]):
    """The plug-ins of one entry point group, each a `kind`; `noun` names one in messages."""

    def __init__(self, group: str, kind: type[T], noun: str) -> None:
        self._group = group
        self._kind = kind
        self._noun = noun
        self._found: dict[str, T] = {}

    def names(self) -> tuple[str, ...]:
        """Sorted; also those that cannot be loaded."""
        return tuple(self._points)

    def find(self, name: str) -> T:
        """Raises ConfigError where there is none, and where its package cannot be loaded."""
        if name not in self._found:
            self._found[name] = self._load(name)
        return self._found[name]

    def distribution(self, name: str) -> str:
        """The name of the package that declares it now, which is not loaded. Raises ConfigError where there is none."""
        dist = self._named(name, self._scanned()).dist
        return "" if dist is None else dist.name

    def _named(self, name: str, points: Mapping[str, EntryPoint]) -> EntryPoint:
        if (point := points.get(name)) is None:
            raise ConfigError(f"{self._noun} {name!r}: unknown; {nearest(name, points)}")
        return point

    def _load(self, name: str) -> T:
        point = self._named(name, self._points)
        package = point.dist.name if point.dist is not None else "its package"
        about = f"{self._noun} {name!r}: entry point {point.value} of {package}"
        try:
            found = point.load()
        except Exception as error:
            raise ConfigError(f"{about} cannot be loaded: {error!r}. Mend {package}, or remove it") from error
        if not isinstance(found, self._kind):
            raise ConfigError(f"{about} is no {self._kind.__name__}. Mend {package}, or remove it")
        return found

    @cached_property
    def _points(self) -> Mapping[str, EntryPoint]:
        return self._scanned()

    def _scanned(self) -> Mapping[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        for point in sorted(entry_points(group=self._group), key=lambda one: one.name):
            if (other := found.get(point.name)) is not None and other.value != point.value:
                log.warning(
                    "%s %s: declared by %s and by %s; the first one is taken", self._noun, point.name, other, point
                )
            found.setdefault(point.name, point)
        return found
