"""Where the daemon's broker is said: a password of it is on no command line, and in no file of others."""

from pathlib import Path

import pytest

from hwd.daemon.broker_choice import chosen_broker
from hwd.daemon.serve import ServeOptions, serve
from hwd_drivers.core.errors import ConfigError

URL = "mqtt://hwd:geheim@10.0.0.1:1883"
EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"


def test_the_command_line_comes_before_the_environment_and_the_environment_before_a_file(tmp_path: Path) -> None:
    file = tmp_path / "broker"
    file.write_text(f"{URL}\n")
    file.chmod(0o600)
    environment = {"HWD_MQTT_FILE": str(file)}
    assert chosen_broker(None, {}) == "embedded"
    assert chosen_broker(None, environment) == URL
    environment["HWD_MQTT"] = "mqtt://10.0.0.2"
    assert chosen_broker(None, environment) == "mqtt://10.0.0.2"
    assert chosen_broker("mqtt://hwd@10.0.0.3", environment) == "mqtt://hwd@10.0.0.3"
    assert chosen_broker("embedded:127.0.0.1:1", environment) == "embedded:127.0.0.1:1"


async def test_a_password_on_the_command_line_is_refused_without_being_said_again(tmp_path: Path) -> None:
    options = ServeOptions(testbed=EXAMPLE, mqtt=URL, data=tmp_path / "data")
    with pytest.raises(ConfigError, match=r"--mqtt mqtt://hwd@10\.0\.0\.1:1883: .*HWD_MQTT.*HWD_MQTT_FILE") as error:
        await serve(options, {"HWD_RUN_DIR": str(tmp_path)})
    assert "geheim" not in str(error.value)


async def test_the_daemon_asks_the_environment(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="HWD_MQTT_FILE /nowhere: cannot be read"):
        await serve(
            ServeOptions(testbed=EXAMPLE, data=tmp_path / "data"),
            {"HWD_RUN_DIR": str(tmp_path), "HWD_MQTT_FILE": "/nowhere"},
        )


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        (URL, 0o644, r"others can read it \(mode 644\), and a password is in it: chmod 600"),
        (URL, 0o640, r"others can read it \(mode 640\)"),
        (f"{URL} {URL}", 0o600, "holds 2 words, and one URL of a broker is wanted"),
        ("\n", 0o600, "holds 0 words"),
        ("http://10.0.0.1", 0o600, r"cannot use this address"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, mode: int, words: str) -> None:
    file = tmp_path / "broker"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(ConfigError, match=words):
        chosen_broker(None, {"HWD_MQTT_FILE": str(file)})


def test_a_file_without_a_password_may_be_read_by_others(tmp_path: Path) -> None:
    file = tmp_path / "broker"
    file.write_text("mqtt://10.0.0.1")
    file.chmod(0o644)
    assert chosen_broker(None, {"HWD_MQTT_FILE": str(file)}) == "mqtt://10.0.0.1"


def test_an_address_in_the_environment_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot use this address"):
        chosen_broker(None, {"HWD_MQTT": "10.0.0.1:1883"})
