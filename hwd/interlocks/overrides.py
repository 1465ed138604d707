"""Overrides: somebody takes the responsibility for an interlock that refuses, by its name and with a reason."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from hwd.model.interlock import Interlock, InterlockName, InterlockRules, InterlockState
from hwd_drivers.core.errors import RefusedError

WAY_BACK: Final = "it is a way back, which no interlock refuses"


def check_allowed(overrides: Iterable[InterlockName], rules: InterlockRules) -> None:
    """Raises RefusedError where the testbed does not let one of them be overridden."""
    if never := [name for name in overrides if name not in rules.overridable]:
        raise RefusedError("; ".join(f"interlock {name}: cannot be overridden: {not_allowed(name)}" for name in never))


def overridden(
    found: Iterable[Interlock], overrides: Mapping[InterlockName, str], rules: InterlockRules
) -> Iterator[Interlock]:
    """Give refusals that are overridden that state with the reason; the others say whether that is possible."""
    for one in found:
        if one.state is not InterlockState.REFUSED:
            yield one
        elif (reason := overrides.get(one.name)) is not None:
            yield replace(one, state=InterlockState.OVERRIDDEN, reason=reason)
        elif one.name in rules.overridable:
            yield replace(one, why=f"{one.why}, or override it by --override {one.name}=REASON")
        else:
            yield replace(one, why=f"{one.why}. It cannot be overridden: {not_allowed(one.name)}")


def not_allowed(name: InterlockName) -> str:
    """Why not, and what would allow it."""
    return f"the testbed file does not allow it, as `interlocks: {{{name}: {{override: allowed}}}}` would"
