"""The messages: their bytes stay, and all that is in them is checked as they are decoded."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hwd_agents.switches.request import Request
from hwd_agents.wire import TEXT_MOST, Arguments, Birth, Events, Message, clipped, decode, encode
from hwd_agents.wire.events import DATA
from hwd_drivers.core.errors import ProtocolError

from ...answers import check_answers
from . import samples
from .golden import EVENT, INVENTORY, birth, found, messages

GOLDEN = (Path(__file__).parent / "golden.jsonl").read_bytes().splitlines()


def events(kind: str, data: Mapping[str, Any]) -> bytes:
    event = msgspec.structs.replace(EVENT, kind=kind, data=dict(data))
    return encode(Events(boot="b1", seq=1, events=[event]))


@pytest.mark.parametrize(("message", "golden"), [*zip(messages(found()).values(), GOLDEN, strict=True)])
def test_bytes_of_each_message_stay(message: Message, golden: bytes) -> None:
    assert encode(message) == golden
    assert encode(decode(golden, pytest.fail)) == golden
    assert encode(decode(golden[:-1] + b',"novel":{"a":[1]}}', pytest.fail)) == golden, "a later version knows more"


def test_there_is_a_sample_of_every_kind_of_event_and_of_every_answer() -> None:
    assert {kind for kind, _ in samples.EVENTS} == DATA.keys()
    assert [one.VERB for one in samples.ARGUMENTS] == [*samples.ANSWERS]
    assert {type(one) for one in samples.ARGUMENTS} == {*Arguments.__subclasses__()}


@pytest.mark.parametrize(("kind", "data"), samples.EVENTS)
def test_data_of_an_event_comes_as_it_was_sent_without_fields_that_nobody_knows(
    kind: str, data: Mapping[str, Any]
) -> None:
    message = decode(events(kind, {**data, "novel": [{"deep": 1}]}), pytest.fail)
    assert isinstance(message, Events)
    assert msgspec.json.encode(message.events[0].data) == msgspec.json.encode(data)


def wrong_for(value: object) -> list[Any]:
    """Of another type than the value has, or out of any bounds."""
    if isinstance(value, bool):
        return [{}, [], "", -1, 1 << 90, 0.5, "x" * 9000, [{"a": [[]]}]]
    if isinstance(value, int | float):
        return [{}, [], "", True, "x" * 9000, [{"a": [[]]}]]
    if isinstance(value, str):
        return [{}, [], True, -1, 0.5, "x" * 9000]
    if isinstance(value, list):
        return [{}, "", True, -1, 0.5, [{"a": [[]]}], [["b1", 9, 1]], [0] * 70_000]
    if isinstance(value, Mapping):
        return [[], "x" * 9000, {"a": {"b": [[]]}}]
    return ["x" * 9000, {"a": [[]]}]


FIELDS = [
    (kind, data, field)
    for kind, data in samples.EVENTS
    for field in data
    if (kind, field) not in {("put-back", "state"), ("switch", "what")}
]


@pytest.mark.parametrize(("kind", "data", "field"), FIELDS)
def test_event_whose_data_is_wrong_in_one_field_is_a_lost_one_and_named(
    kind: str, data: Mapping[str, Any], field: str
) -> None:
    for wrong in wrong_for(data[field]):
        heard: list[str] = []
        message = decode(events(kind, {**data, field: wrong}), heard.append)
        assert isinstance(message, Events)
        (event,) = message.events
        assert event.kind == "lost", f"{kind} {field} {wrong!r}"
        assert (event.seq, event.port, event.data.count) == (1, None, 1)
        assert f"event 1 of kind {kind}" in heard[0]
        assert heard[0].removeprefix(f"event 1 of kind {kind}: ")[:1000] in event.data.why
        assert len(event.data.why) <= TEXT_MOST, "else the record of it is not read again"


def test_event_of_a_kind_that_nobody_knows_keeps_none_of_its_data_and_holds_nothing_up() -> None:
    heard: list[str] = []
    message = decode(events("novelty", {"carrier": [1]}), heard.append)
    assert isinstance(message, Events)
    assert (message.events[0].kind, message.events[0].data) == ("novelty", {})
    assert heard == ["event 1 of kind novelty: this version does not know it, and leaves its data out"]


@pytest.mark.parametrize("asked", samples.ARGUMENTS, ids=lambda asked: asked.VERB)
def test_data_of_an_answer_is_checked(asked: Arguments[Any]) -> None:
    wrong: Any
    data = samples.ANSWERS[asked.VERB]
    assert msgspec.to_builtins(asked.answer({**data, "novel": {}})) == data
    for field in data:
        for wrong in ([[]], {"a": {"b": [[]]}}, "x" * 9000):
            with pytest.raises(ProtocolError, match="cannot be read"):
                asked.answer({**data, field: wrong})


def changed(path: str, value: Any) -> bytes:
    data = msgspec.json.decode(encode(birth(found())))
    *way, last = path.split(".")
    place = data
    for key in way:
        place = place[key]
    place[last] = value
    return msgspec.json.encode(data)


def refused(path: str, value: Any) -> str:
    with pytest.raises(ProtocolError, match="not a message of version 1") as caught:
        decode(changed(path, value))
    return str(caught.value)


def test_birth_with_one_field_that_nobody_could_use_is_refused() -> None:
    assert isinstance(decode(changed("novel", {"a": [1]})), Birth)
    births = Path(__file__).with_name("births.txt")
    check_answers(births, {"births": lambda one: refused(one.split()[0], json.loads(one.split(maxsplit=1)[1]))})
    refused("ports", {f"p{number}": None for number in range(300)})


def test_birth_message_of_an_older_agent_lacks_newer_fields() -> None:
    data = msgspec.json.decode(encode(birth(found())))
    for added in ("settings", "switches", "v", "clocks", "clock"):
        del data[added]
    data["inventory"] = {"kernel": "6.1"}
    assert isinstance(decode(msgspec.json.encode(data)), Birth)


def test_text_that_a_device_or_the_kernel_said_is_cut_before_it_is_sent() -> None:
    long = "x" * 100_000
    cut = clipped({"a": [long, 1], "b": {"c": long}, "d": None})
    assert len(cut["a"][0]) <= TEXT_MOST
    assert cut["a"][0].endswith("(100000 characters)")
    assert cut["b"]["c"] == cut["a"][0]
    assert (cut["a"][1], cut["d"]) == (1, None)
    assert clipped(INVENTORY) == INVENTORY


@pytest.mark.parametrize("id", [1 << 62, -(1 << 62), 1 << 300, "x" * (TEXT_MOST + 1)])
def test_job_is_not_heard_whose_id_the_daemon_could_not_read(id: str | int) -> None:
    """It would be answered, its light moved, and the event of it lost."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"set": {}, "id": id}, Request)
    assert msgspec.convert({"set": {}, "id": (1 << 62) - 1}, Request).id == (1 << 62) - 1
