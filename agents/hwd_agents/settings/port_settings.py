"""Settings: the settings of this host's ports that runs change, and how they are put back."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from hwd_agents.process.config import PortConfig
from hwd_agents.settings.setting_journal import JournalSetting, SettingJournal
from hwd_agents.sources.kernel.broker_route import BrokerWay
from hwd_agents.sources.setting_source import (
    SETTINGS_OF_FIRMWARE,
    Setting,
    SettingSource,
    holds,
    parse_setting,
    restored,
    subject,
)
from hwd_agents.sources.setting_values import parse_value
from hwd_agents.wire import HeldSetting
from hwd_agents.wire.bounds import SettingState
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.disk import Disk
from hwd_drivers.core.errors import FailedError, HwdError, RefusedError
from hwd_drivers.core.reason import reason_of

HOLD_MOST_S: Final = 7 * 86400.0
"""Longest hold: a daemon renews it well before."""
REMEMBERED: Final = 64
"""Runs whose settings were put back before the daemon was informed; their events report it, too."""
_log = logging.getLogger(__name__)


def _always() -> None:
    """Ignore the expiry, where there is none."""


class Settings:
    """One change at a time. The earlier state is durable before any change, and is deleted only when it is restored.

    settings = Settings(config.ports, source, disk, clock=clock, life=sources.life, on_change=publish)
    await settings.set("k3v9", "eth0", "mtu", 4200, for_s=300.0)
    await settings.hold("k3v9", 300.0)      # from now on
    await settings.put_back("k3v9")         # by this process or a later one
    await settings.put_back_due()           # what nobody holds any more; `setting_limits` calls it

    `life` identifies one run of the host's kernel (its boot). `way` refuses changes that would cut the agent off.
    """

    def __init__(
        self,
        ports: Mapping[str, PortConfig],
        source: SettingSource | None,
        disk: Disk,
        *,
        clock: Clock,
        life: Callable[[], str],
        on_change: Callable[[], None],
        way: BrokerWay | None = None,
    ) -> None:
        self._ports = ports
        self._source = source
        self._journal = SettingJournal(disk)
        self._clock = clock
        self._life = life
        self._on_change = on_change
        self._way = way
        self.on_limit: Callable[[], None] = _always
        """Called when `next_due_ns` may have changed."""
        self._one_at_a_time = asyncio.Lock()
        self._alone: dict[str, list[dict[str, Any]]] = {}
        """By run: settings that were put back without a request. The next answer about that run reports them."""

    @property
    def held(self) -> tuple[HeldSetting, ...]:
        """The settings that are still changed, in the order of their changes."""
        return tuple(entry.held_setting for entry in self._journal.held)

    @property
    def next_due_ns(self) -> int | None:
        """When the next of them is put back unless it is held again; None: never."""
        return min((entry.until_ns for entry in self._journal.held if entry.until_ns is not None), default=None)

    async def set(
        self,
        run: str,
        port: str,
        setting_name: str,
        data: object,
        *,
        for_s: float | None = None,
        in_time: Callable[[], None] = _always,
    ) -> dict[str, Any]:
        """Change a setting for `run`; returns {before, after}, two states.

        With `for_s`, all settings of this run are held for so long from now on, and are put back then. `in_time` is
        called right before the change: it raises when that is too late, and nothing is changed.

        Raises RefusedError when `data` is an invalid value or another run has changed the same, HwdError when it
        failed.
        """
        setting = parse_setting(setting_name)
        value = parse_value(setting, data)
        source = self._get_source(setting)
        _check_hold(for_s)
        interface = self._ports[port].interface
        async with self._one_at_a_time:
            held = self._find(port, setting, value)
            if held is not None and held.run != run:
                raise RefusedError(f"{port}: {setting} is set for run {held.run}. Put that back first")
            before = await source.read(interface, setting, value)
            if self._way is not None:
                await self._way.check(interface, setting, value)
            in_time()
            until_ns = None if for_s is None else self._clock.monotonic_ns() + round(for_s * 1e9)
            if held is None:
                held = JournalSetting(
                    run=run,
                    port=port,
                    setting=setting,
                    value=cast(SettingState, value),
                    before=cast(SettingState, before),
                    until_ns=until_ns,
                    life=self._life(),
                )
                self._keep(held)
            if until_ns is not None:
                renewed = self._renew(run, until_ns)
                held = renewed[[one.held_setting for one in renewed].index(held.held_setting)]
            try:
                await source.write(interface, setting, value)
                after = await source.read(interface, setting, value)
                if not holds(setting, value, after):
                    raise FailedError(f"{port}: {setting} was set to {value}, and is read back as {after}")
            except (HwdError, OSError):
                await self._drop_unless_changed(source, interface, held)
                raise
            self._on_change()
            _log.info("%s: %s set to %s for run %s; it was %s", port, setting, value, run, before)
            return {"before": before, "after": after}

    async def put_back(self, run: str, *, in_time: Callable[[], None] = _always) -> dict[str, Any]:
        """Put back, last change first; returns {back: restored settings, left: the others, each with why}.

        Another call tries those that are left. `in_time` is called before each as in `set`. If it raises before any
        change, this raises; later its error is the `why` of those that are left.
        """
        async with self._one_at_a_time:
            in_time()
            report = await self._put_back(run, in_time)
            return {"back": [*self._alone.pop(run, []), *report["back"]], "left": report["left"]}

    async def hold(self, run: str, for_s: float) -> dict[str, Any]:
        """Hold all settings of `run` for so long from now on.

        Returns {held: their number, back: those that were put back before, when nobody held them}.
        """
        _check_hold(for_s)
        async with self._one_at_a_time:
            renewed = self._renew(run, self._clock.monotonic_ns() + round(for_s * 1e9))
            return {"held": len(renewed), "back": self._alone.pop(run, [])}

    async def put_back_due(self) -> dict[str, dict[str, Any]]:
        """Put back the settings that nobody holds any more; returns the results by run, as `put_back` does.

        Settings of an earlier boot of the kernel are forgotten.
        """
        async with self._one_at_a_time:
            now_ns, life, reports = self._clock.monotonic_ns(), self._life(), {}
            self._forget_of_another_life(life)
            due = [
                entry.run
                for entry in self._journal.held
                if (entry.until_ns is not None and entry.until_ns <= now_ns) or _is_of_another(entry, life)
            ]
            for run in dict.fromkeys(due):
                _log.warning("the settings of run %s are put back: nobody held them any more", run)
                reports[run] = await self._put_back(run, _always)
                self._alone.setdefault(run, []).extend(reports[run]["back"])
                if len(self._alone) > REMEMBERED:
                    del self._alone[next(iter(self._alone))]
            return reports

    async def _put_back(self, run: str, in_time: Callable[[], None]) -> dict[str, Any]:
        back: list[JournalSetting] = []
        left: list[dict[str, Any]] = []
        for held in reversed([held for held in self._journal.held if held.run == run]):
            try:
                await self._restore(held, in_time)
            except (HwdError, OSError) as error:
                _log.warning("%s: %s is not put back: %s", held.port, held.setting, reason_of(error))
                left.append({"port": held.port, "setting": held.setting, "why": reason_of(error)})
            else:
                back.append(held)
        if back:
            self._journal.remove(back)
            self._on_change()
            words = ", ".join(f"{held.port} {held.setting}" for held in back)
            _log.info("put back what run %s had set: %s", run, words)
        restored = [{"port": held.port, "setting": held.setting, "state": held.before} for held in back]
        return {"back": restored, "left": left}

    def close(self) -> None:
        """Close the disk; changed settings stay."""
        self._journal.close()

    def _renew(self, run: str, until_ns: int) -> Sequence[JournalSetting]:
        try:
            renewed = self._journal.hold(run, until_ns)
        except OSError as error:
            raise FailedError(f"run {run}: cannot hold what it set: the disk: {error.strerror}") from error
        self.on_limit()
        return renewed

    def _forget_of_another_life(self, life: str) -> None:
        """Forget settings that ended with an earlier boot of the kernel: others have set the present values."""
        gone = [
            entry
            for entry in self._journal.held
            if _is_of_another(entry, life) and entry.setting not in SETTINGS_OF_FIRMWARE
        ]
        if gone:
            self._journal.remove(gone)
            self._on_change()
            words = ", ".join(f"{entry.port} {entry.setting} of run {entry.run}" for entry in gone)
            _log.info("the host was restarted, so these settings are gone: %s", words)

    async def _restore(self, held: JournalSetting, in_time: Callable[[], None]) -> None:
        setting = parse_setting(held.setting)
        source = self._get_source(setting)
        if (port := self._ports.get(held.port)) is None:
            raise RefusedError(f"{held.port}: no such port in the configuration any more")
        now = await source.read(port.interface, setting, held.value)
        if restored(setting, held.before, now):
            return
        in_time()
        await source.restore(port.interface, setting, held.value, held.before)
        now = await source.read(port.interface, setting, held.value)
        if not restored(setting, held.before, now):
            raise FailedError(f"{held.port}: {setting} was put back to {held.before}, and is read back as {now}")

    async def _drop_unless_changed(self, source: SettingSource, interface: str, held: JournalSetting) -> None:
        """Forget the setting after a refused change, if its state is unchanged."""
        setting = parse_setting(held.setting)
        try:
            now = await source.read(interface, setting, held.value)
        except (HwdError, OSError) as error:
            _log.debug("%s: %s cannot be read after it was refused: %s", held.port, setting, reason_of(error))
            return
        if restored(setting, held.before, now):
            self._journal.remove([held])
            self._on_change()

    def _keep(self, held: JournalSetting) -> None:
        try:
            self._journal.add(held)
        except OSError as error:
            raise FailedError(
                f"{held.port}: cannot set {held.setting}: its earlier state cannot be written: {error.strerror}"
            ) from error
        self._on_change()

    def _find(self, port: str, setting: Setting, value: Any) -> JournalSetting | None:
        about = subject(setting, value)
        for held in self._journal.held:
            same = (held.port, held.setting) == (port, setting)
            if same and subject(setting, held.value) == about:
                return held
        return None

    def _get_source(self, setting: Setting) -> SettingSource:
        if self._source is None:
            raise RefusedError(f"{setting}: this host has no way to set it")
        return self._source


def _is_of_another(entry: JournalSetting, life: str) -> bool:
    """Whether a setting was made in another boot of the kernel; False where either boot is unknown."""
    return bool(entry.life) and bool(life) and entry.life != life


def _check_hold(for_s: float | None) -> None:
    if for_s is not None and not 0 < for_s <= HOLD_MOST_S:
        raise RefusedError(f"for_s {for_s} is not above 0 and up to {HOLD_MOST_S:g} s")
