"""What a client says where no daemon answers."""

import httpx
import pytest

from hwd.client.connection import unreachable

REMEDY = (
    "`hwd serve TESTBED` starts one, which first settles the reconfigurations that a killed one left "
    "open in its journal; --url or HWD_URL names another"
)
GONE = "the connection ended before its answer came"


@pytest.mark.parametrize(
    ("error", "how", "found"),
    [
        (
            httpx.RemoteProtocolError("Server disconnected without sending a response."),
            GONE,
            "Server disconnected without sending a response",
        ),
        (httpx.ConnectError("[Errno 111] Connection refused"), "cannot be reached", "Connection refused"),
        (httpx.ReadError(""), GONE, "ReadError"),
    ],
    ids=["ends in a stop", "ends in a word", "says nothing"],
)
def test_a_daemon_that_is_gone_is_named_with_what_was_found_and_what_becomes_of_its_journal(
    error: Exception, how: str, found: str
) -> None:
    assert str(unreachable("http://127.0.0.1:1", error)) == f"daemon http://127.0.0.1:1: {how}: {found}. {REMEDY}"
