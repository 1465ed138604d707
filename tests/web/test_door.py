from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse

from hwd.web.door import Door, check_listen, is_loopback, read_tokens
from hwd_drivers.kit.errors import ConfigError, RefusedError

TOKEN = "a-long-enough-token"
URL = "http://127.0.0.1:8642"


async def ask(
    method: str, headers: dict[str, str], *, url: str = URL, tokens: frozenset[str] = frozenset()
) -> httpx.Response:
    """Of an application behind the door, which answers everything that gets through."""
    behind = httpx.ASGITransport(app=Door(PlainTextResponse("done"), tokens=tokens))
    async with httpx.AsyncClient(transport=behind, base_url=url, verify=False) as client:
        return await client.request(method, "/api/v1/leases/abc/kick", headers=headers)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9090"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "file://127.0.0.1:8642"},
        {"Origin": "http://127.0.0.1:8642.evil.example"},
    ],
)
async def test_a_page_of_others_changes_nothing(method: str, headers: dict[str, str]) -> None:
    answer = await ask(method, headers)
    assert (answer.status_code, answer.json()["title"]) == (403, "refused")
    assert "web page" in answer.json()["detail"]
    assert "WWW-Authenticate" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": URL, "Sec-Fetch-Site": "same-origin"}, {"Origin": URL}, {"Sec-Fetch-Site": "none"}],
)
async def test_own_pages_and_programs_change_what_they_like(headers: dict[str, str]) -> None:
    assert (await ask("POST", headers)).text == "done"


async def test_own_page_is_known_by_the_name_that_it_was_asked_by() -> None:
    assert (await ask("POST", {"Origin": "http://LocalHost:8642"}, url="http://localhost:8642")).text == "done"
    assert (await ask("POST", {"Origin": URL}, url="http://localhost:8642")).status_code == 403


async def test_reading_is_left_to_the_browser_to_keep_from_others() -> None:
    assert (await ask("GET", {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"})).text == "done"


async def test_token_is_all_that_is_asked_for_where_there_are_some() -> None:
    """A form cannot send one, and a proxy may have a name of its own."""
    by = {"Authorization": f"Bearer {TOKEN}", "Origin": "https://rack.example"}
    assert (await ask("POST", by, tokens=frozenset({TOKEN}))).text == "done"
    without = await ask("POST", {"Origin": "http://evil.example"}, tokens=frozenset({TOKEN}))
    assert (without.status_code, without.headers["WWW-Authenticate"]) == (401, "Bearer")


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
    (tmp_path / "tokens").write_text("# of the night shift\nanother-long-enough-token\n\n")
    tokens = read_tokens({"HWD_TOKENS": f"{TOKEN}, ", "HWD_TOKENS_FILE": str(tmp_path / "tokens")})
    assert tokens == {TOKEN, "another-long-enough-token"}


def test_no_tokens_are_none() -> None:
    assert read_tokens({}) == frozenset()


def test_a_short_token_is_bad_input_and_stays_unsaid() -> None:
    with pytest.raises(ConfigError, match="shorter than 16") as raised:
        read_tokens({"HWD_TOKENS": "hunter2"})
    assert "hunter2" not in str(raised.value)


def test_a_file_that_is_not_there_is_bad_input() -> None:
    with pytest.raises(ConfigError, match="HWD_TOKENS_FILE /nowhere: cannot be read"):
        read_tokens({"HWD_TOKENS_FILE": "/nowhere"})
