"""A bundle that anybody may have made: refused with the reason, in bounded memory, and nothing is written."""

import json
import os
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hwd.report.bundle import open_bundle
from hwd.report.bundle.manifest import MEMBERS_MAX
from hwd_drivers.core.errors import ConfigError

from ...answers import check_golden
from .conftest import Plant, Verified, member, with_timeline

REFUSED = Path(__file__).with_name("refused.txt")
PATHS = "../../etc/passwd", "/etc/passwd", "a\\b", "figures/../x", "figures/a/b", "-rf", "a\x1b[2J", ".", "a" * 300


def refused(verified: Verified, path: Path) -> str:
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(ConfigError) as found:
        verified(path)
    assert sorted(path.parent.rglob("*")) == before, "nothing is written"
    assert str(found.value).startswith(f"{path}: ")
    assert str(found.value).isprintable()
    return str(found.value).removeprefix(f"{path}: ")


def zipped(path: Path, *members: tuple[str, bytes], packed: int = zipfile.ZIP_DEFLATED) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", compression=packed) as to:
        warnings.filterwarnings("ignore", "Duplicate name")
        for name, data in members:
            to.writestr(name, data)
    return path


def wrong(bundle: Path, plant: Plant, folder: Path) -> Iterator[tuple[str, Path]]:
    """What is wrong with a file, and the file, which is there until the next one is."""
    path, manifest = folder / "x", ("manifest.json", b"{}")
    yield "is not there", path
    for words, data in {"empty": b"", "a text": b"hello" * 100}.items():
        path.write_bytes(data)
        yield words, path
    yield "a ZIP of something else", zipped(path, ("a.txt", b"x"))
    yield "a manifest that is a list", zipped(path, ("manifest.json", b"[1]"))
    for name in PATHS:
        yield f"a member {name!r}"[:40], zipped(path, manifest, (name, b"x"))
    yield "a member twice", zipped(path, manifest, ("run.jsonl", b"x"), ("run.jsonl", b"y"))
    yield "too many members", zipped(path, *((f"figures/{number}.json", b"") for number in range(MEMBERS_MAX + 1)))
    yield "a large member", zipped(path, ("figures/x.json", bytes(65 * 1024**2)))
    yield "strangely packed", zipped(path, manifest, packed=zipfile.ZIP_LZMA)
    whole = bundle.read_bytes()
    path.write_bytes(whole[:-22] + b"PK\x06\x07" + bytes(16) + whole[-22:])
    yield "an end of ZIP64", path
    path.unlink()
    path.mkdir()
    yield "a folder", path
    os.mkfifo(pipe := folder / "pipe")
    yield "a pipe", pipe
    yield "a later format", plant({}, manifest=lambda manifest: manifest.update(format_version=2))
    yield "in the file only", plant({"figures/more.json": b"{}"}, rehash=False)
    yield "in the manifest only", plant({"tables/pairs.json": None}, rehash=False)
    yield "named twice", plant({}, manifest=lambda manifest: manifest["members"].append(manifest["members"][1]))
    yield "without its record", plant({"run.jsonl": None})
    # the directory says 10 bytes; the member has more: its check sum is wrong then
    data = plant({"README.txt": b"x" * 500_000}).read_bytes()
    place = data.rindex(b"PK\x01\x02", 0, data.rindex(b"README.txt"))
    pipe.with_name("lies").write_bytes(data[: place + 24] + struct.pack("<I", 10) + data[place + 28 :])
    yield "a size that lies", pipe.with_name("lies")
    # as in bombs whose members share their data
    shared = bytearray(whole)
    first = shared.index(b"PK\x01\x02")
    second = shared.index(b"PK\x01\x02", first + 4)
    shared[second + 42 : second + 46] = shared[first + 42 : first + 46]
    pipe.with_name("shared").write_bytes(shared)
    yield "members over each other", pipe.with_name("shared")


def test_what_is_no_bundle_is_refused_and_told_why(
    bundle: Path, plant: Plant, tmp_path: Path, verified: Verified
) -> None:
    told = (f"{words}: {refused(verified, path)}\n" for words, path in wrong(bundle, plant, tmp_path))
    check_golden(REFUSED, "".join(told))


