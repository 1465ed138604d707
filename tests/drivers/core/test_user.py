"""A user without a name or a home is one that containers have."""

import os
import pwd
from pathlib import Path

import pytest

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.user import home, in_home, name_user, user_name

NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME", "HOME")


@pytest.fixture
def nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs with a user id of its own: no entry of passwd, and an empty environment."""

    def missing(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", missing)
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("nameless")
def test_user_without_an_entry_is_named_by_its_number_and_a_missing_home_is_refused_with_what_to_set() -> None:
    assert user_name() == f"uid{os.getuid()}"
    environment: dict[str, str] = {}
    name_user(environment)
    assert environment == {"LOGNAME": f"uid{os.getuid()}", "HOME": "/nonexistent"}
    with pytest.raises(ConfigError, match=rf"home of user uid{os.getuid()} is not known: .*Set HOME or XDG_STATE_HOME"):
        home({"HOME": ""}, remedy=" or XDG_STATE_HOME")
    with pytest.raises(ConfigError, match=r"Set HOME, or write ~/secret as a whole path"):
        in_home("~/secret", {})
    assert in_home("/etc/secret", {}) == Path("/etc/secret")
    environment = {"LOGNAME": "ada"}
    name_user(environment)
    assert environment["HOME"] == "/nonexistent"
    with pytest.raises(ConfigError, match="Set HOME, or"):
        home(environment, remedy=", or --data")


def test_home_is_that_of_the_environment_then_that_of_passwd() -> None:
    assert home({"HOME": "/srv/ada"}, remedy="") == Path("/srv/ada")
    assert home({}, remedy="") == Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert in_home("~/a/b", {"HOME": "/srv/ada"}) == Path("/srv/ada/a/b")
    assert in_home("~root/x") == Path(pwd.getpwnam("root").pw_dir) / "x"
    with pytest.raises(ConfigError, match="no user no-such-user here"):
        in_home("~no-such-user/x")
