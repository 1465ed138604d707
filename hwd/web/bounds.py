"""Bounds of a request: length of URL, header and body, and depth of its JSON. Requests beyond them are refused."""

import re
from collections.abc import Mapping
from itertools import accumulate
from types import MappingProxyType
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hwd.model.limit import Limit, Reached
from hwd.web.connection import HEAD_BYTES_MAX
from hwd.web.problem import problem_of_kind, problem_response
from hwd_drivers.core.errors import ConfigError

URL_BYTES_MAX: Final = 8 * 1024
BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""The longest text that a call takes, 1,000,000 characters of 4 bytes, and the rest of its body."""
DEPTH_MAX: Final = 32
"""The deepest nesting of lists and objects; no valid body has half of it."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""A string of JSON; one that does not end goes to the end of the text, so that each byte is looked at once."""
_OTHERS = bytes(sorted({*range(256)} - {*b"[]{}"}))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


class Bounds:
    """ASGI middleware. Takes in a whole body, within `BODY_BYTES_MAX`, before anything is made of it.

    `files`: paths that take a file and no JSON, each with the bytes of the longest one.
    """

    def __init__(self, app: ASGIApp, *, reached: Reached, files: Mapping[str, int] = MappingProxyType({})) -> None:
        self._app = app
        self._reached = reached
        self._files = files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_file = scope["path"] in self._files
        most = self._files.get(scope["path"], BODY_BYTES_MAX)
        over, body, more = _over(scope, most), bytearray(), True
        while more and over is None:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > most:
                over = Limit.HTTP_BODY, 413, f"the body has over the {most} bytes that it may have"
        whole = bytes(body)
        if over is None and not is_file and (depth := depth_of(whole)) > DEPTH_MAX:
            says = f"the body has {depth} lists and objects in each other, over the {DEPTH_MAX} that it may have"
            over = Limit.HTTP_DEPTH, 422, says
        if over is None:
            await self._app(scope, _once(whole, receive), send)
            return
        limit, status, detail = over
        client = scope.get("client")
        self._reached(limit, f"{client[0] if client else '?'}: {detail}")
        problem = problem_of_kind(ConfigError, status, f"{detail}. Ask for less at once")
        await problem_response(problem)(scope, receive, send)


def _over(scope: Scope, most: int) -> tuple[Limit, int, str] | None:
    """The limit that the head of a request exceeds, or the stated size of its body over `most` bytes; the status of the
    answer; and the finding.
    """
    url = len(scope["raw_path"]) + len(scope["query_string"]) + 1
    if url > URL_BYTES_MAX:
        return Limit.HTTP_HEAD, 414, f"the URL has {url} bytes, over the {URL_BYTES_MAX} that it may have"
    head = url + sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    if head > HEAD_BYTES_MAX:
        return Limit.HTTP_HEAD, 431, f"the head has {head} bytes, over the {HEAD_BYTES_MAX} that it may have"
    # 0 where there is no Content-Length. h11 has refused what is no number.
    stated = next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)
    if stated > most:
        return Limit.HTTP_BODY, 413, f"the body has {stated} bytes, over the {most} that it may have"
    return None


def depth_of(text: bytes) -> int:
    """The depth of nested lists and objects in JSON, in linear time. Text that is no JSON has a depth too."""
    brackets = _STRING.sub(b"", text).translate(_STEPS, _OTHERS)
    return max(accumulate(memoryview(brackets).cast("b"), initial=0))


def _once(body: bytes, receive: Receive) -> Receive:
    """The body that was taken in, then what comes after it: that the other side has gone."""
    given = False

    async def read() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return read
