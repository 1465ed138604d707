"""Subtree filters: the rules of RFC 6241, section 6.2, one by one."""

from pathlib import Path
from xml.etree.ElementTree import fromstring, tostring

from hwd_drivers.families.polatis.netconf.subtree import select

from .....answers import check_answers

DATA = fromstring(
    '<data xmlns:p="urn:p"><p:voa><p:port><p:id>1</p:id><p:mode>A</p:mode></p:port><p:port>'
    "<p:id>2</p:id><p:mode>B</p:mode></p:port></p:voa>"
    "<p:power><p:port><p:id>1</p:id><p:dbm>-3</p:dbm></p:port></p:power></data>"
)


def selected(filters: str) -> list[str]:
    wanted = fromstring(f'<filter xmlns:p="urn:p" xmlns:q="urn:q">{filters}</filter>')
    texts = [tostring(each, encoding="unicode") for each in select(wanted, list(DATA))]
    return [text.replace(' xmlns:ns0="urn:p"', "").replace("ns0:", "") for text in texts]


def test_a_filter_selects() -> None:
    check_answers(Path(__file__).with_name("subtree.txt"), {"filter": selected})
