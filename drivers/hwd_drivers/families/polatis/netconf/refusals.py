"""Refusals of a Polatis unit as an rpc-error."""

from collections.abc import Mapping
from typing import Final

from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.families.polatis.netconf.messages import RpcError

TAGS: Final[Mapping[Wrong, str]] = {
    Wrong.PORT: "invalid-value",
    Wrong.SIDE: "invalid-value",
    Wrong.LIST: "invalid-value",
    Wrong.IN_USE: "data-exists",
    Wrong.HARDWARE: "operation-not-supported",
    Wrong.VALUE: "invalid-value",
    Wrong.NAME: "data-missing",
    Wrong.STATE: "operation-failed",
    Wrong.FAULT: "operation-failed",
}
"""RFC 6241's error-tags for the unit's reasons; which ones real units use is not documented."""


ERROR_TAGS: Final = frozenset(
    (
        *("in-use", "invalid-value", "too-big", "missing-attribute", "bad-attribute", "unknown-attribute"),
        *("missing-element", "bad-element", "unknown-element", "unknown-namespace", "access-denied", "lock-denied"),
        *("resource-denied", "rollback-failed", "data-exists", "data-missing", "operation-not-supported"),
        *("operation-failed", "malformed-message"),
    )
)
"""All error-tags of RFC 6241 (appendix A)."""


class RefusedRpc(Exception):
    """An operation that is refused by an rpc-error."""

    def __init__(self, error: RpcError) -> None:
        super().__init__(error)
        self.error = error


def refuse(tag: str, message: str = "", *, type: str = "application", path: str = "", **info: str) -> RefusedRpc:
    """Make a refusal; names in `info` have `_` for `-`."""
    words = {key.replace("_", "-"): value for key, value in info.items()}
    return RefusedRpc(RpcError(tag=tag, message=message, type=type, path=path, info=words))


def refusal_of(error: UnitError) -> RefusedRpc:
    """A refusal with the unit's text.

    A code that is not an error-tag, such as a TL1 code of a fault, is in the message.
    """
    if error.code in ERROR_TAGS or not error.code:
        return refuse(error.code or TAGS[error.wrong], error.text or str(error))
    return refuse(TAGS[error.wrong], f"{error.code} {error.text}".strip())
