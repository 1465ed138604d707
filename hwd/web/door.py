"""The door: who may talk to the daemon. Tokens where they are set; else this machine only, and no web page that a browser was lured to."""

import hmac
import ipaddress
from collections.abc import Mapping
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from hwd.web.problem import MEDIA_TYPE, type_of
from hwd_drivers.kit.errors import ConfigError, RefusedError

OPEN = frozenset({"/healthz", "/readyz"})
"""Paths that a watchdog asks without a token: they tell of no more than up and down."""
SHORTEST_TOKEN = 16
"""Characters; fewer can be guessed over a fast network."""
READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing; a page of another origin cannot read what they answer."""
OWN_SITES = frozenset({"same-origin", "none"})
"""What a browser says in Sec-Fetch-Site of our own pages, and of what was typed. Another port of this machine is `same-site`, and is not ours."""


class Door:
    """ASGI middleware. With tokens: one of them as `Authorization: Bearer`, which no page of others can make a browser send.

    Without: a `Host` that is this machine's own name for itself; and what changes something does not come from a page of another origin.
    """

    def __init__(self, app: ASGIApp, *, tokens: frozenset[str] = frozenset()) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN:
            headers = Headers(scope=scope)
            if why := self._why_not(headers):
                await _refusal(why, 401)(scope, receive, send)
                return
            if not self._tokens and scope["method"] not in READING and (why := _why_foreign(headers)):
                await _refusal(why, 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _why_not(self, headers: Headers) -> str:
        if not self._tokens:
            host = headers.get("host", "")
            if is_loopback(_without_port(host)):
                return ""
            return f"host {host!r} is not this machine. Ask by 127.0.0.1, or set HWD_TOKENS for the daemon"
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Every token is compared, so that the time tells nothing.
        known = [hmac.compare_digest(given.strip().encode(), token.encode()) for token in sorted(self._tokens)]
        if scheme.lower() == "bearer" and any(known):
            return ""
        return "no valid token. Set HWD_TOKEN, or send `Authorization: Bearer TOKEN`"


def check_listen(host: str, tokens: frozenset[str]) -> None:
    """Raises RefusedError where `host` can be reached from other machines and there are no tokens."""
    if not tokens and not is_loopback(host):
        raise RefusedError(
            f"http {host}: it can be reached from other machines, and no tokens are set. Set HWD_TOKENS or HWD_TOKENS_FILE, or listen on 127.0.0.1"
        )


def read_tokens(environment: Mapping[str, str]) -> frozenset[str]:
    """Tokens from HWD_TOKENS (commas between) or the file that HWD_TOKENS_FILE names (a line each, `#` for remarks)."""
    text = environment.get("HWD_TOKENS", "").replace(",", "\n")
    if name := environment.get("HWD_TOKENS_FILE"):
        try:
            text += "\n" + Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"HWD_TOKENS_FILE {name}: cannot be read: {error}") from error
    tokens = frozenset(line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#"))
    if any(len(token) < SHORTEST_TOKEN for token in tokens):
        raise ConfigError(f"HWD_TOKENS: a token is shorter than {SHORTEST_TOKEN} characters. Take a longer one")
    return tokens


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _why_foreign(headers: Headers) -> str:
    """Browsers say where a request comes from, by `Origin` or `Sec-Fetch-Site`; the clients of hwd say nothing."""
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


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _refusal(why: str, status: int) -> JSONResponse:
    data = {
        "type": type_of(RefusedError.title),
        "title": RefusedError.title,
        "status": status,
        "detail": why,
        "exit_status": RefusedError.exit_status,
    }
    return JSONResponse(data, status, {"WWW-Authenticate": "Bearer"} if status == 401 else None, MEDIA_TYPE)
