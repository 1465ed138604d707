"""Completion by typer's own machinery: what a shell is told for a word that is begun."""

import pytest

from hwd.client import Client


def completed(hwd, monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:  # type: ignore[no-untyped-def]
    """What bash is offered at the end of a line."""
    monkeypatch.setenv("_HWD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    said = hwd()
    monkeypatch.delenv("_HWD_COMPLETE")
    assert said.err == ""
    return list(filter(None, said.out.split("\n")))


def test_live_names_are_offered(hwd, daemon: int, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    with Client.find() as client:
        lease = client.take_lease(holder="me", ports=["ocs1.1"], for_s=60).lease
        try:
            assert completed(hwd, monkeypatch, "hwd lease release ") == [lease]
        finally:
            client.release_lease(lease)
    assert completed(hwd, monkeypatch, "hwd lease release ") == []
    assert completed(hwd, monkeypatch, "hwd fault oc") == ["ocs1"]
    with Client.find() as client:
        run = client.start_run(text="playbook: n\nsteps:\n  - note: a\n", file="n.yaml").run
    assert run in completed(hwd, monkeypatch, "hwd show ")
    assert completed(hwd, monkeypatch, f"hwd show {run[:-1]}") == [run]


def test_names_that_no_daemon_needs_to_say_are_offered(hwd, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    assert completed(hwd, monkeypatch, "hwd plan ri") == ["ring"]
    assert completed(hwd, monkeypatch, "hwd run smo") == ["smoke"]
    assert "status" in completed(hwd, monkeypatch, "hwd sta")


def test_nothing_is_offered_and_nothing_said_where_the_daemon_is_away(hwd, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("HWD_URL", "http://127.0.0.1:1")
    assert completed(hwd, monkeypatch, "hwd show ") == []
