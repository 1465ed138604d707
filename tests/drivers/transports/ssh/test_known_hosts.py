"""Files of host keys, line by line as OpenSSH has them."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Draws
from hwd_drivers.transports.ssh.keys import HostTrust, public_line, twin_host_key
from hwd_drivers.transports.ssh.known_hosts import KnownHosts

from ....answers import check_answers

KEY = twin_host_key(Draws(1).stream("host"))
OTHER = twin_host_key(Draws(2).stream("host"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "known_hosts"


def test_key_is_revoked_for_the_hosts_that_a_line_names_and_marked_lines_that_cannot_be_read_are_errors(
    file: Path,
) -> None:
    def refused(call: Callable[[], object]) -> str:
        with pytest.raises(ConfigError) as found:
            call()
        return str(found.value).replace(str(file), "FILE")

    def revoked(asked: str) -> str:
        patterns, host = asked.split()
        file.write_text(f"@revoked {patterns} {public_line(KEY)} a comment\n{host} {public_line(KEY)}\n")
        known = KnownHosts([file])
        assert not known.is_revoked(host, OTHER)
        if known.is_revoked(host, KEY):
            return refused(lambda: known.check_revoked(host, KEY, "ocs1 shows it"))
        return "not revoked"

    def line(text: str) -> str:
        file.write_text(f"\n{text}\n")
        return refused(lambda: KnownHosts([file]))

    check_answers(Path(__file__).with_name("known_hosts.txt"), {"patterns and host": revoked, "line": line})


def test_hashed_name_of_openssh_is_found_and_blanks_and_tabs_may_stand_between_the_fields(file: Path) -> None:
    file.write_text(f"10.0.0.5 {public_line(KEY)}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True, timeout=20)
    hashed = file.read_text().split()[0]
    assert hashed.startswith("|1|")
    with file.open("a") as more:
        more.write(f"@revoked {hashed} {public_line(OTHER)}\n")
    known = KnownHosts([file])
    assert known.knows("10.0.0.5", KEY)
    assert known.is_revoked("10.0.0.5", OTHER)
    assert not known.is_revoked("10.0.0.6", OTHER)
    file.write_text(f"@revoked\t*  {public_line(KEY)}\n")
    assert KnownHosts([file]).is_revoked("ocs1", KEY)


def test_files_are_read_together_and_a_missing_one_counts_as_empty(file: Path, tmp_path: Path) -> None:
    file.write_text(
        f"# ours\n\nocs1 {public_line(KEY)}\nocs1 {public_line(OTHER)}\nocs2 ssh-new AAAA\nhalf\nocs3 ssh-rsa A\n"
    )
    (tmp_path / "more").write_text(f"@revoked ocs1 {public_line(KEY)}\n@cert-authority *.lab {public_line(OTHER)}\n")
    known = KnownHosts([file, tmp_path / "none", tmp_path / "more"])
    assert known.keys_of("ocs1") == (KEY, OTHER), "a host may have several keys of a kind"
    assert known.knows("ocs1", OTHER)
    assert known.is_revoked("ocs1", KEY)
    assert known.keys_of("ocs2") == known.keys_of("ocs3") == ()
    assert known.authority("ocs1.lab") == f"{tmp_path / 'more'}:2"
    assert known.authority("ocs1") is None


@pytest.mark.parametrize("trust_first", [True, False])
def test_switch_with_a_revoked_key_is_refused(file: Path, trust_first: bool) -> None:
    file.write_text(f"10.0.0.5 {public_line(KEY)}\n@revoked * {public_line(KEY)}\n")
    trust = HostTrust(known_hosts=file, trust_first=trust_first)
    for host in ("10.0.0.5", "10.0.0.6"):
        with pytest.raises(ConfigError, match=rf"ocs1: {host}:22 shows the host key .*, and {file}:2 revokes that key"):
            trust.check("ocs1", f"{host}:22", KEY)
    assert file.read_text().count("\n") == 2


def test_switch_that_an_authority_vouches_for_is_refused_in_words(file: Path) -> None:
    file.write_text(f"@cert-authority * {public_line(OTHER)}\n")
    with pytest.raises(ConfigError, match=rf"does not know 10.0.0.5 \({file}:1 names a certificate authority for it"):
        HostTrust(known_hosts=file).check("ocs1", "10.0.0.5:22", KEY)
