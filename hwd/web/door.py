"""The door: access to the daemon with a token, and protection against foreign web pages."""

import asyncio
import hmac
import ipaddress
import logging
import re
import stat
from collections.abc import Collection, Mapping
from types import MappingProxyType
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hwd.model.request import Caller
from hwd.web.problem import problem_of_kind, problem_response
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.ip_address import is_loopback
from hwd_drivers.core.user_file import read_user_file

OPEN = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths that need no token, for watchdogs and Prometheus: they report the state of the rack, and no secret."""
SHORTEST_TOKEN = 16
"""Characters; fewer can be guessed over a fast network."""
TOKENS_BYTES_MAX = 1_000_000
"""The limit of a file with tokens."""
READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing; a page of another origin cannot read what they answer."""
OWN_SITES = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site for our own pages and typed addresses. Another port of this machine is `same-site`."""
TOKEN_QUERY = "token"
CALLER = "caller"
"""In the `state` of a request with a token that has a name."""
STRANGER = "stranger"
"""In the `state` of a request without a token: its connection may be closed when there are too many."""

log = logging.getLogger(__name__)

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253}))(?::([0-9]{1,5}))?")


class Door:
    """ASGI middleware that admits requests with one of `tokens` as `Authorization: Bearer`, or with the cookie.

    No foreign page can send that header. A browser opens a page once with `?token=TOKEN`. It is redirected to the page
    without it, and gets the cookie `session` of this process of the daemon. A page of another origin cannot change
    anything by that cookie.

    `names`: the name of each token that has one; requests with it carry that name, see `caller_of`.

    `local`, for a daemon on loopback alone: only requests to this machine's own names are answered, which stops DNS
    rebinding. Refused requests are answered one after the other, piece by piece.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: frozenset[str],
        session: str,
        local: bool,
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._names = names
        self._session = session
        self._local = local
        self._turns = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_open = scope["path"] in OPEN and scope["method"] in READING
        answer = self._answer(scope, is_open=is_open)
        if answer is None and not is_open:
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})[STRANGER] = True
        await self._turn()

        async def in_turn(message: Message) -> None:
            await send(message)
            await self._turn()

        await (answer or self._app)(scope, receive, in_turn)

    async def _turn(self) -> None:
        """Let one refused request go on in each round of the loop, so that many of them do not delay the daemon."""
        async with self._turns:
            await asyncio.sleep(0)

    def _answer(self, scope: Scope, *, is_open: bool) -> ASGIApp | None:
        """The answer to a request that is refused; None where it is admitted."""
        headers = Headers(scope=scope)
        host = host_of(headers.get("host", ""))
        if host is None or (self._local and not is_loopback(host)):
            return _refusal(
                f"host {headers.get('host', '')!r} is not this machine's own name for itself. "
                "Ask by 127.0.0.1, or set HWD_TOKENS for the daemon",
                403,
            )
        if is_open:
            return _refusal("no body goes with this request", 413) if _has_body(headers) else None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._knows(given.strip()):
            if name := self._names.get(given.strip()):
                scope.setdefault("state", {})[CALLER] = Caller(name=name, is_verified=True)
            return None
        name = _cookie(scope)
        if self._session and _equal(HTTPConnection(scope).cookies.get(name, ""), self._session):
            why = "" if scope["method"] in READING else _why_foreign(headers)
            return _refusal(why, 403) if why else None
        asked = parse_qs(scope["query_string"].decode("latin-1")).get(TOKEN_QUERY, [])
        if scope["method"] == "GET" and len(asked) == 1 and self._knows(asked[0]):
            return _to_page(scope["path"], name, self._session)
        return _refusal(
            "no valid token. `hwd` and the Python client find that of this user's daemon on this machine; "
            "else set HWD_TOKEN or HWD_TOKEN_FILE, or send "
            "`Authorization: Bearer TOKEN`. `hwd token` prints it",
            401,
        )

    def _knows(self, given: str) -> bool:
        """Compares every token, so that the time of the answer reveals nothing."""
        known = [_equal(given, token) for token in sorted(self._tokens)]
        return any(known)


