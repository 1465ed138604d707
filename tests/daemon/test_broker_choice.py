"""Where the daemon's broker is said, with a password that nobody else reads; and the commit that it is of."""

import json
import subprocess
from pathlib import Path

import pytest

from hwd.daemon.broker_choice import chosen_broker
from hwd.daemon.commit import Commit, of_installation, of_tree
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


REFUSED = {
    (URL, 0o644): r"others can read it \(mode 644\), and a password is in it: chmod 600",
    (URL, 0o640): r"others can read it \(mode 640\)",
    (f"{URL} {URL}", 0o600): "holds 2 words, and one URL of a broker is wanted",
    ("\n", 0o600): "holds 0 words",
    ("http://10.0.0.1", 0o600): "cannot use this address",
}


async def test_a_file_or_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "broker"
    for (text, mode), words in REFUSED.items():
        file.write_text(text)
        file.chmod(mode)
        with pytest.raises(ConfigError, match=words):
            chosen_broker(None, {"HWD_MQTT_FILE": str(file)})
    file.write_text("mqtt://10.0.0.1")  # without a password others may read it
    file.chmod(0o644)
    assert chosen_broker(None, {"HWD_MQTT_FILE": str(file)}) == "mqtt://10.0.0.1"
    with pytest.raises(ConfigError, match="cannot use this address"):
        chosen_broker(None, {"HWD_MQTT": "10.0.0.1:1883"})
    options = ServeOptions(testbed=EXAMPLE, data=tmp_path / "data")
    with pytest.raises(ConfigError, match="HWD_MQTT_FILE /nowhere: cannot be read"):
        await serve(options, {"HWD_RUN_DIR": str(tmp_path), "HWD_MQTT_FILE": "/nowhere"})


def git(tree: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(tree), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_checkout_is_known_by_its_commit_and_by_whether_it_was_changed_and_else_it_is_told_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, inner = tmp_path / "tree", tmp_path / "tree/site-packages"
    inner.mkdir(parents=True)
    (checkout / "file").write_text("one\n")
    git(checkout, "init", "-q")
    git(checkout, "add", "file")
    git(checkout, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "one")
    short = git(checkout, "rev-parse", "--short", "HEAD")
    assert of_tree(checkout) == Commit(id=short, why_not="")
    (checkout / "file").write_text("two\n")
    assert of_tree(checkout).id == f"{short}-dirty"
    assert of_tree(inner).id is None, "it only lies in a checkout"
    assert "is no checkout of git" in of_tree(inner).why_not
    (checkout / ".git" / "HEAD").write_text("nonsense\n")
    assert of_tree(checkout).id is None
    assert "git says: fatal" in str(of_tree(checkout))
    monkeypatch.setenv("PATH", "/nowhere")
    assert "cannot ask git" in of_tree(checkout).why_not


def test_an_installation_from_a_commit_names_it() -> None:
    origin = {"url": "https://example.org/hwd.git", "vcs_info": {"vcs": "git", "commit_id": "0123abcd"}}
    assert of_installation(json.dumps(origin)) == Commit(id="0123abcd", why_not="")
    assert of_installation(json.dumps({"url": "file:///src", "dir_info": {"editable": True}})) is None
    assert of_installation(None) is None
