"""VirtualLoop: asyncio in virtual time, the same in every run."""

import asyncio
import contextvars
import ctypes
import itertools
import random
import selectors
import socket
import sys
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

from typing_extensions import override

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_NS_IN_S = 1_000_000_000


class Deadlock(RuntimeError):
    """Nothing is ready, no timer runs, no socket is open: the program would wait forever."""


def run_virtual(main: Coroutine[Any, Any, T], *, seed: int = 0, loop: "Callable[[], VirtualLoop] | None" = None) -> T:
    """Run `main` in virtual time from 0, and return its result. Raises `Deadlock` where it would wait forever.

    `seed` seeds the global generator of `random`, for libraries that draw from it; our code uses `Draws`. `loop` makes
    the loop, by default a VirtualLoop.
    """
    before = random.getstate()
    random.seed(seed)  # noqa: TID251 - libraries do not use Draws
    try:
        with asyncio.Runner(loop_factory=loop or VirtualLoop) as runner:
            return runner.run(main)
    finally:
        random.setstate(before)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time jumps to the next timer when it is idle, after a poll of real I/O.

    Loopback sockets work. Threads and other processes would not, since time does not wait for them: `run_in_executor`
    runs inline, and hosts must be numeric. Tasks and futures hash by serial number, so that the sets in asyncio have a
    fixed order.
    """

    def __init__(self) -> None:
        self._virtual = _VirtualSelector(self._describe_deadlock)
        self._serials = itertools.count(1)
        self._generators: weakref.WeakSet[AsyncGenerator[Any, Any]] = weakref.WeakSet()  # of living nodes
        self._first_iteration_hook: Callable[[AsyncGenerator[Any, Any]], None] | None = None
        super().__init__(self._virtual)
        self.set_task_factory(self._make_task)

    @override
    def time(self) -> float:
        """Seconds since the loop was made; always a whole number of nanoseconds."""
        return self._virtual.now_ns / _NS_IN_S

    def time_ns(self) -> int:
        return self._virtual.now_ns

    @override
    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if (node := _node_of(context)) is None:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(node.run, callback, args, context=context)

    @override
    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if (node := _node_of(context)) is None:
            return super().call_soon_threadsafe(callback, *args, context=context)
        return super().call_soon_threadsafe(node.run, callback, args, context=context)

    @override
    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        if (node := _node_of(context)) is None:
            return super().call_at(when, callback, *args, context=context)
        return super().call_at(when, node.run, callback, args, context=context)

    @override
    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Handle an error as asyncio does; and what ends a program ends the loop, such as the time limit of a test,
        which asyncio would only log: a world that goes on for ever would be played for ever.
        """
        super().call_exception_handler(context)
        if not isinstance(context.get("exception"), Exception | None):
            self.stop()

    @override
    def create_future(self) -> asyncio.Future[Any]:
        return _NumberedFuture(next(self._serials), self)

    @override
    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run `func` now, in the loop. The caller gets the result in a later callback, as from a thread."""
        future: asyncio.Future[T] = self.create_future()
        try:
            result = func(*args)
        except StopIteration as error:  # a future refuses it
            failure = RuntimeError(f"{func!r} raised StopIteration")
            failure.__cause__ = error
            self.call_soon(_settle, future, future.set_exception, failure)
        except Exception as error:  # noqa: BLE001 - the caller gets it from the future
            self.call_soon(_settle, future, future.set_exception, error)
        else:
            self.call_soon(_settle, future, future.set_result, result)
        return future

    @override
    async def getaddrinfo(  # type: ignore[override]  # typeshed's overloads of the answer do not matter here
        self,
        host: str | None,
        port: int | str | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        try:
            return socket.getaddrinfo(host, port, family, type, proto, flags | socket.AI_NUMERICHOST)
        except socket.gaierror as error:
            text = f"{host}: virtual time cannot wait for a name server. Use a numeric address"
            raise socket.gaierror(error.errno, text) from error

    def real_io_of(self, node: "Node") -> list[int]:
        """Return the file descriptors that callbacks of `node` wait for."""
        return [fd for fd, nodes in self._virtual.nodes.items() if node in nodes]

    def watch_generators(self) -> None:
        """Track the generators that nodes start, until the loop stops; then the old hooks are restored."""
        hook = sys.get_asyncgen_hooks().firstiter
        if hook != self._begin_generator:
            self._first_iteration_hook = hook
            sys.set_asyncgen_hooks(firstiter=self._begin_generator)

    def disown(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Do not close this generator at the end."""
        self._generators.discard(generator)

    @override
    async def shutdown_asyncgens(self) -> None:
        closing = [generator.aclose() for generator in self._generators]
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(error, Exception):
                self.call_exception_handler({"message": "closing a generator of a node failed", "exception": error})
        await super().shutdown_asyncgens()

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        **kwargs: Any,
    ) -> "NumberedTask":
        node = _node_of(kwargs.get("context"))
        task = NumberedTask(next(self._serials), coro, loop, **kwargs)
        if node is not None:
            node.adopt(task)
        return task

    def _begin_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Pass only generators outside of nodes to asyncio: it would close those of a killed node at the end."""
        if (node := _node_of(None)) is not None:
            node.generators.add(generator)
            self._generators.add(generator)
        elif self._first_iteration_hook is not None:
            self._first_iteration_hook(generator)

    def _describe_deadlock(self) -> str:
        waiting = sorted(f"{task.get_name()} at {_where(task)}" for task in asyncio.all_tasks(self))
        return f"virtual time {self.time()} s: nothing can ever happen again; waiting: {', '.join(waiting) or 'nobody'}"


class VirtualClock:
    """The clock of a host in virtual time: zero when the loop was made."""

    def __init__(self, loop: VirtualLoop, *, wall_start_ns: int) -> None:
        self._loop = loop
        self._wall_start_ns = wall_start_ns

    def monotonic_ns(self) -> int:
        return self._loop.time_ns()

    def wall_ns(self) -> int:
        return self._wall_start_ns + self._loop.time_ns()

    def kernel_bounds_ns(self, stamp_ns: int) -> tuple[int, int]:
        return stamp_ns - self._wall_start_ns, stamp_ns - self._wall_start_ns

    def from_kernel_ns(self, stamp_ns: int) -> int:
        return stamp_ns - self._wall_start_ns


class Node:
    """The callbacks, tasks and generators of a node from one start to its kill (`hwd_drivers.twins.nodes`)."""

    def __init__(self, name: str, loop: VirtualLoop, *, kill: Callable[[str], None], kill_at: int | None) -> None:
        self.name = name
        self.loop = loop
        self.alive = True
        self.callbacks = 0
        self.kill_at = kill_at
        self.tasks: weakref.WeakSet[NumberedTask] = weakref.WeakSet()
        self.generators: weakref.WeakSet[AsyncGenerator[Any, Any]] = weakref.WeakSet()
        self.killed: asyncio.Future[None] = loop.create_future()
        self._kill = kill

    def run(self, callback: Callable[[*Ts], object], args: tuple[*Ts]) -> None:
        """Run a callback of this node, unless it was killed."""
        if not self.alive:
            return
        if self.callbacks + 1 == self.kill_at:
            self._kill(self.name)
            return
        self.callbacks += 1
        callback(*args)

    def adopt(self, task: "NumberedTask") -> None:
        self.tasks.add(task)
        if not self.alive:
            _keep_for_ever(task)

    def fence(self) -> None:
        self.alive = False
        for task in self.tasks:
            if not task.done():
                _keep_for_ever(task)
        for generator in self.generators:
            self.loop.disown(generator)
            _leak(generator)
        self.killed.set_result(None)


class _VirtualSelector(selectors.DefaultSelector):
    """Polls real I/O; where nothing came, the clock advances. `nodes`: those that wait for a file descriptor."""

    def __init__(self, describe_deadlock: Callable[[], str]) -> None:
        super().__init__()
        self.now_ns = 0
        self.nodes: dict[int, set[Node]] = {}
        self._describe_deadlock = describe_deadlock

    @override
    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._add_node(super().register(fileobj, events, data))

    @override
    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._add_node(super().modify(fileobj, events, data))

    @override
    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = super().unregister(fileobj)
        self.nodes.pop(key.fd, None)
        return key

    def _add_node(self, key: selectors.SelectorKey) -> selectors.SelectorKey:
        if (node := _node_of(None)) is not None:
            self.nodes.setdefault(key.fd, set()).add(node)
        return key

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if timeout is not None:
            self.now_ns += max(1, round(timeout * _NS_IN_S))
            return events
        if len(self.get_map()) > 1:  # 1 is the loop's own pipe
            return super().select(None)
        raise Deadlock(self._describe_deadlock())


class NumberedTask(asyncio.Task[Any]):
    """A task with a number; `buried`: of a dead node. It counts as done, so that asyncio does not cancel it at the end
    and wait for it.
    """

    def __init__(
        self,
        serial: int,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        loop: asyncio.AbstractEventLoop,
        **kwargs: Any,
    ) -> None:
        self._serial = serial
        self.buried = False
        super().__init__(coro, loop=loop, **kwargs)

    @override
    def done(self) -> bool:
        return self.buried or super().done()

    @override
    def __hash__(self) -> int:
        return self._serial


class _NumberedFuture(asyncio.Future[Any]):
    def __init__(self, serial: int, loop: asyncio.AbstractEventLoop) -> None:
        self._serial = serial
        super().__init__(loop=loop)

    @override
    def __hash__(self) -> int:
        return self._serial


current_node: contextvars.ContextVar[Node | None] = contextvars.ContextVar("hwd_node", default=None)


def _node_of(context: contextvars.Context | None) -> Node | None:
    return current_node.get() if context is None else context.get(current_node)


def _settle(future: asyncio.Future[Any], settle: Callable[[Any], None], outcome: object) -> None:
    if not future.done():
        settle(outcome)


def _keep_for_ever(task: NumberedTask) -> None:
    """Prevent a task from being freed: its coroutine would be closed, and run code after the kill of its node."""
    task.buried = True
    _leak(task)


def _leak(thing: object) -> None:
    """Leak one reference: a reference in a list would be released at the end of the interpreter."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _where(task: asyncio.Task[Any]) -> str:
    """Return file and line of the innermost await."""
    awaited: Any = task.get_coro()
    where = "?"
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        awaited = awaited.cr_await
    return where
