"""NETCONF's codec: captures cut at every byte, round trips; arbitrary bytes give messages or a ProtocolError."""

import re
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.families.polatis.netconf import xml
from hwd_drivers.families.polatis.netconf.framing import END, MESSAGE_BYTES, FrameDecoder, frame
from hwd_drivers.families.polatis.netconf.messages import (
    BASE,
    BASE_1_0,
    BASE_1_1,
    Hello,
    Message,
    MessageDecoder,
    Notification,
    Reply,
    Rpc,
    RpcError,
    capability_names,
    encode,
    read,
)

from .....answers import check_answers

HELLO = encode(Hello(capabilities=(BASE_1_0, BASE_1_1)), chunked=False)
OLD_HELLO = encode(Hello(capabilities=(BASE_1_0,)), chunked=False)


def captured(mark: str) -> list[bytes]:
    lines = Path(__file__).with_name("captures.txt").read_text(encoding="utf-8").splitlines()
    return [line[2:].encode() for line in lines if line[0] == mark]


def shown(message: Message) -> str:
    """Elements compare by identity; their text does not."""
    return re.sub(r"<Element [^>]*>", "", repr(message)) + repr(encode(message, chunked=False))


def decoded(chunks: list[bytes], *, base_1_1: bool = False) -> list[str]:
    decoder = MessageDecoder(base_1_1=base_1_1)
    return [shown(message) for chunk in chunks for message in decoder.feed(chunk)]


@pytest.mark.parametrize("mark", [">", "<"])
def test_captures_are_understood_however_they_are_cut(mark: str) -> None:
    stream = b"".join(frame(message, chunked=False) for message in captured(mark))
    whole = decoded([stream])
    assert len(whole) == len(captured(mark))
    assert decoded([stream[at : at + 1] for at in range(len(stream))]) == whole
    for cut in range(1, len(stream), 7):
        assert decoded([stream[:cut], stream[cut:]]) == whole


def test_captures_are_written_byte_for_byte() -> None:
    for message in captured("<"):
        assert encode(read(xml.parse(message)), chunked=False) == message + END


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=4), st.integers(1, 9))
def test_chunks_are_put_together_again(messages: list[bytes], step: int) -> None:
    frames = FrameDecoder()
    frames.chunked = True
    stream = b"".join(frame(message, chunked=True) for message in messages)
    found = []
    for at in range(0, len(stream), step):
        frames.feed(stream[at : at + step])
        while (message := frames.take()) is not None:
            found.append(message)
    assert found == messages


def test_a_message_of_many_chunks_is_one() -> None:
    frames = FrameDecoder()
    frames.chunked = True
    frames.feed(b'\n#4\n<rpc\n#18\n message-id="102"\n\n#3\n/>x\n##\n')
    assert frames.take() == b'<rpc message-id="102"\n/>x'


def chunk(text: str) -> str:
    frames = FrameDecoder()
    frames.chunked = True
    with pytest.raises(ProtocolError) as found:
        frames.feed(text.encode().decode("unicode_escape").encode())
        frames.take()
    return str(found.value)


def document(text: str) -> str:
    with pytest.raises(ProtocolError) as found:
        xml.parse(text.encode())
    return str(found.value)


def test_invalid_chunks_document_types_entities_and_nonsense_are_errors() -> None:
    check_answers(Path(__file__).with_name("refusals.txt"), {"chunk": chunk, "document": document})


def test_a_message_has_a_limit_in_both_framings() -> None:
    frames = FrameDecoder()
    frames.chunked = True
    frames.feed(b"\n#%d\n" % (MESSAGE_BYTES + 1))
    with pytest.raises(ProtocolError, match=str(MESSAGE_BYTES)):
        frames.take()
    frames = FrameDecoder()
    with pytest.raises(ProtocolError, match=str(MESSAGE_BYTES)):
        for _ in range(MESSAGE_BYTES // 65536 + 2):
            frames.feed(b"x" * 65536)
            frames.take()


@pytest.mark.parametrize(
    "message",
    [
        Hello(capabilities=(BASE_1_0, "urn:x?a=1&b=2"), session=7),
        Rpc(attributes={"message-id": '1"<', "{urn:x}y": "z"}, operation=Element(f"{{{BASE}}}get")),
        Reply(
            attributes={"message-id": "2"},
            errors=(RpcError(tag="in-use", message="a < b", path="/x", info={"session-id": "3"}),),
        ),
        Reply(attributes={"message-id": "2"}, content=(Element(f"{{{BASE}}}ok"),)),
        Notification(time="2026-11-20T10:11:12Z", event=Element("{urn:x}port-power-alarm")),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_messages_are_read_as_they_were_written(message: Message, chunked: bool) -> None:
    decoder = MessageDecoder(base_1_1=chunked)
    before = [] if isinstance(message, Hello) else decoder.feed(HELLO)
    assert len(before) in (0, 1)
    (found,) = decoder.feed(encode(message, chunked=decoder.chunked))
    assert shown(found) == shown(message)


def test_chunks_begin_after_the_hello_where_both_sides_have_them() -> None:
    for theirs, ours, chunked in ((HELLO, True, True), (HELLO, False, False), (OLD_HELLO, True, False)):
        decoder = MessageDecoder(base_1_1=ours)
        decoder.feed(theirs)
        assert decoder.chunked is chunked


def test_a_second_hello_and_a_message_before_it_are_errors() -> None:
    with pytest.raises(ProtocolError, match="second hello"):
        MessageDecoder(base_1_1=False).feed(HELLO * 2)
    with pytest.raises(ProtocolError, match="before the hello"):
        MessageDecoder().feed(frame(b"<rpc><get/></rpc>", chunked=False))


def test_depth_and_number_of_elements_have_limits() -> None:
    xml.parse(b"<x>" * xml.DEPTH + b"</x>" * xml.DEPTH)
    with pytest.raises(ProtocolError, match=f"over {xml.DEPTH} others"):
        xml.parse(b"<x>" * (xml.DEPTH + 1))
    with pytest.raises(ProtocolError, match=f"over {xml.ELEMENTS} elements"):
        xml.parse(b"<x>" + b"<y/>" * xml.ELEMENTS + b"</x>")


def test_capabilities_are_taken_apart() -> None:
    found = capability_names(["urn:a?module=m&revision=2018-03-22&amp", "urn:b"])
    assert found["urn:a"]["revision"] == "2018-03-22"
    assert found["urn:b"] == {}
