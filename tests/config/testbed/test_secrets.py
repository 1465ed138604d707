import logging
from pathlib import Path

import pytest

from hwd.config.testbed.secrets import resolve
from hwd.model.testbed import SecretRef
from hwd_drivers.core.errors import ConfigError


def test_secret_comes_from_the_environment_or_from_a_file_without_its_last_newline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert resolve(SecretRef(kind="env", name="PW"), environment={"PW": "hunter2"}) == "hunter2"
    path = tmp_path / "pw"
    path.touch(mode=0o600)
    path.write_text("hunter2\n")
    assert resolve(SecretRef(kind="file", name=str(path)), environment={}) == "hunter2"
    assert caplog.records == []


def test_file_that_others_may_read_is_warned_of_without_the_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "pw"
    path.write_text("hunter2")
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        assert resolve(SecretRef(kind="file", name=str(path)), environment={}) == "hunter2"
    assert caplog.messages == [f"secret file:{path} may be read by others (mode 644); chmod 600 it"]


def test_missing_secret_and_one_that_is_no_text_are_told_by_their_place(tmp_path: Path) -> None:
    path = tmp_path / "pw"
    path.write_bytes(b"\xffhunter2")
    refused = {
        SecretRef(kind="env", name="PW"): "env:PW: the environment variable is not set",
        SecretRef(kind="file", name="/none/pw"): "file:/none/pw: cannot be read: No such file or directory",
        SecretRef(kind="file", name=str(path)): f"file:{path}: not UTF-8: byte 0: invalid start byte. Save it as UTF-8",
    }
    for reference, said in refused.items():
        with pytest.raises(ConfigError) as caught:
            resolve(reference, environment={})
        assert str(caught.value).startswith(f"secret {said}")
        assert "hunter2" not in str(caught.value)
        assert reference.name != str(path) or caught.value.__cause__ is None
