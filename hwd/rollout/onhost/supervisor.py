"""Runs one program on a host and answers for it: output, exit status, signals, and that nothing of it is left behind.

What it is asked, as JSON: {"command": [PATH, ...], "user": "lab", "environment": {}, "within_s": 60, "silent_s": 30}

`hwd.rollout.onhost.relay` starts it. It is sent to hosts as text, so it needs the standard library alone, of Python
3.11. JSON lines out of it:

    {"started": PID} | {"failed": WHY}                   first, once
    {"out": BASE64} | {"err": BASE64}                    as it comes
    {"end": {"status": 0, "signal": "", "why": ""}}      last, when the program and all that it started have ended

Lines into it: {"signal": "INT"}, for the program and what is in its process group. Empty lines, both ways, are signs of
life; its own come `BEATS` times in `silent_s`.

It ends the program when its input ends or is silent for `silent_s`, after `within_s`, when the twin rack of its host
ends, and at SIGTERM, SIGINT or SIGHUP: SIGTERM, and SIGKILL after `GRACE_S`. What the program started is ended with it,
in process groups of its own too. Two things are left behind, and named in `why`: what has become another user and may
not be ended, and what the kernel does not end. Where the supervisor itself is killed, the kernel kills the program, and
what that started may go on.

`namespace`: a descriptor of the network that the program gets, from the keeper of a twin rack. `keeper`: one of a
connection to that keeper, which ends with the rack.
"""

import base64
import json
import os
import selectors
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from hwd.rollout.onhost.child import Child, start

GRACE_S: Final = 2.0
"""Between SIGTERM and SIGKILL, and between that and giving up."""
BEATS: Final = 4
LOOK_S: Final = 0.01
"""Between two looks at what is being killed."""
CHUNK_BYTES: Final = 32_768
PENDING_BYTES: Final = 262_144
"""While so much output waits for its reader, no more is read from the program: it waits too."""


def supervise(wanted: Mapping[str, Any]) -> None:
    """Run the program to its end, for whoever has the other ends of standard input and output."""
    try:
        child = start(wanted)
    except OSError as error:
        os.write(1, line_of({"failed": f"{wanted['command'][0]}: {error.strerror or error}"}))
        return
    os.write(1, line_of({"started": child.pid}))
    Supervisor(child, wanted).run()


