"""Call: one call of the HTTP API, stated once. Its route, its place in the OpenAPI document and the row of who may make
it are made from that.

Body and answer are those of its handler: what a parameter of type `Body` is read from, a `Caller` who asks, any other
one the path or the query; what it returns is the answer, as JSON unless it is a response already.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Final, get_args, get_type_hints

import msgspec
from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from hwd.model.bodies import Body
from hwd.model.request import Caller
from hwd.web.bodies import JSON, body_of, described, encoded
from hwd.web.door import caller_of
from hwd.web.turns import to_json_in_turns
from hwd_agents.wire.access import Access, Proof, Who

API: Final = "/api/v1"
HELD: Final = Access(who=Who.HOLDER, proof=Proof.EPOCH)
OVERRIDABLE: Final = Access(who=Who.HOLDER, proof=Proof.EPOCH, may_override=True)
Handler = Callable[..., Any]
"""A method of the class that answers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An HTTP call; `access`: who may make it. `needs_body`: without a body its fields do not all have their defaults.

    `in_turns`: its answer is long, and is written in turns of the event loop. `body`, `answer`: where the handler's
    annotations do not say them. `request_body`: one that is no JSON, for the OpenAPI document.
    """

    method: str
    path: str
    handler: Handler
    access: Access
    status: int = 200
    needs_body: bool = True
    in_turns: bool = False
    body: type[Body] | None = None
    answer: Any = None
    request_body: Mapping[str, Any] = field(default_factory=dict)
    response_class: type[Response] = JSONResponse
    is_listed: bool = True

    @property
    def takes(self) -> type[Body] | None:
        return self.body or next((hint for hint in self._hints.values() if _is_body(hint)), None)

    @property
    def answers(self) -> Any:
        """The type of its answer; None where that is no JSON."""
        answer = self._hints["return"] if self.answer is None else self.answer
        return None if isinstance(answer, type) and issubclass(answer, Response) else answer

    @property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.handler, include_extras=True)

    def add_to(self, router: APIRouter, part: Callable[[], Any]) -> None:
        """Add its route. `part()`: whose method its handler is, once it is called."""
        parameters = [*_parameters(self.handler, self._hints, needs_body=self.needs_body)]

        async def respond(**arguments: Any) -> Response:
            found = self.handler(part(), **arguments)
            if inspect.isawaitable(found):
                found = await found
            if isinstance(found, Response):
                return found
            if self.in_turns:
                return Response(await to_json_in_turns(found), self.status, media_type=JSON)
            return encoded(found, self.status)

        respond.__doc__ = self.handler.__doc__
        vars(respond)["__signature__"] = inspect.Signature(parameters, return_annotation=Response)
        extra = described(self.takes, needed=self.needs_body, answer=self.answers, status=self.status)
        router.add_api_route(
            self.path,
            respond,
            methods=[self.method],
            name=self.handler.__name__,
            status_code=self.status,
            openapi_extra={**({"requestBody": self.request_body} if self.request_body else {}), **extra},
            include_in_schema=self.is_listed,
            response_model=None,
            response_class=self.response_class,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The calls that one class answers. `part`: which one of the service. `tag`: their heading in the OpenAPI document.
    `prefix`: of their paths.
    """

    part: str
    tag: str
    rows: tuple[Call, ...]
    prefix: str = API

    def __iter__(self) -> Iterator[Call]:
        return iter(self.rows)

    def access(self, handler: str) -> Access:
        """Who may make a call, by the name of its handler."""
        return next(one.access for one in self.rows if one.handler.__name__ == handler)

    def router(self, part: Callable[[], Any]) -> APIRouter:
        """Their routes. `part()`: the object that answers, once one is called."""
        router = APIRouter(tags=[self.tag])
        for one in self.rows:
            one.add_to(router, part)
        return router


def access_of(tables: Iterable[Calls]) -> Mapping[str, Access]:
    """Who may make each call, by `POST /api/v1/leases`."""
    return MappingProxyType(
        {f"{call.method} {table.prefix}{call.path}": call.access for table in tables for call in table}
    )


def bodies_of(tables: Iterable[Calls]) -> tuple[type[Body], ...]:
    """Each type of a body once, by name."""
    found = {call.takes for table in tables for call in table}
    return tuple(sorted((one for one in found if one is not None), key=lambda one: one.__name__))


def answers_of(tables: Iterable[Calls], *more: type[msgspec.Struct]) -> tuple[type[msgspec.Struct], ...]:
    """Each type of an answer once, by name; of lists that of their items. `more`: what any call may answer with."""
    found = {*more} | {one for table in tables for call in table for one in (call.answers, *get_args(call.answers))}
    structs = (one for one in found if isinstance(one, type) and issubclass(one, msgspec.Struct))
    return tuple(sorted(structs, key=lambda one: one.__name__))


def name_of(caller: Caller | None, stated: str) -> str:
    """Who asks: as the token says, else as they state."""
    return stated if caller is None else caller.name


def _parameters(handler: Handler, hints: Mapping[str, Any], *, needs_body: bool) -> Iterator[inspect.Parameter]:
    for name, one in [*inspect.signature(handler).parameters.items()][1:]:
        hint = hints[name]
        if _is_body(hint):
            hint, one = Annotated[hint, body_of(hint, needed=needs_body)], one.replace(default=inspect.Parameter.empty)
        elif Caller in get_args(hint):
            hint, one = Annotated[Any, Depends(_caller)], one.replace(default=inspect.Parameter.empty)
        yield one.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)


async def _caller(request: Request) -> Caller | None:
    """Who sends a request. FastAPI runs what is no coroutine in a thread."""
    return caller_of(request)


def _is_body(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Body)