def check_listen(host: str, tokens: Collection[str]) -> None:
    """Raises RefusedError where `host` can be reached from other machines and no tokens were set."""
    if not tokens and not is_loopback(host):
        raise RefusedError(
            f"http {host}: it can be reached from other machines, and no tokens are set. "
            "Set HWD_TOKENS or HWD_TOKENS_FILE, or listen on 127.0.0.1"
        )


def caller_of(request: HTTPConnection) -> Caller | None:
    """Who sends a request, by the name of its token; None where that has no name."""
    caller = request.scope.get("state", {}).get(CALLER)
    return caller if isinstance(caller, Caller) else None


def read_tokens(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Tokens with their names from HWD_TOKENS (separated by commas) or from the file in HWD_TOKENS_FILE.

    The file has one on a line, and `#` before remarks. A name stands before its token, with a blank between: `ada
    4f1c...`; it is empty where a token has none. A file that everybody may read is a warning.
    """
    text = environment.get("HWD_TOKENS", "").replace(",", "\n")
    if name := environment.get("HWD_TOKENS_FILE"):
        file = read_user_file(name, most_bytes=TOKENS_BYTES_MAX, what=f"HWD_TOKENS_FILE {name}", pipes=True)
        text += "\n" + file.text()
        if file.mode & stat.S_IROTH:
            log.warning(
                "HWD_TOKENS_FILE %s: every user of this machine may read it (mode %o), and has all rights by that; "
                "chmod o-r it, and change the tokens",
                name,
                file.mode,
            )
    lines = [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]
    tokens = {token: name.strip() for name, _, token in (line.rpartition(" ") for line in lines)}
    if any(len(token) < SHORTEST_TOKEN for token in tokens):
        raise ConfigError(f"HWD_TOKENS: a token is shorter than {SHORTEST_TOKEN} characters. Take a longer one")
    return tokens


def host_of(header: str) -> str | None:
    """The host of a `Host` header (RFC 9110 7.2, RFC 3986 3.2), IPv6 without brackets; None if it is invalid."""
    match = _HOST.fullmatch(header)
    if match is None or int(match[3] or 0) > 65535:
        return None
    if match[1] is None:
        return match[2]
    try:
        return str(ipaddress.IPv6Address(match[1]))
    except ValueError:
        return None


def _has_body(headers: Headers) -> bool:
    """The body of a request without a token is not read."""
    return "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""


def _equal(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), known.encode())


def _cookie(scope: Scope) -> str:
    """Browsers keep cookies by host and not by port: those of two daemons of a machine have names of their own."""
    server = scope.get("server")
    return f"hwd-{server[1] if server else 0}"


def _to_page(path: str, cookie: str, session: str) -> RedirectResponse:
    """Redirect to the page without its token. The cookie is for no script and for no request that begins on another
    site.
    """
    headers = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    answer = RedirectResponse(f"/{quote(path.lstrip('/'))}", 303, headers)
    answer.set_cookie(cookie, session, httponly=True, samesite="strict")
    return answer


def _why_foreign(headers: Headers) -> str:
    """Browsers say where a request comes from, by `Origin` or `Sec-Fetch-Site`."""
    host = headers.get("host", "")
    remedy = "Ask from a page of the daemon's own address, or by the command line"
    for origin in headers.getlist("origin"):
        scheme, _, rest = origin.partition("://")
        if scheme not in ("http", "https") or rest.lower() != host.lower():
            return f"it comes from a web page of {origin!r}, and this is {host!r}. {remedy}"
    for site in headers.getlist("sec-fetch-site"):
        if site not in OWN_SITES:
            return f"it comes from a web page of another origin ({site}). {remedy}"
    return ""


def _refusal(why: str, status: int) -> Response:
    problem = problem_of_kind(RefusedError, status, why)
    return problem_response(problem, {"WWW-Authenticate": "Bearer"} if status == 401 else None)
