"""RemoteHost: one host over SSH, and the calls of `hwd.rollout.onhost` there."""

import asyncio
import json
import shlex
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from hwd.model.testbed import Host
from hwd.rollout.host_program import make_program
from hwd.rollout.host_report import Progress
from hwd.rollout.layout import Layout
from hwd.rollout.ssh.program import Ran
from hwd.rollout.ssh.session import Ssh
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError, FailedError, HwdError, ProtocolError, RefusedError
from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.core.user import user_name

T = TypeVar("T")

Say = Callable[[str], None]
PYTHON_LEAST: Final = (3, 11)
PYTHONS: Final = ("python3", "python3.14", "python3.13", "python3.12", "python3.11")
LOOK_S: Final = 120.0
"""Takes a second; over a minute was measured on a host with one busy processor."""
WORK_S: Final = 1200.0
"""An environment takes ten seconds on a present host, minutes on a slow one."""
FIND: Final = "; ".join(
    [
        f"for p in {' '.join(PYTHONS)}",
        "do v=$($p -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null) && echo \"$p $v\"",
        "done",
        "echo uid $(id -u)",
    ]
)
"""POSIX sh: every host has it."""


class RemoteHost:
    """Open it with `RemoteHost.open`, as a context. Every call runs in a thread of its own; cancelling one
    ends the connection.
    """

    def __init__(self, host: Host, ssh: Ssh, layout: Layout, offload: ThreadOffload, say: Say) -> None:
        self.name = host.name
        self.say = say
        """Reports progress with this host."""
        self._ssh = ssh
        self._layout = layout
        self._offload = offload
        self._python = ""
        self._sudo = ""
        self._user = 0

    @classmethod
    @asynccontextmanager
    async def open(
        cls, host: Host, layout: Layout, progress: Progress, *, home: Path | None = None
    ) -> AsyncGenerator[Self]:
        """Logged in as root, with a Python that is new enough. Raises as `Ssh.open`, RefusedError without rights,
        ConfigError without Python.
        """
        say = partial(progress, host.name)
        say(f"connecting to {host.ssh}" if host.ssh else "looking up how to reach it")
        if host.ssh is None:
            raise ConfigError(
                f"{host.name}: the testbed file does not say how to reach it: give it ssh: root@ADDRESS"
                if host.twin is None
                else f"{host.name}: is a twin of this machine: its agent comes with the rack"
            )
        offload = ThreadOffload(1)
        ssh: Ssh | None = None
        try:
            ssh = await offload(partial(Ssh.open, host.name, host.ssh, SystemClock(), home=home))
            remote = cls(host, ssh, layout, offload, say)
            await remote._find_python()
            yield remote
        finally:
            if ssh is not None:
                ssh.close()
            offload.close()

    @property
    def local_address(self) -> str | None:
        """The address of this machine as the host sees it; None behind a jump host."""
        return self._ssh.local_address

    @asynccontextmanager
    async def exclude_others(self) -> AsyncGenerator[None]:
        """Exclude other roll-outs to the host. Raises RefusedError that names the other one; where the connection
        breaks the host is released.
        """
        who = f"{user_name()}@{socket.gethostname()}"
        start = partial(self._ssh.start, self._command("hold", who=who), within_s=LOOK_S, stdin=make_program())
        line, end = await self._call(start)
        try:
            try:
                said = json.loads(line or "null")
            except ValueError:
                said = None
            match said:
                case {"held": True}:
                    yield
                case {"busy": str() as other}:
                    raise RefusedError(
                        f"{self.name}: another roll-out to it is in progress: {other}. Try again when that is done"
                    )
                case {"failed": str() as failed}:
                    raise FailedError(f"{self.name}: {failed}")
                case _:
                    raise ProtocolError(f"{self.name}: hold: said {line or 'nothing'}")
        finally:
            await self._call(end)

    async def look(self) -> dict[str, Any]:
        """The result of `hwd.rollout.onhost.facts.look`."""
        return await self.do("look", within_s=LOOK_S)

    async def reach(self, host: str, port: int) -> str:
        """Why the host cannot reach this TCP port; empty where it can."""
        return str((await self.do("reach", host=host, port=port, within_s=LOOK_S))["why"])

    async def do(self, verb: str, *, within_s: float = WORK_S, **arguments: Any) -> dict[str, Any]:
        """Run a verb of `hwd.rollout.onhost.program`. Raises FailedError with its message."""
        command = self._command(verb, **arguments)
        last: dict[str, Any] = {}

        def take(line: str) -> None:
            nonlocal last
            try:
                found = json.loads(line)
            except ValueError:
                found = None
            last = found if isinstance(found, dict) else {}
            if "step" in last:
                self.say(str(last["step"]))

        run = partial(self._ssh.run, command, within_s=within_s, stdin=make_program(), on_line=take)
        ended = await self._call(run)
        match last:
            case {"done": dict() as done}:
                return done
            case {"failed": str() as failed}:
                raise FailedError(f"{self.name}: {failed}")
            case _:
                words = (ended.err or ended.out)[-500:] or "nothing"
                raise ProtocolError(f"{self.name}: {verb}: ended with {ended.status} and said {words}")

    def _command(self, verb: str, **arguments: Any) -> str:
        words = json.dumps({"layout": asdict(self._layout), **arguments})
        return f"{self._sudo}{self._python} -I -B - {verb} {shlex.quote(words)}"

    @asynccontextmanager
    async def staging(self, contents: Mapping[str, bytes | Path]) -> AsyncGenerator[str]:
        """A new folder on the host with these files, removed afterwards."""
        folder = str((await self.do("stage", user=self._user, within_s=LOOK_S))["folder"])
        total = sum(len(one) if isinstance(one, bytes) else one.stat().st_size for one in contents.values())
        over = 0
        tenths = 0

        def count(more: int) -> None:
            nonlocal over, tenths
            over += more
            if over * 5 // max(1, total) > tenths:
                tenths = over * 5 // total
                self.say(f"copied {over / 1e6:.1f} of {total / 1e6:.1f} MB")

        try:
            await self._call(partial(self._ssh.put, folder, contents, on_bytes=count))
            yield folder
        finally:
            try:
                await self.do("unstage", staging=folder, within_s=LOOK_S)
            except HwdError as error:
                self.say(f"{folder} stays there until the next roll-out: {error}")

    async def _find_python(self) -> None:
        done = await self._run(FIND)
        if done.status:
            raise FailedError(f"{self.name}: {FIND}: {done.err or f'it ended with {done.status}'}")
        found = dict(line.split(" ", 1) for line in done.out.splitlines() if " " in line)
        user = found.pop("uid", "")
        if not user.isdecimal():
            raise ProtocolError(f"{self.name}: id -u: said {user or 'nothing'}")
        self._user = int(user)
        versions = {name: tuple(int(part) for part in text.split()) for name, text in found.items()}
        fit = [name for name, version in versions.items() if version >= PYTHON_LEAST]
        least = ".".join(str(part) for part in PYTHON_LEAST)
        if not fit:
            has = ", ".join(f"{name} is {'.'.join(map(str, version))}" for name, version in versions.items())
            raise ConfigError(
                f"{self.name}: {f'its Python is too old ({has})' if has else 'it has no python3'}; "
                f"the agent needs at least {least}. "
                "Install one there, such as Debian 12's or Ubuntu 24.04's python3, or on RHEL 9: "
                "dnf install python3.11"
            )
        self._python = fit[0]
        if user != "0" and self._layout.needs_root:
            done = await self._run("sudo -n true")
            if done.status:
                raise RefusedError(
                    f"{self.name}: the user with id {user} is not root, "
                    f"and sudo requires a password ({done.err or done.status}). "
                    f"Log in as root, or add a line to /etc/sudoers.d: USER ALL=(root) NOPASSWD: ALL"
                )
            self._sudo = "sudo -n "

    async def _call(self, work: Callable[[], T]) -> T:
        """Run it in the thread of this host. A thread cannot be stopped: when its caller is cancelled, the connection
        is closed.
        """
        try:
            return await self._offload(work)
        except asyncio.CancelledError:
            self._ssh.close()
            raise

    async def _run(self, command: str) -> Ran:
        return await self._call(partial(self._ssh.run, command, within_s=LOOK_S))
