"""Verbs: pyverbs, the Python side of rdma-core. Only this module imports it, and only when a port is opened."""

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any, Final

from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.reason import reason_of

REMEDY = (
    "Install python3-pyverbs, which belongs to rdma-core; an agent in a virtual environment sees it if that was "
    "made with --system-site-packages"
)

GIVE_BACK_OF_REMOVED: Final = ("RDMAV_ALLOW_DISASSOC_DESTROY", "1")
"""libibverbs reads it at its start (ibv_open_device(3)): with it the files of a removed device can be closed."""


class Verbs:
    """The classes of pyverbs that are used here. Documentation: rdma-core, Documentation/pyverbs.md."""

    def __init__(self) -> None:
        """Raises LinkError with the remedy when pyverbs is not installed."""
        os.environ.setdefault(*GIVE_BACK_OF_REMOVED)
        try:
            modules = {
                name: importlib.import_module(f"pyverbs.{name}")
                for name in ("addr", "cq", "device", "enums", "mr", "pd", "pyverbs_error", "qp", "wr")
            }
        except ImportError as error:
            raise LinkError(f"pyverbs cannot be loaded ({error}). {REMEDY}") from error
        self.addr: Any = modules["addr"]
        self.cq: Any = modules["cq"]
        self.device: Any = modules["device"]
        self.enums: Any = modules["enums"]
        self.mr: Any = modules["mr"]
        self.pd: Any = modules["pd"]
        self.qp: Any = modules["qp"]
        self.wr: Any = modules["wr"]
        self._error: type[Exception] = modules["pyverbs_error"].PyverbsError

    @contextlib.contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Turn an error of pyverbs into a LinkError that names the attempt."""
        try:
            yield
        except (self._error, OSError) as error:
            raise LinkError(f"cannot {what}: {reason_of(error).strip()}") from error
