"""Carriers that come and go: how often each has changed lately, by the kernel's count."""

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import UNSET, UnsetType

from hwd.model.status import Alert
from hwd.telemetry.alert_rules import RULES, alert_of
from hwd.telemetry.past_events import Key, Times

NAME: Final = "CarrierFlaps"
MORE_THAN: Final = int(RULES[NAME].limit)
WITHIN_NS: Final = round((RULES[NAME].within_s or 0.0) * 1e9)


class CarrierFlaps:
    """The last changes of each carrier."""

    def __init__(self) -> None:
        self._changes: dict[str, dict[str, int]] = {}
        """By host and port: how many changes the kernel has counted."""
        self._times: dict[Key, deque[Times]] = {}
        self._since_wall_ns: dict[Key, int] = {}
        """When there were too many."""

    def keep(self, host: str, ports: Collection[str]) -> None:
        """Forget the other ports of a host."""
        for name in [name for name in self._changes.get(host, {}) if name not in ports]:
            del self._changes[host][name]
            self._times.pop((host, name), None)

    def count(self, host: str, name: str, changes: int | UnsetType | None, at: Times) -> None:
        """Take the kernel's count of carrier changes; where it begins anew nothing is known of the time before."""
        if changes is UNSET or changes is None:
            return
        counts = self._changes.setdefault(host, {})
        more, counts[name] = changes - counts.get(name, changes), changes
        if more > 0:
            last = self._times.setdefault((host, name), deque(maxlen=MORE_THAN + 1))
            if not _are_too_many(last, at[0]):
                self._since_wall_ns.pop((host, name), None)
            last.extend([at] * min(more, MORE_THAN + 1))
            if _are_too_many(last, at[0]):
                self._since_wall_ns.setdefault((host, name), at[1])

    def in_force(self, now_ns: int) -> list[Alert]:
        words = f"its carrier changed more than {MORE_THAN} times in {WITHIN_NS / 60e9:.0f} minutes"
        return [
            alert_of(
                (NAME, f"{host}.{name}"),
                words,
                since_wall_ns=self._since_wall_ns[host, name],
                last_wall_ns=times[-1][1],
            )
            for (host, name), times in self._times.items()
            if _are_too_many(times, now_ns)
        ]


def _are_too_many(times: Sequence[Times], now_ns: int) -> bool:
    return len(times) > MORE_THAN and now_ns - times[0][0] <= WITHIN_NS
