import asyncio
import ipaddress
import re
import string
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from hwd.model.request import Caller
from hwd.web.door import Door, caller_of, check_listen, host_of, read_tokens
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.ip_address import is_loopback

from ..answers import check_golden

DOOR = Path(__file__).with_name("door.txt")
TOKEN, SESSION = "a-long-enough-token", "the-session-of-this-life"
URL = "http://127.0.0.1:8642"
BY_TOKEN = {"Authorization": f"Bearer {TOKEN}"}
BY_COOKIE = {"Cookie": f"hwd-8642={SESSION}"}
PATH = "/api/v1/leases/abc/kick"
FOREIGN = [
    {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "http://evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:9090"},
    {"Origin": "http://127.0.0.1"},
    {"Origin": "file://127.0.0.1:8642"},
    {"Origin": "http://127.0.0.1:8642.evil.example"},
]


async def ask(
    method: str, headers: dict[str, str], *, url: str = URL, path: str = PATH, local: bool = True
) -> httpx2.Response:
    """Of an application behind the door, which answers everything that gets through."""

    async def at_our_port(scope: object, receive: object, send: object) -> None:
        assert isinstance(scope, dict)
        scope["server"] = ("127.0.0.1", 8642)
        await door(scope, receive, send)  # type: ignore[arg-type]

    door = Door(
        PlainTextResponse("done"), tokens=frozenset({TOKEN, "another-long-token"}), session=SESSION, local=local
    )
    behind = httpx2.ASGITransport(app=at_our_port)
    async with httpx2.AsyncClient(transport=behind, base_url=url, verify=False) as client:
        return await client.request(method, path, headers=headers)


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
WITHOUT_TOKEN: list[dict[str, str]] = [
    {},
    {"Authorization": TOKEN},
    {"Authorization": f"Basic {TOKEN}"},
    {"Authorization": "Bearer "},
    {"Authorization": f"Bearer {TOKEN}x"},
    {"Authorization": f"Bearer {TOKEN[:-1]}"},
    {"Cookie": f"hwd-8642={TOKEN}"},
    {"Cookie": f"hwd-8643={SESSION}"},
    {"Cookie": "hwd-8642="},
]
OWN_PAGES: list[dict[str, str]] = [
    {},
    {"Origin": URL, "Sec-Fetch-Site": "same-origin"},
    {"Origin": URL},
    {"Sec-Fetch-Site": "none"},
]
OWN_NAMES = ("127.0.0.1", "localhost:8642", "LOCALHOST", "[::1]", "[::1]:8642", "127.9.9.9:1")
OTHER_NAMES = (
    *("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example:8642", "10.0.0.1", "0.0.0.0"),
    *("[::1].evil.com", "[::1]evil.com", "[::1]:8642.evil.com", "[::1]:80:80", "[::1", "::1", "[::1]]", "[[::1]]"),
    *("[127.0.0.1]", "[localhost]", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", "127.0.0.1:8642:1", "127.0.0.1:-1"),
    *("user@127.0.0.1", "127.0.0.1/", "127.0.0.1#", "127.0.0.1?x", "127.0.0.1, evil.com", "127.0.0.1 "),
    *("%31%32%37.0.0.1", "localhost.", "127.1", "2130706433", "0x7f000001", "[::ffff:10.0.0.1]", "[::1%lo]", ""),
)
PUBLIC = ("/healthz", "/readyz", "/metrics")
Asked = tuple[str, str, dict[str, str]]
"""Method, path and headers."""

ASKED: dict[str, list[Asked]] = {
    "Without a token nobody comes in, from this machine either": [
        (method, PATH, headers) for method in METHODS for headers in WITHOUT_TOKEN
    ],
    "Who has a token comes in": [
        (method, PATH, headers)
        for method in METHODS
        for headers in (BY_TOKEN, {"Authorization": "bearer another-long-token"})
    ],
    "Watchdogs and Prometheus need none to read": [("GET", path, {}) for path in PUBLIC],
    "and to do more, or for a path that only looks like theirs, they do": [
        *(("POST", path, {}) for path in PUBLIC),
        *(
            ("GET", f"/api{other}", {})
            for path in PUBLIC
            for other in (f"{path}/", f"/x/..{path}", f"/{path}", f"{path}/../api/v1/status")
        ),
    ],
    "No body is taken in where no token is asked for": [
        ("GET", path, headers)
        for path in PUBLIC
        for headers in (
            {"Content-Length": "0"},
            {"Content-Length": "1"},
            {"Content-Length": "4194304"},
            {"Transfer-Encoding": "chunked"},
        )
    ],
    "A browser gets a cookie for the token and a page without it, and is sent nowhere else": [
        ("GET", f"{path}?token={TOKEN}", {})
        for path in (*("/api/v1/status", "//evil.example", "///evil.example/x", "/\\evil.example", "/%2Fevil.example"),)
    ],
    "A wrong token in an address opens nothing, and the right one changes nothing": [
        *(
            ("GET", f"/?{query}", {})
            for query in ("token=", "token=wrong", f"token={TOKEN}&token={TOKEN}", f"tok={TOKEN}", TOKEN)
        ),
        ("POST", f"{PATH}?token={TOKEN}", {}),
    ],
    "A page of others changes nothing with the cookie": [
        (method, PATH, headers | BY_COOKIE) for method in METHODS[1:] for headers in FOREIGN
    ],
    "and what it may read is left to the browser": [("GET", PATH, {"Origin": "http://evil.example"} | BY_COOKIE)],
    "Own pages change what they like": [("POST", PATH, headers | BY_COOKIE) for headers in OWN_PAGES],
    "A name that is not this machine's own is turned away with the token too": [
        ("GET", path, BY_TOKEN | BY_COOKIE | {"Host": host})
        for host in OTHER_NAMES
        for path in (PATH, "/metrics", f"/?token={TOKEN}")
    ],
    "This machine's own names are known": [("GET", PATH, BY_TOKEN | {"Host": host}) for host in OWN_NAMES],
}
SHOWN = ("WWW-Authenticate", "Location", "Set-Cookie", "Cache-Control", "Referrer-Policy")


async def test_who_comes_in_is_as_it_was() -> None:
    """To take over what is so now: delete the file and run this twice."""
    text, details = "", dict[str, None]()
    for title, asked in ASKED.items():
        text += f"{title}\n"
        for method, path, headers in asked:
            answer = await ask(method, headers, path=path)
            said = answer.text or "nothing"
            if answer.status_code >= 400:
                said = answer.json()["title"]
                details[answer.json()["detail"].replace(repr(headers.get("Host")), "HOST")] = None
            shown = "".join(f"; {name}: {answer.headers[name]}" for name in SHOWN if name in answer.headers)
            assert TOKEN not in str(answer.headers) + answer.text, "who sees the answer does not know the token"
            text += f"  {method} {path} {headers} -> {answer.status_code} {said}{shown}\n"
    check_golden(DOOR, text + "What was refused\n" + "".join(f"  {detail}\n" for detail in details))


async def test_own_page_is_known_by_the_name_that_it_was_asked_by() -> None:
    url = "http://localhost:8642"
    assert (await ask("POST", {"Origin": "http://LocalHost:8642", **BY_COOKIE}, url=url)).text == "done"
    assert (await ask("POST", {"Origin": URL, **BY_COOKIE}, url=url)).status_code == 403


async def test_token_is_all_that_is_asked_for_where_other_machines_come_in() -> None:
    """A form cannot send one, and a proxy may have a name of its own."""
    url = "https://rack.example"
    assert (await ask("POST", {**BY_TOKEN, "Origin": url}, url=url, local=False)).text == "done"
    assert (await ask("POST", {}, url=url, local=False)).status_code == 401


PORTS = st.just("") | st.integers(0, 65535).map(lambda port: f":{port}")
NAMES = st.text(string.ascii_letters + string.digits + "-_.", min_size=1, max_size=60)


@given(NAMES, PORTS)
def test_a_name_is_what_stands_before_its_port(name: str, port: str) -> None:
    assert host_of(name + port) == name


@given(st.integers(0, (1 << 128) - 1).map(ipaddress.IPv6Address), PORTS)
def test_an_ipv6_address_stands_in_brackets(address: ipaddress.IPv6Address, port: str) -> None:
    assert host_of(f"[{address}]{port}") == str(address)
    assert host_of(f"[{address.exploded}]{port}") == str(address)
    assert host_of(f"{address}{port}") is None


@given(
    st.sampled_from(["[::1]", "127.0.0.1", "localhost", "[::1]:8642", "127.0.0.1:8642"]),
    st.text(min_size=1, max_size=12),
)
@example("[::1]", ".evil.com")
@example("127.0.0.1", "\n")
@example("127.0.0.1", ":\u0661")
def test_what_is_more_than_a_host_and_a_port_is_never_this_machine(host: str, more: str) -> None:
    """A name that goes on is another name; a port that goes on is another port; all else is none."""
    for text in (host + more, more + host):
        found = host_of(text)
        if found is not None and is_loopback(found):
            name = re.sub(r":[0-9]{1,5}$", "", text)
            bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
            assert bare.lower() == "localhost" or ipaddress.ip_address(bare).is_loopback
            assert (":" in bare) == name.startswith("[")


def test_this_machine_needs_no_tokens_and_other_machines_get_in_by_token_only() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9"):
        assert is_loopback(host)
        check_listen(host, frozenset())
    for host in ("0.0.0.0", "::", "10.0.0.1", "rack.example"):
        with pytest.raises(RefusedError, match="no tokens are set"):
            check_listen(host, frozenset())
        check_listen(host, frozenset({TOKEN}))


def test_tokens_come_from_the_environment_and_a_file(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("# of the night shift\nada another-long-enough-token\n\n")
    tokens = read_tokens({"HWD_TOKENS": f"{TOKEN}, ", "HWD_TOKENS_FILE": str(tmp_path / "tokens")})
    assert tokens == {TOKEN: "", "another-long-enough-token": "ada"}


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_file_of_tokens_that_everybody_may_read_is_warned_of(
    tmp_path: Path, mode: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "tokens").write_text(TOKEN)
    (tmp_path / "tokens").chmod(mode)
    read_tokens({"HWD_TOKENS_FILE": str(tmp_path / "tokens")})
    assert ("every user of this machine may read it (mode 644)" in caplog.text) is warned
    assert TOKEN not in caplog.text


def test_tokens_that_are_short_or_cannot_be_read_are_bad_input_and_stay_unsaid() -> None:
    assert read_tokens({}) == {}
    with pytest.raises(ConfigError, match="shorter than 16") as raised:
        read_tokens({"HWD_TOKENS": "hunter2"})
    assert "hunter2" not in str(raised.value)
    with pytest.raises(ConfigError, match="HWD_TOKENS_FILE /nowhere: cannot be read"):
        read_tokens({"HWD_TOKENS_FILE": "/nowhere"})


async def test_without_tokens_and_session_nobody_comes_in() -> None:
    door = Door(PlainTextResponse("done"), tokens=frozenset(), session="", local=True)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=door), base_url=URL, verify=False) as client:
        for headers in ({}, {"Cookie": "hwd-8642="}, {"Authorization": "Bearer "}):
            assert (await client.get(PATH, headers=headers)).status_code == 401


