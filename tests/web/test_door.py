import asyncio
import ipaddress
import re
import string
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
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
) -> httpx.Response:
    """Of an application behind the door, which answers everything that gets through."""

    async def at_our_port(scope: object, receive: object, send: object) -> None:
        assert isinstance(scope, dict)
        scope["server"] = ("127.0.0.1", 8642)
        await door(scope, receive, send)  # type: ignore[arg-type]

    door = Door(
        PlainTextResponse("done"), tokens=frozenset({TOKEN, "another-long-token"}), session=SESSION, local=local
    )
    behind = httpx.ASGITransport(app=at_our_port)
    async with httpx.AsyncClient(transport=behind, base_url=url, verify=False) as client:
        return await client.request(method, path, headers=headers)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Cookie": f"hwd-8642={TOKEN}"},
        {"Cookie": f"hwd-8643={SESSION}"},
        {"Cookie": "hwd-8642="},
    ],
)
async def test_without_a_token_nobody_comes_in_from_this_machine_either(method: str, headers: dict[str, str]) -> None:
    answer = await ask(method, headers)
    assert (answer.status_code, answer.json()["title"], answer.headers["WWW-Authenticate"]) == (
        401,
        "refused",
        "Bearer",
    )
    assert "`hwd token` prints it" in answer.json()["detail"]


async def test_who_has_a_token_comes_in() -> None:
    for method in ("GET", "POST", "DELETE"):
        assert (await ask(method, BY_TOKEN)).text == "done"
        assert (await ask(method, {"Authorization": "bearer another-long-token"})).text == "done"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_watchdogs_and_prometheus_need_none_to_read(path: str) -> None:
    assert (await ask("GET", {}, path=path)).text == "done"
    assert (await ask("POST", {}, path=path)).status_code == 401
    for other in (f"{path}/", f"/x/..{path}", f"/{path}", f"{path}/../api/v1/status"):
        assert (await ask("GET", {}, path=f"/api{other}")).status_code == 401


@pytest.mark.parametrize(
    "headers", [{"Content-Length": "1"}, {"Content-Length": "4194304"}, {"Transfer-Encoding": "chunked"}]
)
async def test_no_body_is_taken_in_where_no_token_is_asked_for(headers: dict[str, str]) -> None:
    for path in ("/healthz", "/metrics"):
        assert (await ask("GET", headers, path=path)).status_code == 413
    assert (await ask("GET", {"Content-Length": "0"}, path="/healthz")).text == "done"


async def test_a_browser_gets_a_cookie_for_the_token_and_a_page_without_it() -> None:
    answer = await ask("GET", {}, path=f"/api/v1/status?token={TOKEN}")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/api/v1/status")
    cookie = answer.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert TOKEN not in str(answer.headers) + answer.text, "who sees the cookie does not know the token"
    assert (answer.headers["Cache-Control"], answer.headers["Referrer-Policy"]) == ("no-store", "no-referrer")
    assert (await ask("GET", BY_COOKIE)).text == "done"


@pytest.mark.parametrize("path", ["//evil.example", "///evil.example/x", "/\\evil.example", "/%2Fevil.example"])
async def test_it_is_sent_nowhere_else(path: str) -> None:
    location = (await ask("GET", {}, path=f"{path}?token={TOKEN}")).headers["Location"]
    assert urlsplit(location).netloc == ""
    assert location.startswith("/")
    assert location[1:2] not in ("/", "\\")


@pytest.mark.parametrize("query", ["token=", "token=wrong", f"token={TOKEN}&token={TOKEN}", f"tok={TOKEN}", TOKEN])
async def test_a_wrong_token_in_an_address_opens_nothing(query: str) -> None:
    answer = await ask("GET", {}, path=f"/?{query}")
    assert answer.status_code == 401
    assert "Set-Cookie" not in answer.headers


async def test_a_token_in_an_address_changes_nothing() -> None:
    assert (await ask("POST", {}, path=f"{PATH}?token={TOKEN}")).status_code == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("headers", FOREIGN)
async def test_a_page_of_others_changes_nothing_with_the_cookie(method: str, headers: dict[str, str]) -> None:
    answer = await ask(method, {**headers, **BY_COOKIE})
    assert (answer.status_code, answer.json()["title"]) == (403, "refused")
    assert "web page" in answer.json()["detail"]
    assert "WWW-Authenticate" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": URL, "Sec-Fetch-Site": "same-origin"}, {"Origin": URL}, {"Sec-Fetch-Site": "none"}],
)
async def test_own_pages_change_what_they_like(headers: dict[str, str]) -> None:
    assert (await ask("POST", {**headers, **BY_COOKIE})).text == "done"


