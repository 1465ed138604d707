"""What a client makes of problem documents, of answers of others, and of none."""

import httpx2
import pytest

from hwd.client.connection import unreachable
from hwd.client.problem import error_of, raise_for_problem
from hwd.model.status import Problem
from hwd.web.problem import problem_of
from hwd_drivers.core.errors import (
    BugError,
    ConfigError,
    DeadlineError,
    DeviceError,
    FailedError,
    LinkError,
    NotReadyError,
    NotRolledBackError,
    ProtocolError,
    RefusedError,
    StalePlanError,
)

KINDS = (
    ConfigError,
    RefusedError,
    StalePlanError,
    LinkError,
    DeadlineError,
    ProtocolError,
    FailedError,
    NotReadyError,
    NotRolledBackError,
    BugError,
)


def test_an_error_comes_back_as_what_it_was_with_the_words_of_a_device_and_the_switches_that_are_not_back() -> None:
    for kind in KINDS:
        error = error_of(problem_of(kind("it was so")))
        assert (type(error), str(error)) == (kind, "it was so")
    sent = DeviceError("ocs1: no", device="ocs1", command="ENT-PATCH", code="SROF", text="busy")
    error = error_of(problem_of(sent))
    assert isinstance(error, DeviceError)
    assert (error.device, error.command, error.code, error.text) == ("ocs1", "ENT-PATCH", "SROF", "busy")
    error = error_of(problem_of(NotRolledBackError("pairs: not ready", switches=("ocs1", "ocs2"))))
    assert isinstance(error, NotRolledBackError)
    assert (error.switches, error.exit_status) == (("ocs1", "ocs2"), 6)
    error = error_of(Problem(type="t", title="something new", status=409, detail="d", exit_status=3))
    assert type(error) is RefusedError, "an unknown title is taken by its exit status"


@pytest.mark.parametrize("content", [b"<html>", b"\xff", b'{"detail": "Not Found"}', b'{"detail": "\xff"}', b"[]"])
def test_an_answer_of_somebody_else_is_a_protocol_error(content: bytes) -> None:
    response = httpx2.Response(502, content=content, request=httpx2.Request("GET", "http://h/x"))
    with pytest.raises(ProtocolError, match=r"http://h/x: status 502 without a problem document"):
        raise_for_problem(response)


REMEDY = (
    "`hwd serve TESTBED` starts one, which first settles the reconfigurations that a killed one left "
    "open in its journal; --url or HWD_URL names another"
)
GONE = "the connection ended before its answer came"


@pytest.mark.parametrize(
    ("error", "how", "found"),
    [
        (
            httpx2.RemoteProtocolError("Server disconnected without sending a response."),
            GONE,
            "Server disconnected without sending a response",
        ),
        (httpx2.ConnectError("[Errno 111] Connection refused"), "cannot be reached", "Connection refused"),
        (httpx2.ReadError(""), GONE, "ReadError"),
    ],
    ids=["ends in a stop", "ends in a word", "says nothing"],
)
def test_a_daemon_that_is_gone_is_named_with_what_was_found_and_what_becomes_of_its_journal(
    error: Exception, how: str, found: str
) -> None:
    assert str(unreachable("http://127.0.0.1:1", error)) == f"daemon http://127.0.0.1:1: {how}: {found}. {REMEDY}"
