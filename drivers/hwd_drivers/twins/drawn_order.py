"""DrawnOrderLoop: a virtual loop in which the steps of tasks that are ready may be overtaken, as a seed draws it.

What asyncio promises (its documentation, Python 3.11): callbacks passed to `call_soon` run in the order in which they
were passed, each once; `call_at` callbacks run no earlier than their time; a protocol's `data_received` calls come in
the order of the data; a `Lock` is fair. It promises no order between tasks: neither when a new task takes its first
step, nor which of two tasks that were woken goes on first.

So only steps of tasks are delayed here. Everything else, protocols, transports, timers, `call_soon` of our code, keeps
its order. A task has at most one pending step, so that its own steps stay in order however long one is delayed, and
each step runs in the task's own context. What a delay makes is what a loop makes in which more callbacks were ready
before that step: it needs no private name, since asyncio passes each step to the public `call_soon`, and a step is
known by its `__self__`, the task, as that of any bound method.
"""

import asyncio
import contextvars
from collections.abc import Callable
from typing import TypeVarTuple

from typing_extensions import override

from hwd_drivers.twins.virtual_time import VirtualLoop

Ts = TypeVarTuple("Ts")

Turns = Callable[[int], int]
"""From the number of a step of a task, counted from 1 over all tasks, to the turns of the loop for which it waits."""


class DrawnOrderLoop(VirtualLoop):
    """A virtual loop; `turns` says for how many more turns each step of a task waits; 0 is first in, first out.

    run_virtual(main(), loop=lambda: DrawnOrderLoop(lambda step: 3 if step == 17 else 0))
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.steps = 0
        """How many steps of tasks there were."""
        super().__init__()

    @override
    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if not isinstance(getattr(callback, "__self__", None), asyncio.Task):
            return super().call_soon(callback, *args, context=context)
        self.steps += 1
        turns = self._turns(self.steps)
        if turns <= 0:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(self._wait, turns - 1, callback, args, context, context=context)

    def _wait(
        self, turns: int, callback: Callable[[*Ts], object], args: tuple[*Ts], context: contextvars.Context | None
    ) -> None:
        """Let a turn pass; then the step runs, in the one context of its task."""
        if turns > 0:
            super().call_soon(self._wait, turns - 1, callback, args, context, context=context)
        else:
            super().call_soon(callback, *args, context=context)
