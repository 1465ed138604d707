"""LastingSupervisor: of a program that outlives whoever started it, and that others attach to, one at a time.

It is sent to hosts, as `hwd.rollout.onhost.supervisor` is. Its JSON has two more: `keep`, the name of its socket, and
`waits_s`, how long it waits after the program's end for somebody to take that. Its lines differ in this:

    {"started": PID, "at": 4096, "dropped": 0}     first on each connection: the place in the output from which it is
                                                   owed, and how many bytes from there on are not held any more
    {"known": true}                                next, to whoever started it, where that has said that it knows
    {"replaced": true}                             last, where somebody else has attached

Lines into it: {"attach": 4096}, first on the socket: all before this place was taken; null: what was said before.
{"taken": 8192}: likewise, of the output of this connection. {"leave": 8192}: the same, and the connection ends.
{"close": true}: the program is to end, and its output and its end are wanted by nobody else.

Whoever started it says {"taken": 0} when it knows that the program has started. Where it goes before, the program is
ended: nobody may know of it. From {"known": true} on the program goes on when a connection ends or is silent. While
there is none, the newest `MOST_BYTES` of the output are held; while there is one, the program waits for its reader.
"""

import base64
import contextlib
import json
import os
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from hwd.rollout.onhost.child import Child
from hwd.rollout.onhost.output_log import OutputLog
from hwd.rollout.onhost.supervisor import BEATS, GRACE_S, Supervisor, line_of, read

MOST_BYTES: Final = 1 << 20
"""The most bytes of output that nobody has taken."""
LOOK_EVERY_S: Final = 2.0
"""Between two looks whether the socket's file is there."""
LINES_BYTES: Final = 131_072
"""The most bytes of lines that wait to be written: few, since each goes through the log again for the next reader."""


