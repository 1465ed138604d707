"""Subtree filters: the rules of RFC 6241, section 6.2, one by one."""

from xml.etree.ElementTree import fromstring, tostring

import pytest

from hwd_drivers.families.polatis.netconf.subtree import select

DATA = fromstring(
    '<data xmlns:p="urn:p"><p:voa><p:port><p:id>1</p:id><p:mode>A</p:mode></p:port><p:port>'
    "<p:id>2</p:id><p:mode>B</p:mode></p:port></p:voa>"
    "<p:power><p:port><p:id>1</p:id><p:dbm>-3</p:dbm></p:port></p:power></data>"
)


def selected(filters: str) -> str:
    wanted = fromstring(f'<filter xmlns:p="urn:p" xmlns:q="urn:q">{filters}</filter>')
    text = "".join(tostring(each, encoding="unicode") for each in select(wanted, list(DATA)))
    return text.replace(' xmlns:ns0="urn:p"', "").replace("ns0:", "")


PORT_1 = "<port><id>1</id><mode>A</mode></port>"
PORT_2 = "<port><id>2</id><mode>B</mode></port>"


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ("", ""),
        ("<p:voa/>", f"<voa>{PORT_1}{PORT_2}</voa>"),
        ("<voa/>", f"<voa>{PORT_1}{PORT_2}</voa>"),
        ("<q:voa/>", ""),
        ("<p:other/>", ""),
        ("<p:voa><p:port><p:id>2</p:id></p:port></p:voa>", f"<voa>{PORT_2}</voa>"),
        ("<p:voa><p:port><p:id> 2 </p:id></p:port></p:voa>", f"<voa>{PORT_2}</voa>"),
        ("<p:voa><p:port><p:id>3</p:id></p:port></p:voa>", ""),
        ("<p:voa><p:port><p:id/></p:port></p:voa>", "<voa><port><id>1</id></port><port><id>2</id></port></voa>"),
        ("<p:voa><p:port><p:id>2</p:id><p:mode/></p:port></p:voa>", f"<voa>{PORT_2}</voa>"),
        ("<p:voa><p:port><p:id>2</p:id><p:none/></p:port></p:voa>", ""),
        (
            "<p:voa><p:port><p:id>1</p:id></p:port><p:port><p:id>2</p:id></p:port></p:voa>",
            f"<voa>{PORT_1}{PORT_2}</voa>",
        ),
        (
            "<p:voa><p:port><p:id>1</p:id></p:port></p:voa><p:power/>",
            f"<voa>{PORT_1}</voa><power><port><id>1</id><dbm>-3</dbm></port></power>",
        ),
        (
            "<p:voa><p:port><p:id/></p:port></p:voa><p:voa><p:port><p:mode/></p:port></p:voa>",
            f"<voa>{PORT_1}{PORT_2}</voa>",
        ),
        ('<p:voa kind="x"/>', ""),
    ],
)
def test_a_filter_selects(filters: str, found: str) -> None:
    assert selected(filters) == found
