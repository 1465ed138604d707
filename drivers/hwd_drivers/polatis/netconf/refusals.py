"""What a Polatis unit answers by an rpc-error."""

from collections.abc import Mapping
from typing import Final

from hwd_drivers.polatis.netconf.messages import RpcError
from hwd_drivers.polatis.numbering import UnitError, Wrong

TAGS: Final[Mapping[Wrong, str]] = {
    Wrong.PORT: "invalid-value",
    Wrong.SIDE: "invalid-value",
    Wrong.LIST: "invalid-value",
    Wrong.IN_USE: "data-exists",
    Wrong.HARDWARE: "operation-not-supported",
    Wrong.VALUE: "invalid-value",
    Wrong.STATE: "operation-failed",
    Wrong.TOLD: "operation-failed",
}
"""RFC 6241's words for what the unit has against a wish; which ones real units use, no source tells."""


class RefusedRpc(Exception):
    """An operation that is answered by an rpc-error."""

    def __init__(self, error: RpcError) -> None:
        super().__init__(str(error))
        self.error = error


def refuse(tag: str, message: str = "", *, type: str = "application", path: str = "", **info: str) -> RefusedRpc:
    """`info` by names with `_` for `-`."""
    words = {key.replace("_", "-"): value for key, value in info.items()}
    return RefusedRpc(RpcError(tag=tag, message=message, type=type, path=path, info=words))


def refusal_of(error: UnitError) -> RefusedRpc:
    return refuse(error.code or TAGS[error.wrong], error.text or str(error))
