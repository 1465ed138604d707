"""The token that a daemon draws for itself, and the group that may read it."""

import grp
import os
import stat
from pathlib import Path

import pytest

from hwd.daemon.installed_drivers import check, load
from hwd.daemon.token import Token
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import RandomIds

TESTBED = "testbed: t\nswitches: {}\nhosts: {}\nfibres: []\naccess_group: GROUP\n"
IDS = RandomIds()


def some_group() -> str:
    gids = set(os.getgroups()) - {os.getegid()} or (
        {one.gr_gid for one in grp.getgrall()} if os.geteuid() == 0 else set()
    )
    for gid in sorted(gids - {0}):
        return grp.getgrgid(gid).gr_name
    pytest.skip("needs a second group")


def test_the_testbed_names_the_group_that_may_read_it(tmp_path: Path) -> None:
    group = some_group()
    (tmp_path / "t.yaml").write_text(TESTBED.replace("GROUP", group))
    testbed = load(tmp_path / "t.yaml").require()
    assert testbed.access_group == group
    token = Token.load(tmp_path, IDS, group=testbed.access_group)
    assert (stat.S_IMODE(token.path.stat().st_mode), token.path.group()) == (0o640, group)
    assert Token.load(tmp_path, IDS, group=group) == token
    assert token.text not in repr(token)


def test_a_group_that_is_not_here_is_told_by_check_and_refused_by_serve(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TESTBED.replace("GROUP", "no-such-group"))
    assert load(tmp_path / "t.yaml").require().access_group == "no-such-group"
    (problem,) = check([tmp_path / "t.yaml"], {})
    assert str(problem).endswith(
        "t.yaml:5: access_group: warning: group no-such-group does not exist on this machine; "
        "without it no daemon starts here"
    )
    assert problem.warning
    with pytest.raises(ConfigError, match="no group 'no-such-group'"):
        Token.load(tmp_path, IDS, group="no-such-group")


@pytest.mark.parametrize("group", ["../x", "a b", "", "Lab"])
def test_what_is_no_group_is_bad_input(tmp_path: Path, group: str) -> None:
    (tmp_path / "t.yaml").write_text(TESTBED.replace("GROUP", repr(group)))
    (problem,) = load(tmp_path / "t.yaml").problems
    assert not problem.warning


def test_a_folder_that_the_group_cannot_pass_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    group = some_group()
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    Token.load(data, IDS, group=group)
    assert "cannot get there: it may not pass" in caplog.text
    for folder in (data, *data.parents):
        if folder.stat().st_uid != os.geteuid() or folder == Path("/"):
            break
        folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    caplog.clear()
    Token.load(data, IDS, group=group)
    assert caplog.text == ""


def test_a_token_that_can_be_guessed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text("short\n")
    with pytest.raises(ConfigError, match="is shorter than 16 characters") as raised:
        Token.load(tmp_path, IDS, group=None)
    assert "short\n" not in str(raised.value)
