"""Worker: the operations of a rank, one after the other on a thread of its own, each announced before it is sent.

A send and a receive wait until somebody waits for one of them, or for a collective operation behind them. Then all that
wait are made in one order that both ranks of each pair share, whatever the order in which they were called: so ranks
that shift around a ring, or exchange, do not wait for each other for ever.
"""

import logging
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hwd_agents.shim import Rank
from hwd_agents.wire import OperationKind
from hwd_drivers.core.errors import RefusedError

CLOSE_S: Final = 10.0
"""For what is under way to end, when the process does."""

log = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True)
class SubmittedOperation:
    """An operation that was called. `group` empty: it is not announced. `send`: sends, and returns when that has
    completed. `on_done`: called on the worker's thread with the error, or None, as soon as it has completed.
    """

    group: str
    kind: OperationKind
    size_bytes: int
    within_s: float
    send: Callable[[], None]
    on_done: Callable[[BaseException | None], None]
    peer: int | None = None
    port: str = ""
    """The NIC port that it goes over; a shim may name no other one."""
    _over: threading.Event = field(default_factory=threading.Event, init=False)
    error: BaseException | None = field(default=None, init=False)

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def complete(self, error: BaseException | None) -> None:
        self.error = error
        self._over.set()
        try:
            self.on_done(error)
        except Exception:  # the program's own callback; what it waits for goes on
            log.exception("%s: what was called at its end raised", self)

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for the end of the operation; returns whether it is over."""
        return self._over.wait(timeout_s)

    def __str__(self) -> str:
        return f"{self.kind} of {self.group or 'a group that is not announced'}"


class Worker:
    """Calls come from one thread of the program, or from several that agree on an order."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._queue: queue.SimpleQueue[SubmittedOperation | None] = queue.SimpleQueue()
        self._pairs: list[SubmittedOperation] = []
        self._lock = threading.Lock()
        self._broken = ""
        self._last: SubmittedOperation | None = None
        self._is_closed = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._work, name="hwd-operations", daemon=True)
        self._thread.start()

    def submit(self, one: SubmittedOperation) -> None:
        """Submit an operation behind all that was called before. Raises RefusedError in a process that was forked from
        the rank's, as a worker of a data loader is: the thread is not in it.
        """
        self._check_process(str(one))
        with self._lock:
            if self._is_closed:
                raise RefusedError(f"{one}: the process is ending")
            if one.peer is not None:
                self._pairs.append(one)
                return
            self._flush()
            self._put(one)

    def wait(self, one: SubmittedOperation, timeout_s: float | None = None) -> bool:
        """Wait for the end of an operation; returns whether it is over. Raises RefusedError on the worker's own thread,
        as in a callback of another operation: it would wait for itself.
        """
        if one.is_over:
            return True
        self._check_process(str(one))
        if threading.current_thread() is self._thread:
            raise RefusedError(f"{one}: is waited for in a callback of another operation, which holds it up")
        self.begin(one)
        return one.wait(timeout_s)

    def begin(self, one: SubmittedOperation) -> None:
        """Somebody is going to wait for it."""
        with self._lock:
            if one in self._pairs:
                self._flush()

    def drain(self) -> None:
        """Return when all that was called is over."""
        self._check_process("what was called")
        with self._lock:
            self._flush()
            last = self._last
        if last is not None:
            last.wait(None)

    def close(self) -> None:
        """End what was called, for `CLOSE_S` at most, then leave the job."""
        with self._lock:
            self._flush()
            self._is_closed = True
            self._queue.put(None)
        self._thread.join(CLOSE_S)
        self._rank.close()

    def _check_process(self, what: str) -> None:
        if self._process != os.getpid():
            raise RefusedError(f"{what}: this process was forked from that of the rank, which alone may send")

    def _flush(self) -> None:
        for one in sorted(self._pairs, key=self._order):
            self._put(one)
        self._pairs.clear()

    def _put(self, one: SubmittedOperation) -> None:
        self._last = one
        self._queue.put(one)

    def _order(self, one: SubmittedOperation) -> tuple[int, int, int]:
        """The order of sends by the two ranks, then by who sends; those of one way stay in their order."""
        assert one.peer is not None
        own = self._rank.number
        sender = own if one.kind is OperationKind.SEND else one.peer
        return min(own, one.peer), max(own, one.peer), sender

    def _work(self) -> None:
        while (one := self._queue.get()) is not None:
            if self._broken:
                one.complete(RefusedError(f"{one}: does not begin, since an earlier one failed: {self._broken}"))
                continue
            try:
                self._make(one)
            except Exception as error:  # noqa: BLE001 - whatever a library raises: it is told to whoever waits
                self._broken = f"{one}: {error}"
                if one.is_over:  # its plane was not told of its end, or its light was cut
                    log.error("rank %d of job %s: %s", self._rank.number, self._rank.job, self._broken)
                else:
                    one.complete(error)

    def _make(self, one: SubmittedOperation) -> None:
        if not one.group:
            one.send()
            one.complete(None)
            return
        with self._rank.operation(
            one.group, one.kind, within_s=one.within_s, size_bytes=one.size_bytes, peer=one.peer
        ) as port:
            if port is not None and port != one.port:
                raise RefusedError(
                    f"{one}: its shim sends over {port}, and the connections of its group go over {one.port}"
                )
            one.send()
            one.complete(None)