class Supervisor:
    """The supervisor of one program, for one that started it, over two descriptors that `run` makes non-blocking."""

    def __init__(self, child: Child, wanted: Mapping[str, Any]) -> None:
        now_s = time.monotonic()
        within_s: float = wanted["within_s"]
        self._child = child
        self._in: int | None = 0
        self._out: int | None = 1
        self._within_s = within_s
        self._silent_s: float = wanted["silent_s"]
        self._keeper: int | None = wanted.get("keeper")
        self._over_s: float | None = now_s + within_s
        self._kill_s: float | None = None
        self._last_request_s = self._beat_s = now_s
        self._why: list[str] = []
        self._is_ending = False
        self._end_of: dict[str, Any] | None = None
        """Status and signal of the program, once it has ended or was given up."""
        self._clear_by_s: float | None = None
        """Until when what the program started is killed; None before its end, and when all is done."""
        self._left: set[int] = set()
        self._lines = b""
        self._pending = bytearray()
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Run until the program and all that it started have ended, and that was said."""
        wakeups, wakes = os.pipe()
        for descriptor in (wakeups, wakes):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wakes)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda number, frame: None)
        self._selector.register(wakeups, selectors.EVENT_READ, partial(self._take_signals, wakeups))
        if self._keeper is not None:
            self._selector.register(self._keeper, selectors.EVENT_READ, partial(self._lose_host, self._keeper))
        self._listen()
        self._selector.register(self._child.pidfd, selectors.EVENT_READ, self._reap)
        for pipe in self._child.pipes:
            self._selector.register(pipe, selectors.EVENT_READ, partial(self._read_output, pipe))
        while not self._is_done():
            for key, _ in self._selector.select(self._wait_s()):
                act: Callable[[], None] = key.data
                act()
            self._keep_time()
            self._clear()
            self._throttle()
        self._finish()

    def _listen(self) -> None:
        for descriptor in (self._in, self._out):
            assert descriptor is not None
            os.set_blocking(descriptor, False)
        assert self._in is not None
        self._selector.register(self._in, selectors.EVENT_READ, self._read_requests)

    def _has_ended(self) -> bool:
        """The program and all that it started; its output is read."""
        return self._end_of is not None and self._clear_by_s is None and not self._child.pipes

    def _is_done(self) -> bool:
        return self._has_ended() and not self._pending

    def _finish(self) -> None:
        self._send(self._end_line())
        os.set_blocking(1, True)
        self._write()

    def _end_line(self) -> dict[str, Any]:
        assert self._end_of is not None
        return {"end": {**self._end_of, "why": "; ".join(self._why)}}

    # --- time

    def _wait_s(self) -> float:
        if self._end_of is not None:
            return LOOK_S
        due = [self._over_s, self._kill_s, self._last_request_s + self._silent_s, self._beat_s + self._silent_s / BEATS]
        return max(0.0, min(at_s for at_s in due if at_s is not None) - time.monotonic())

    def _keep_time(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._beat_s + self._silent_s / BEATS:
            self._beat_s = now_s
            if not self._pending:
                self._pending += b"\n"
                self._write()
        if now_s >= self._last_request_s + self._silent_s:
            self._last_request_s = now_s
            self._lose(f"whoever started it is silent for {self._silent_s:g} s")
        if self._end_of is not None:
            return
        if self._over_s is not None and now_s >= self._over_s:
            self._end(f"its longest time of {self._within_s:g} s is over")
        if self._kill_s is not None and now_s >= self._kill_s:
            self._kill_s = None
            if not self._child.signal(signal.SIGKILL):
                self._selector.unregister(self._child.pidfd)
                self._left.add(self._child.pid)
                self._ended({"status": None, "signal": ""})

    def _end(self, why: str) -> None:
        """Ask it to end, and kill it after a while."""
        if self._end_of is not None or self._is_ending:
            return
        self._is_ending = True
        self._why.append(why)
        self._over_s = None
        self._kill_s = time.monotonic() + GRACE_S
        self._child.signal(signal.SIGTERM)
        self._child.signal(signal.SIGCONT)  # one that was stopped hears it

    def _lose(self, why: str) -> None:
        """Nobody is at the other end any more."""
        self._end(why)

    def _stop(self, why: str) -> None:
        """Somebody sent the supervisor a signal, or its host is no more."""
        self._end(why)

    def _lose_host(self, keeper: int) -> None:
        """A keeper says nothing unasked: its rack has ended."""
        self._selector.unregister(keeper)
        self._stop("the twin rack of its host has ended")

    # --- what comes in

    def _take_signals(self, wakeups: int) -> None:
        numbers = set(read(wakeups) or b"")
        if signal.SIGCHLD in numbers:
            self._reap_orphans()
        for number in numbers - {signal.SIGCHLD}:
            self._stop(f"its supervisor got {_name(number)}")

    def _reap_orphans(self) -> None:
        """Whoever has ended is not to stay, but the program itself, whose end `_reap` tells. The kernel is asked: /proc
        may leave out a child while another one goes (proc(5)), and of several ends one signal comes.
        """
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid == self._child.pid:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)

    def _read_requests(self) -> None:
        if self._in is None or (data := read(self._in)) is None:
            return
        if not data:
            self._selector.unregister(self._in)
            self._lose("whoever started it has gone")
            return
        self._take_data(data)

    def _take_data(self, data: bytes) -> None:
        self._last_request_s = time.monotonic()
        *lines, self._lines = (self._lines + data).split(b"\n")
        for line in filter(None, lines):
            self._take_request(json.loads(line))

    def _take_request(self, request: Mapping[str, Any]) -> None:
        if "signal" in request and self._end_of is None:  # else its number may be another's by now
            self._child.signal(signal.Signals[f"SIG{request['signal']}"])

    # --- the end

    def _reap(self) -> None:
        self._selector.unregister(self._child.pidfd)
        _, status = os.waitpid(self._child.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self._ended({"status": None, "signal": _name(-code)} if code < 0 else {"status": code, "signal": ""})

    def _ended(self, how: dict[str, Any]) -> None:
        self._end_of = how
        self._clear_by_s = time.monotonic() + GRACE_S

    def _clear(self) -> None:
        """Clear up after the program's end: kill what it started, then take what is in its pipes."""
        if self._end_of is None:
            return
        if self._clear_by_s is None:
            if not self._is_full():
                for pipe in list(self._child.pipes):
                    self._read_output(pipe)
            return
        for pid in set(_children()) - self._left:
            try:
                os.kill(pid, signal.SIGKILL)
            except PermissionError:
                self._left.add(pid)
            else:
                os.waitpid(pid, os.WNOHANG)  # its own children are ours from now on
        others = set(_children()) - self._left
        if others and time.monotonic() < self._clear_by_s:
            return
        self._clear_by_s = None
        self._left |= others
        if self._left:
            self._why.append(f"left behind, since it cannot be ended: {', '.join(map(str, sorted(self._left)))}")

    def _read_output(self, pipe: int) -> None:
        """When all has ended, a pipe without data has an end that was passed to somebody else: it is not waited for."""
        data = read(pipe)
        if data:
            self._take_output(self._child.pipes[pipe], data)
        elif data is not None or (self._end_of is not None and self._clear_by_s is None):
            self._close(pipe)

    def _take_output(self, stream: str, data: bytes) -> None:
        self._send({stream: base64.b64encode(data).decode()})

    def _is_full(self) -> bool:
        """Whether so much output waits for its reader that no more is read from the program."""
        return len(self._pending) > PENDING_BYTES

    def _close(self, pipe: int) -> None:
        if pipe in self._selector.get_map():
            self._selector.unregister(pipe)
        os.close(pipe)
        del self._child.pipes[pipe]

    def _send(self, line: object) -> None:
        self._pending += line_of(line)
        self._write()

    def _write(self) -> None:
        """What is pending, as far as its reader takes it; without a reader it is dropped."""
        try:
            while self._pending and self._out is not None:
                del self._pending[: os.write(self._out, self._pending)]
        except BlockingIOError:
            return
        except OSError:
            self._pending.clear()
            self._lose("whoever started it has gone")

    def _throttle(self) -> None:
        """Read output only while its reader keeps up."""
        keys = self._selector.get_map()
        if self._out is not None:
            if self._pending and self._out not in keys:
                self._selector.register(self._out, selectors.EVENT_WRITE, self._write)
            elif not self._pending and self._out in keys:
                self._selector.unregister(self._out)
        held = self._is_full()
        for pipe in self._child.pipes:
            if held and pipe in keys:
                self._selector.unregister(pipe)
            elif not held and pipe not in keys:
                self._selector.register(pipe, selectors.EVENT_READ, partial(self._read_output, pipe))


def _name(number: int) -> str:
    """`SIGKILL`; of one in real time `SIG35`, which has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def read(descriptor: int) -> bytes | None:
    """Read what is there; None where there is nothing to read now."""
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except BlockingIOError:
        return None


def line_of(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