class LastingSupervisor(Supervisor):
    """The supervisor of a program that outlives its starter. `starter`: the connection to whoever started it; `door`:
    the socket on which others attach; `restore`: makes it anew where a clean-up of temporary files has removed its
    file, else None; `remove`: takes its file away.
    """

    def __init__(
        self,
        child: Child,
        wanted: Mapping[str, Any],
        *,
        starter: socket.socket,
        door: socket.socket,
        restore: Callable[[], socket.socket | None],
        remove: Callable[[], None],
    ) -> None:
        super().__init__(child, wanted)
        self._waits_s: float = wanted["waits_s"]
        self._gives_up_s: float | None = None
        """When nobody is waited for any more, once the program has ended."""
        self._door = door
        self._restore = restore
        self._remove = remove
        self._look_s = time.monotonic() + LOOK_EVERY_S
        """When the supervisor looks again whether the file is there."""
        self._log = OutputLog()
        self._is_known = False
        """Whether whoever started it knows that it runs."""
        self._is_unwanted = False
        self._has_said_end = False
        self._callers: dict[socket.socket, bytes] = {}
        """The callers who have not yet said that they attach, and what came of them."""
        self._connect(starter, None)

    def run(self) -> None:
        self._open(self._door)
        super().run()

    def _open(self, door: socket.socket) -> None:
        door.setblocking(False)
        self._selector.register(door, selectors.EVENT_READ, self._accept)
        self._door = door

    # --- connections

    def _connect(self, connection: socket.socket, taken: int | None) -> None:
        self._in = connection.detach()
        self._out = os.dup(self._in)
        self._lines = b""
        self._pending.clear()
        self._last_request_s = self._beat_s = time.monotonic()
        self._has_said_end = False
        at, dropped = self._log.begin(taken)
        self._send({"started": self._child.pid, "at": at, "dropped": dropped})

    def _listen(self) -> None:
        if self._in is not None:  # else it has gone before it heard the first line
            super()._listen()

    def _disconnect(self) -> None:
        keys = self._selector.get_map()
        for descriptor in (self._in, self._out):
            if descriptor is not None:
                if descriptor in keys:
                    self._selector.unregister(descriptor)
                os.close(descriptor)
        self._in = self._out = None
        self._pending.clear()
        self._log.rewind()
        self._log.shrink(MOST_BYTES)

    def _accept(self) -> None:
        try:
            caller, _ = self._door.accept()
        except OSError:  # it has gone again
            return
        caller.setblocking(False)
        self._callers[caller] = b""
        self._selector.register(caller, selectors.EVENT_READ, partial(self._greet, caller))

    def _greet(self, caller: socket.socket) -> None:
        """The first line of a caller: it takes the place of whoever was attached."""
        try:
            data = read(caller.fileno())
        except OSError:
            data = b""
        if data is None:
            return
        first, end, rest = (self._callers[caller] + data).partition(b"\n")
        if data and not end:
            self._callers[caller] = first
            return
        self._selector.unregister(caller)
        del self._callers[caller]
        try:
            asked = json.loads(first)["attach"]
            taken = None if asked is None else int(asked)
        except (ValueError, KeyError, TypeError):  # it has gone, or is no relay
            caller.close()
            return
        if self._in is not None:
            if not self._pending:  # else it would be in the middle of a line
                self._send({"replaced": True})
            self._disconnect()
        self._is_known = True
        self._connect(caller, taken)
        self._listen()
        self._take_data(rest)

    def _lose(self, why: str) -> None:
        self._disconnect()
        if not self._is_known:
            self._is_unwanted = True
            self._end(f"{why}, and did not know yet that it runs")

    def _stop(self, why: str) -> None:
        """Stop the program: as a rule the machine goes down, and that is not held up."""
        super()._stop(why)
        self._waits_s = min(self._waits_s, GRACE_S)
        self._gives_up_s = None

    # --- lines

    def _take_request(self, request: Mapping[str, Any]) -> None:
        if not self._is_known:
            self._is_known = True
            self._send({"known": True})
        if "close" in request:
            self._is_unwanted = True
            self._end("it was closed")
        elif "leave" in request:
            self._log.take(request["leave"])
            self._disconnect()
        elif "taken" in request:
            self._log.take(request["taken"])
        else:
            super()._take_request(request)

    def _take_data(self, data: bytes) -> None:
        try:
            super()._take_data(data)
        except (ValueError, KeyError, TypeError):  # whoever wrote that is not to end the program
            self._disconnect()

    def _take_output(self, stream: str, data: bytes) -> None:
        if self._is_unwanted:
            return
        self._log.add(stream, data)
        if self._in is None:
            self._log.shrink(MOST_BYTES)

    def _is_full(self) -> bool:
        return self._in is not None and not self._is_unwanted and self._log.size_bytes > MOST_BYTES

    def _throttle(self) -> None:
        """Pass on what the reader has room for."""
        if self._is_known:
            self._fill()
        super()._throttle()

    def _fill(self) -> None:
        while self._out is not None and not self._log.is_sent and len(self._pending) < LINES_BYTES:
            stream, data = self._log.next()
            self._send({stream: base64.b64encode(data).decode()})
        if self._out is not None and self._has_ended() and self._log.is_sent and not self._has_said_end:
            self._has_said_end = True
            self._send(self._end_line())

    # --- time

    def _keep_time(self) -> None:
        super()._keep_time()
        if time.monotonic() < self._look_s:
            return
        self._look_s = time.monotonic() + LOOK_EVERY_S
        if (door := self._restore()) is not None:
            self._selector.unregister(self._door)
            self._door.close()
            self._open(door)

    def _wait_s(self) -> float:
        return min(self._due_s(), max(0.0, self._look_s - time.monotonic()))

    def _due_s(self) -> float:
        """The time until something is due that has to do with the program, or with whoever is attached."""
        if not self._has_ended():
            return super()._wait_s()
        now_s = time.monotonic()
        due = [now_s + self._waits_s if self._gives_up_s is None else self._gives_up_s]
        if self._in is not None:
            due += [self._last_request_s + self._silent_s, self._beat_s + self._silent_s / BEATS]
        return max(0.0, min(due) - now_s)

    def _is_done(self) -> bool:
        if not self._has_ended():
            return False
        if self._gives_up_s is None:
            self._gives_up_s = time.monotonic() + self._waits_s
        return self._is_unwanted or time.monotonic() >= self._gives_up_s

    def _finish(self) -> None:
        """The socket's file goes first: whoever sees the end of the connection may start another one of its name."""
        self._remove()
        if self._in is None:
            return
        if not self._has_said_end:
            self._pending += line_of(self._end_line())
        with contextlib.suppress(OSError), socket.socket(fileno=self._in) as connection:
            connection.settimeout(GRACE_S)
            connection.sendall(self._pending)
