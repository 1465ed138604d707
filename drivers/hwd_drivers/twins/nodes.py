"""Nodes: parts of a simulated world in virtual time that can be killed as by a power cut."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from hwd_drivers.twins.virtual_time import Node, NumberedTask, VirtualLoop, current_node

T = TypeVar("T")


class NodeKilled(Exception):
    """The node was killed before its coroutine had finished."""


class Nodes:
    """The nodes of a simulated world in one VirtualLoop: the code of one can be killed without running any cleanup.

    ```
    nodes = Nodes()
    net = MemoryNet(nodes=nodes)
    daemon = asyncio.create_task(nodes.run_in_node("daemon", Daemon(...).run()))
    nodes.kill("daemon")  # no finally runs, its peers see the end of their streams; `daemon` raises NodeKilled
    await nodes.run_in_node("daemon", Daemon(...).run())  # it starts again
    ```
    Pending coroutines of a node are never freed, since freeing one runs its `finally`: worlds with thousands of kills
    belong in separate processes. A node must not hold real sockets: they cannot be stopped.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._kill_at: dict[str, int] = {}
        self._hooks: list[Callable[[str], None]] = []

    @contextmanager
    def node(self, name: str) -> Iterator[None]:
        """Assign what is started inside to the node; a killed node starts again. Do not await inside."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            raise RuntimeError(f"node {name}: {loop} has no fence. Run it in a VirtualLoop")
        loop.watch_generators()
        if not self.alive(name):
            self._nodes[name] = Node(name, loop, kill=self.kill, kill_at=self._kill_at.pop(name, None))
        before = current_node.set(self._nodes[name])
        try:
            yield
        finally:
            current_node.reset(before)

    async def run_in_node(self, name: str, coro: Coroutine[Any, Any, T]) -> T:
        """Run `coro` as a task of the node, and return its result. Raises `NodeKilled` if the node is killed first."""
        with self.node(name):
            inner = asyncio.get_running_loop().create_task(coro, name=name)
        killed = self._nodes[name].killed
        cancelled = False
        try:
            await asyncio.wait((inner, killed), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            cancelled = True
            inner.cancel()
            await asyncio.wait((inner, killed), return_when=asyncio.FIRST_COMPLETED)
        if not (isinstance(inner, NumberedTask) and inner.buried):
            return inner.result()
        if cancelled:
            raise asyncio.CancelledError
        raise NodeKilled(f"node {name}: killed at virtual time {asyncio.get_running_loop().time()} s")

    def kill(self, name: str) -> None:
        """Stop all code of the node, from now on. A node cannot kill itself from a task of its own."""
        node = self._known(name)
        if not node.alive:
            return
        if asyncio.current_task() in node.tasks:
            raise RuntimeError(f"node {name}: cannot stop the task that runs. Kill it from outside, or use kill_at")
        if held := node.loop.real_io_of(node):
            raise RuntimeError(f"node {name}: holds file descriptors {held} that no fence stops. Give it a MemoryNet")
        node.fence()
        for hook in self._hooks:
            contextvars.Context().run(hook, name)

    def kill_at(self, name: str, callback: int) -> None:
        """Kill the node instead of running its `callback`-th callback, counted from 1 at its present or next start."""
        if not self.alive(name):
            self._kill_at[name] = callback
        elif callback <= self._nodes[name].callbacks:
            raise ValueError(f"node {name}: callback {callback} is over, it has run {self._nodes[name].callbacks}")
        else:
            self._nodes[name].kill_at = callback

    def alive(self, name: str) -> bool:
        return name in self._nodes and self._nodes[name].alive

    def callbacks(self, name: str) -> int:
        """Return how many callbacks the node has run since its last start: the range for `kill_at`."""
        return self._known(name).callbacks

    def current(self) -> str | None:
        """Return the name of the node that the caller runs in."""
        node = current_node.get()
        return None if node is None else node.name

    def on_kill(self, hook: Callable[[str], None]) -> None:
        """Call `hook` with the name of each node that is killed, right after its last callback."""
        self._hooks.append(hook)

    def _known(self, name: str) -> Node:
        if name not in self._nodes:
            raise LookupError(f"node {name}: never started. There are: {', '.join(sorted(self._nodes)) or 'none'}")
        return self._nodes[name]
