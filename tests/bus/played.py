"""Tests that are played in virtual time, each on a stage of its own."""

import functools
import inspect
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Concatenate, ParamSpec, TypeVar

from hwd_drivers.twins.virtual_time import run_virtual

P = ParamSpec("P")
Stage = TypeVar("Stage")


def virtual(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """The test in virtual time, in a loop of its own."""

    @functools.wraps(test)
    def played_test(*args: P.args, **kwargs: P.kwargs) -> None:
        run_virtual(test(*args, **kwargs))

    return played_test


def played(
    make: Callable[..., AbstractAsyncContextManager[Stage]], **settings: Any
) -> Callable[[Callable[Concatenate[Stage, P], Coroutine[Any, Any, None]]], Callable[P, None]]:
    """The test in virtual time, with a stage that is made for it as its first argument; the others are fixtures."""

    def decorate(test: Callable[Concatenate[Stage, P], Coroutine[Any, Any, None]]) -> Callable[P, None]:
        @functools.wraps(test)
        async def on_stage(*args: P.args, **kwargs: P.kwargs) -> None:
            async with make(**settings) as stage:
                await test(stage, *args, **kwargs)

        _, *others = inspect.signature(test).parameters.values()
        on_stage.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]  # what pytest reads
        return virtual(on_stage)

    return decorate