async def test_of_many_strangers_one_goes_on_in_a_round_of_the_loop() -> None:
    """256 answers in a row kept the loop from all other work for 0.8 s, and agents counted as disconnected."""
    loop = asyncio.get_running_loop()
    rounds, worked, ticking = 0, list[int](), loop.call_soon(lambda: None)

    def tick() -> None:
        nonlocal rounds, ticking
        rounds += 1
        ticking = loop.call_soon(tick)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            worked.append(rounds)
            yield b"x"

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await StreamingResponse(pieces())(scope, receive, send)

    door = Door(app, tokens=frozenset({TOKEN}), session=SESSION, local=True)
    ticking = loop.call_soon(tick)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=door), base_url=URL, verify=False) as client:
        answers = await asyncio.gather(*(client.get("/metrics") for _ in range(20)))
        ticking.cancel()
    assert {answer.text for answer in answers} == {"xxx"}
    assert len(worked) == len(set(worked)) == 60


async def test_token_with_a_name_says_who_asks_and_no_other_does() -> None:
    callers: list[Caller | None] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        callers.append(caller_of(HTTPConnection(scope)))
        await PlainTextResponse("done")(scope, receive, send)

    tokens = frozenset({TOKEN, "another-long-token"})
    door = Door(app, tokens=tokens, session=SESSION, local=True, names={TOKEN: "ada"})
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=door), base_url=URL, verify=False) as client:
        for headers in (BY_TOKEN, {"Authorization": "Bearer another-long-token"}):
            assert (await client.post(PATH, headers=headers)).status_code == 200
    assert callers == [Caller(name="ada", is_verified=True), None]