async def test_own_page_is_known_by_the_name_that_it_was_asked_by() -> None:
    url = "http://localhost:8642"
    assert (await ask("POST", {"Origin": "http://LocalHost:8642", **BY_COOKIE}, url=url)).text == "done"
    assert (await ask("POST", {"Origin": URL, **BY_COOKIE}, url=url)).status_code == 403


async def test_reading_is_left_to_the_browser_to_keep_from_others() -> None:
    assert (await ask("GET", {"Origin": "http://evil.example", **BY_COOKIE})).text == "done"


async def test_token_is_all_that_is_asked_for_where_other_machines_come_in() -> None:
    """A form cannot send one, and a proxy may have a name of its own."""
    url = "https://rack.example"
    assert (await ask("POST", {**BY_TOKEN, "Origin": url}, url=url, local=False)).text == "done"
    assert (await ask("POST", {}, url=url, local=False)).status_code == 401


@pytest.mark.parametrize(
    "host",
    [
        *(
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evil.example:8642",
            "10.0.0.1",
            "0.0.0.0",
        ),
        *("[::1].evil.com", "[::1]evil.com", "[::1]:8642.evil.com", "[::1]:80:80", "[::1", "::1", "[::1]]", "[[::1]]"),
        *(
            "[127.0.0.1]",
            "[localhost]",
            "127.0.0.1:",
            "127.0.0.1:x",
            "127.0.0.1:99999",
            "127.0.0.1:8642:1",
            "127.0.0.1:-1",
        ),
        *(
            "user@127.0.0.1",
            "127.0.0.1/",
            "127.0.0.1#",
            "127.0.0.1?x",
            "127.0.0.1, evil.com",
            "127.0.0.1 ",
            "%31%32%37.0.0.1",
        ),
        *("localhost.", "127.1", "2130706433", "0x7f000001", "[::ffff:10.0.0.1]", "[::1%lo]", ""),
    ],
)
@pytest.mark.parametrize("path", [PATH, "/metrics", f"/?token={TOKEN}"])
async def test_a_name_that_is_not_this_machines_own_is_turned_away_with_the_token_too(host: str, path: str) -> None:
    answer = await ask("GET", {**BY_TOKEN, **BY_COOKIE, "Host": host}, path=path)
    assert (answer.status_code, answer.json()["title"]) == (403, "refused")
    assert "not this machine" in answer.json()["detail"]
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8642", "LOCALHOST", "[::1]", "[::1]:8642", "127.9.9.9:1"])
async def test_this_machines_own_names_are_known(host: str) -> None:
    assert (await ask("GET", {**BY_TOKEN, "Host": host})).text == "done"


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


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.9.9.9"])
def test_this_machine_needs_no_tokens(host: str) -> None:
    assert is_loopback(host)
    check_listen(host, frozenset())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "rack.example"])
def test_other_machines_get_in_by_token_only(host: str) -> None:
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


def test_no_tokens_are_none() -> None:
    assert read_tokens({}) == {}


def test_a_short_token_is_bad_input_and_stays_unsaid() -> None:
    with pytest.raises(ConfigError, match="shorter than 16") as raised:
        read_tokens({"HWD_TOKENS": "hunter2"})
    assert "hunter2" not in str(raised.value)


def test_a_file_that_is_not_there_is_bad_input() -> None:
    with pytest.raises(ConfigError, match="HWD_TOKENS_FILE /nowhere: cannot be read"):
        read_tokens({"HWD_TOKENS_FILE": "/nowhere"})


async def test_without_tokens_and_session_nobody_comes_in() -> None:
    door = Door(PlainTextResponse("done"), tokens=frozenset(), session="", local=True)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=door), base_url=URL, verify=False) as client:
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
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=door), base_url=URL, verify=False) as client:
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
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=door), base_url=URL, verify=False) as client:
        for headers in (BY_TOKEN, {"Authorization": "Bearer another-long-token"}):
            assert (await client.post(PATH, headers=headers)).status_code == 200
    assert callers == [Caller(name="ada", is_verified=True), None]
