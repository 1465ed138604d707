"""Places of SSH servers, as people write them."""

import pytest

from hwd.model.ssh import SshPlace


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("h0", SshPlace(address="h0")),
        ("root@10.0.0.10", SshPlace(address="10.0.0.10", user="root")),
        ("lab@h0.example:2222", SshPlace(address="h0.example", user="lab", port=2222)),
        ("[fe80::1%eth0]:22", SshPlace(address="fe80::1%eth0", port=22)),
        ("a@b@h0", SshPlace(address="h0", user="a@b")),
    ],
)
def test_a_place_is_read_and_shown_as_it_was_written(text: str, place: SshPlace) -> None:
    assert SshPlace.parse(text) == place
    assert str(place) == text