def test_every_cut_of_a_bundle_is_refused(bundle: Path, tmp_path: Path) -> None:
    data = bundle.read_bytes()
    path = tmp_path / "cut"
    for length in (1, 100, len(data) // 2, len(data) - 300, len(data) - 22, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(ConfigError, match=r"is cut off|is no bundle"), open_bundle(path):
            pass


def test_byte_that_flipped_is_found(bundle: Path, tmp_path: Path) -> None:
    """Places all over the file, its directory among them."""
    data = bundle.read_bytes()
    path = tmp_path / "flipped"
    places = [*range(0, len(data), len(data) // 50), *range(len(data) - 1400, len(data), 13)]
    unnoticed = [place for place in places if not damaged(path, data, place)]
    assert len(unnoticed) < len(places) / 4, "dates and rights of members do not count"
    assert all(place > len(data) - 1400 for place in unnoticed)


def damaged(path: Path, data: bytes, place: int) -> bool:
    changed = bytearray(data)
    changed[place] ^= 0x40
    path.write_bytes(changed)
    try:
        with open_bundle(path) as archive:
            for name in archive.names:
                archive.data(name)
            return bool(archive.changed)
    except ConfigError as error:
        return str(error).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("run.jsonl", bytes(30 * 1024**2))], "no member of a bundle is packed to less than 1/250"),
        ([(f"figures/{'x' * 60}{number}.json", b"") for number in range(30_000)], "its list of members has"),
    ],
    ids=["a bomb", "a long list"],
)
def test_what_would_take_much_memory_is_refused_before_it_is_read(
    tmp_path: Path, verified: Verified, members: list[tuple[str, bytes]], words: str
) -> None:
    path = zipped(tmp_path / "x", *members)
    tracemalloc.start()
    assert words in refused(verified, path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000


def test_member_that_is_not_what_it_should_be_is_refused(plant: Plant, tmp_path: Path, verified: Verified) -> None:
    for name, data, words in (
        ("figures/waterfall.json", b'{"a": ', "is no JSON"),
        ("figures/waterfall.json", b"\xff\xfe", "is no JSON"),
        ("figures/waterfall.json", b"[" * 100_000, "is no JSON: maximum recursion"),
        ("tables/stages.json", b"9" * 5000, "is no JSON"),
        ("tables/stages.json", b'{"rows": NaN}', "is no JSON: NaN: no number"),
        ("tables/stages.json", b'{"rows": 1e999}', "is no JSON: 1e999: no number"),
        ("report.html", b"\xff", "is no UTF-8: invalid start byte at byte 0"),
        ("run.jsonl", b"", "line 1: is no run"),
        ("run.jsonl", b"{}\n", "line 1: is no run"),
        ("run.jsonl", b"\x1b[2J\n", "line 1: is no JSON"),
    ):
        said = refused(verified, plant({name: data}))
        assert said.startswith(f"{name}: {words}"), (data[:20], said)
    assert "manifest.json: is no JSON" in refused(verified, zipped(tmp_path / "x", ("manifest.json", b"{")))


def test_figure_that_is_nested_deeply_is_refused_or_differs(plant: Plant, verified: Verified) -> None:
    """The parser of Python 3.11 ends at 1000 levels, that of 3.13 at 10,000."""
    for depth, words in ((10, ""), (200, "is nested deeper than 64 levels"), (9000, "is no JSON: maximum recursion")):
        data = b'{"specification": {"layer": ' + b'[{"a":' * depth + b"1" + b"}]" * depth + b"}}"
        path = plant({"figures/waterfall.json": data})
        if words:
            assert refused(verified, path).startswith(f"figures/waterfall.json: {words}")
        else:
            assert not verified(path).equal


def test_record_whose_documents_contradict_themselves_is_refused(
    bundle: Path, plant: Plant, verified: Verified
) -> None:
    def planted(edit: Callable[[Any], object]) -> str:
        return refused(verified, plant(with_timeline(bundle, edit)))

    assert "no report can be made of it" in planted(lambda link: link.update(instants=[]))
    words = "run.jsonl: a document timeline cannot be read: links[0].link: link 'nonsense': write it as"
    assert planted(lambda link: link.update(link="nonsense")).startswith(words)


@pytest.mark.parametrize(
    ("limit", "most", "changed", "words"),
    [
        ("archive.VALUES_MAX", 10_000, {"tables/stages.json": b"[" + b",[]" * 20_000},
         "tables/stages.json: has some 40001 values; at most 10000 may be"),
        ("archive.LINE_BYTES_MAX", 1000, {"run.jsonl": bytes(range(32, 127)) * 20}, "run.jsonl: a line is over"),
        ("verification.OPEN_MAX", 0, {}, "run.jsonl: over 0 reconfigurations have no end"),
    ],
    ids=["values before they are parsed", "a line without an end", "reconfigurations without an end"],
)  # fmt: skip
def test_more_than_a_report_has_is_refused(
    plant: Plant, verified: Verified, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, changed: Any, words: str
) -> None:
    path = plant(changed)
    monkeypatch.setattr(f"hwd.report.bundle.{limit}", most)
    assert words in refused(verified, path)


def test_yaml_bomb_in_the_record_is_read_within_bounds(bundle: Path, plant: Plant, verified: Verified) -> None:
    first, rest = member(bundle, "run.jsonl").split(b"\n", 1)
    run = json.loads(first)
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    run["run"]["testbed_text"] = run["run"]["playbook_text"] = "\n".join(levels)
    assert verified(plant({"run.jsonl": json.dumps(run).encode() + b"\n" + rest})).differences
