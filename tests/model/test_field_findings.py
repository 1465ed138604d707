"""What is wrong with an object that somebody sent, in words that name each field."""

import itertools
import re
from typing import Any, get_args, get_origin

import msgspec

from hwd.model import bodies
from hwd.model.fault import FAULTS, ClockStep, Cut, Flap
from hwd.model.field_findings import allowed, findings, takes

BODIES = [one for one in vars(bodies).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
LIBRARY = re.compile(r"Object |Expected|`|<enum|typing\.|Annotated")
"""Words of msgspec and of Python's types."""


KINDS: list[type[msgspec.Struct]] = [*BODIES, *FAULTS.values()]
VALUES: tuple[Any, ...] = (None, 3.5, "x y", [], [None], {}, {"a": None}, True)


def test_findings_name_the_field_in_plain_words_and_a_missing_one_with_what_it_may_be() -> None:
    for kind, value in itertools.product(KINDS, VALUES):
        names = [one.encode_name for one in msgspec.structs.fields(kind)]
        found = findings(dict.fromkeys(names, value) | {"misspelt": 1}, kind)
        begins = re.compile(rf"({'|'.join([*names, 'misspelt'])})[.\[:]")
        assert all(begins.match(one) for one in found), (kind, value, found)
        assert not any(LIBRARY.search(one) for one in found), (kind, value, found)
        unknown = kind.__struct_config__.forbid_unknown_fields
        assert ("misspelt: is an unknown field" in found) == unknown, (kind, value, found)
    for kind in KINDS:
        required = [one for one in msgspec.structs.fields(kind) if one.required]
        expected = [f"{one.encode_name}: is missing; it must be {allowed(one.type)}" for one in required]
        assert findings({}, kind) == expected, kind
    assert takes(Cut) == "port (text), strand ('both', 'rx' or 'tx')"
    assert takes(ClockStep) == "host (text), seconds (a number from -86400 to 86400)"
    assert takes(Flap).endswith("up_s (a number above 0, up to 60)")
    assert takes(FAULTS["half"]) == "switch (text)"
    # Without one, nobody would notice that those are not looked into.
    assert any(
        get_origin(one.type) is dict and issubclass(get_args(one.type)[1], msgspec.Struct)
        for kind in BODIES
        for one in msgspec.structs.fields(kind)
        if get_origin(one.type) is dict and isinstance(get_args(one.type)[1], type)
    )
