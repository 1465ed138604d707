"""Control planes that are installed, by the entry points of `hwd.planes`."""

from collections.abc import Mapping
from typing import Final

from hwd.config.plug_ins import PlugIns
from hwd.config.yaml.file_problem import nearest
from hwd.model.plane import GROUP, Plane, PlaneKind
from hwd_drivers.core.errors import ConfigError, HwdError

OWN: Final = "hwd-daemon"
_ALL = PlugIns(GROUP, PlaneKind, "plane")
names = _ALL.names
find = _ALL.find


def is_own(name: str) -> bool:
    """Whether a plane is one of hwd itself. Raises ConfigError where it is not installed."""
    return _ALL.distribution(name) == OWN


def check_installed(name: str) -> None:
    """Raises ConfigError where a plane is not installed; its package is not loaded."""
    _ALL.distribution(name)


def make(name: str, arguments: Mapping[str, str]) -> Plane:
    """A plane for one job. Raises ConfigError for an unknown plane or argument, and where it does not take a value."""
    kind = find(name)
    for argument in arguments:
        if argument not in kind.arguments:
            raise ConfigError(
                f"plane {name}: no argument {argument!r}; {nearest(argument, kind.arguments) or 'it takes none'}"
            )
    try:
        return kind.make(arguments)
    except HwdError:
        raise
    except Exception as error:  # a plane is a guest
        words = "".join(f" {key}={value}" for key, value in arguments.items())
        raise ConfigError(f"plane {name}{words}: {error if isinstance(error, ValueError) else repr(error)}") from error
