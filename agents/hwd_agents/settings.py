"""Settings: what runs change of this host's ports, and how all of it gets back to what it was."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from hwd_agents.config import PortConfig
from hwd_agents.setting_journal import SettingJournal
from hwd_agents.sources.settings import Setting, SettingSource, holds, parse_setting, restored, subject
from hwd_agents.sources.values import parse_value
from hwd_agents.wire import HeldSetting
from hwd_drivers.kit.disk import Disk
from hwd_drivers.kit.errors import FailedError, HwdError, RefusedError

_log = logging.getLogger(__name__)


def _always() -> None:
    """No expiry."""


class Settings:
    """One change at a time. What was before is durable before anything is changed, and goes only when it is so again.

    settings = Settings(config.ports, source, disk, on_change=bear)
    await settings.set("k3v9", "eth0", "mtu", 4200)
    await settings.put_back("k3v9")         # by this life of the agent or a later one
    """

    def __init__(
        self,
        ports: Mapping[str, PortConfig],
        source: SettingSource | None,
        disk: Disk,
        *,
        on_change: Callable[[], None],
    ) -> None:
        self._ports = ports
        self._source = source
        self._journal = SettingJournal(disk)
        self._on_change = on_change
        self._one_at_a_time = asyncio.Lock()

    @property
    def held(self) -> tuple[HeldSetting, ...]:
        """What is still set, in the order in which it was changed."""
        return self._journal.held

    async def set(
        self, run: str, port: str, setting_name: str, data: object, *, in_time: Callable[[], None] = _always
    ) -> dict[str, Any]:
        """Change it for `run`; returns {before, after}, two states.

        Raises RefusedError where `data` is no such value, or another run has set the same, HwdError where it did not come out.

        `in_time` is asked when its turn has come, right before the change: it raises where that is too late, and nothing is changed.
        """
        setting = parse_setting(setting_name)
        value = parse_value(setting, data)
        source = self._get_source(setting)
        interface = self._ports[port].interface
        async with self._one_at_a_time:
            held = self._find(port, setting, value)
            if held is not None and held.run != run:
                raise RefusedError(f"{port}: {setting} is set for run {held.run}. Put that back first")
            before = await source.read(interface, setting, value)
            in_time()
            if held is None:
                held = HeldSetting(run=run, port=port, setting=setting, value=value, before=before)
                self._keep(held)
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
        """Last change first; returns {back: what is as it was, left: what is not, each with why}. Asked again, it tries what is left.

        `in_time` is asked before each as in `set`; it raises before anything is changed, or is the `why` of what is left.
        """
        async with self._one_at_a_time:
            in_time()
            back: list[HeldSetting] = []
            left: list[dict[str, Any]] = []
            for held in reversed([held for held in self._journal.held if held.run == run]):
                try:
                    await self._restore(held, in_time)
                except (HwdError, OSError) as error:
                    _log.warning("%s: %s is not put back: %s", held.port, held.setting, error)
                    left.append({"port": held.port, "setting": held.setting, "why": str(error)})
                else:
                    back.append(held)
            if back:
                self._journal.remove(back)
                self._on_change()
                words = ", ".join(f"{held.port} {held.setting}" for held in back)
                _log.info("put back what run %s had set: %s", run, words)
            told = [{"port": held.port, "setting": held.setting, "state": held.before} for held in back]
            return {"back": told, "left": left}

    def close(self) -> None:
        """Give up the disk; what is set stays set."""
        self._journal.close()

    async def _restore(self, held: HeldSetting, in_time: Callable[[], None]) -> None:
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

    async def _drop_unless_changed(self, source: SettingSource, interface: str, held: HeldSetting) -> None:
        """After a change that was refused: nothing is held of what is as it was."""
        setting = parse_setting(held.setting)
        try:
            now = await source.read(interface, setting, held.value)
        except (HwdError, OSError) as error:
            _log.debug("%s: %s cannot be read after it was refused: %s", held.port, setting, error)
            return
        if restored(setting, held.before, now):
            self._journal.remove([held])
            self._on_change()

    def _keep(self, held: HeldSetting) -> None:
        try:
            self._journal.add(held)
        except OSError as error:
            raise FailedError(
                f"{held.port}: cannot set {held.setting}: what it was cannot be kept on the disk: {error.strerror}"
            ) from error
        self._on_change()

    def _find(self, port: str, setting: Setting, value: Any) -> HeldSetting | None:
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
