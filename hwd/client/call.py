"""A call of the daemon as a value: what to send, how long to wait, and how its answer is read. No I/O."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar, overload

import httpx

from hwd.client.problem import raise_for_problem
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import DeadlineError, HwdError, LinkError, ProtocolError
from hwd_drivers.core.reason import reason_of

T = TypeVar("T")
P = ParamSpec("P")

ANSWER_S = 30.0
"""For calls that drive no switch; the slowest is a read of every switch."""
CONNECT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request. `read` makes the result of its JSON; `within_s` is for the whole answer."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: Mapping[str, Json] | None = None
    query: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    within_s: float = ANSWER_S

    @property
    def timeout(self) -> httpx.Timeout:
        return httpx.Timeout(self.within_s, connect=min(CONNECT_S, self.within_s))

    def answer(self, response: httpx.Response) -> T:
        """Decode the answer. Raises the daemon's error, or ProtocolError where the body is not an
        answer to this call.
        """
        raise_for_problem(response)
        try:
            return self.read(response.json())
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"{response.request.url}: cannot read the answer to {self}: {error!r}") from error

    def failed(self, url: str, error: httpx.TransportError) -> HwdError:
        """Translate an error of the HTTP library."""
        if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
            return DeadlineError(f"daemon {url}: no answer to {self} within {self.within_s:g} s")
        return unreachable(url, error)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def unreachable(url: str, error: Exception) -> HwdError:
    """The error for a daemon that does not answer.

    Some messages of the HTTP library end in a full stop, which is removed, since more text follows.
    """
    found = reason_of(error).rstrip(". ")
    was_there = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError)
    how = "the connection ended before its answer came" if was_there else "cannot be reached"
    return LinkError(
        f"daemon {url}: {how}: {found}. `hwd serve TESTBED` starts one, "
        "which first settles the reconfigurations that a killed one left open in its journal; "
        "--url or HWD_URL names another"
    )


class Asker(ABC):
    """Sends calls and waits for their answers."""

    @abstractmethod
    def ask(self, call: Call[T]) -> T:
        """Raises HwdError: the daemon's error, or LinkError where the daemon cannot be reached."""


class AsyncAsker(ABC):
    """Sends calls from a coroutine."""

    @abstractmethod
    async def ask(self, call: Call[T]) -> T:
        """Raises HwdError: the daemon's error, or LinkError where the daemon cannot be reached."""


class CallMethod(Generic[P, T]):
    """A function that makes a call, as a method of both clients: `client.status()` returns the answer, `await
    aclient.status()` does too.

    So each call has one signature and one docstring, and neither client can lack it. Looked up on a class it is the
    function itself.
    """

    def __init__(self, make: Callable[P, Call[T]]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Call[T]]: ...
    @overload
    def __get__(self, client: Asker, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncAsker, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Asker | AsyncAsker | None, owner: type) -> Callable[P, object]:
        if client is None:
            return self._make

        @wraps(self._make)
        def method(*args: P.args, **kwargs: P.kwargs) -> object:
            return client.ask(self._make(*args, **kwargs))

        return method
