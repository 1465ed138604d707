"""Topologies that are installed: those of hwd and of other packages, by the entry points of `hwd.topologies`."""

import logging
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from hwd.config.yaml.file_problem import nearest
from hwd.topology.kind import GROUP, TopologyKind
from hwd_drivers.core.errors import ConfigError

log = logging.getLogger(__name__)


def names() -> tuple[str, ...]:
    """Sorted; also those that cannot be loaded."""
    return tuple(_points())


@cache
def find(name: str) -> TopologyKind:
    """Raises ConfigError where there is none, and where its package cannot be loaded."""
    point = _points().get(name)
    if point is None:
        raise ConfigError(f"topology {name!r}: unknown; {nearest(name, _points())}")
    package = point.dist.name if point.dist is not None else "its package"
    about = f"topology {name!r}: entry point {point.value} of {package}"
    try:
        found = point.load()
    except Exception as error:
        raise ConfigError(f"{about} cannot be loaded: {error!r}. Mend {package}, or remove it") from error
    if not isinstance(found, TopologyKind):
        raise ConfigError(f"{about} is no TopologyKind. Mend {package}, or remove it")
    return found


@cache
def _points() -> Mapping[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        if (other := found.get(point.name)) is not None and other.value != point.value:
            log.warning("topology %s: declared by %s and by %s; the first one is taken", point.name, other, point)
        found.setdefault(point.name, point)
    return found
