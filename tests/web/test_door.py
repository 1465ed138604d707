from pathlib import Path

import pytest

from hwd.web.door import check_listen, is_loopback, read_tokens
from hwd_drivers.kit.errors import ConfigError, RefusedError

TOKEN = "a-long-enough-token"


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
