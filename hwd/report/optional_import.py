"""Optional libraries, imported when an output needs them."""

import importlib
from typing import Any

from hwd_drivers.core.errors import ConfigError


def import_optional(module: str, what: str) -> Any:
    """The module; raises ConfigError that says how to install it where it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{what}: {module.partition('.')[0]} cannot be imported ({error}). "
            "Install it with: pip install '.[export]' in the folder of hwd"
        ) from error
