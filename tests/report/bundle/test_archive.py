"""A bundle that anybody may have made: refused with the reason, in bounded memory, and nothing is written."""

import json
import os
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hwd.report.bundle import Verification, open_bundle
from hwd.report.bundle.manifest import MEMBERS_MAX
from hwd_drivers.core.errors import ConfigError

Plant = Callable[..., Path]
Verified = Callable[[Path], Verification]


def refused(verified: Verified, path: Path) -> str:
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(ConfigError) as found:
        verified(path)
    assert sorted(path.parent.rglob("*")) == before, "nothing is written"
    assert str(found.value).startswith(f"{path}: ")
    assert str(found.value).isprintable()
    return str(found.value).removeprefix(f"{path}: ")


def zipped(path: Path, members: list[tuple[str, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as to:
        for name, data in members:
            to.writestr(name, data)
    return path


def test_file_that_is_no_bundle_is_refused(tmp_path: Path, verified: Verified) -> None:
    path = tmp_path / "x"
    assert "cannot be read: No such file" in refused(verified, path)
    path.write_bytes(b"")
    assert "is no bundle" in refused(verified, path)
    path.write_bytes(b"hello" * 100)
    assert "is no bundle. `hwd export RUN --as bundle` makes bundles" in refused(verified, path)
    assert "has no manifest.json" in refused(verified, zipped(path, [("a.txt", b"x")]))
    assert "is not that of a bundle" in refused(verified, zipped(path, [("manifest.json", b"[1]")]))
    assert "manifest.json: is no JSON" in refused(verified, zipped(path, [("manifest.json", b"{")]))
    path.unlink()
    path.mkdir()
    assert "cannot be read: Is a directory" in refused(verified, path)
    os.mkfifo(pipe := tmp_path / "pipe")
    assert "is no regular file" in refused(verified, pipe)


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


def test_version_of_a_later_format_is_refused(plant: Plant, verified: Verified) -> None:
    assert "has version 2 of the format; this program reads 1" in refused(
        verified, plant({}, manifest=lambda manifest: manifest.update(format_version=2))
    )


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "a\\b", "figures/../x", "figures/a/b", "-rf", "a\x1b[2J", ".", "a" * 300],
)
def test_name_that_could_be_a_path_is_refused(tmp_path: Path, verified: Verified, name: str) -> None:
    path = zipped(tmp_path / "x", [("manifest.json", b"{}"), (name, b"x")])
    assert "no name of a member of a bundle" in refused(verified, path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_name_that_is_there_twice_is_refused(tmp_path: Path, verified: Verified) -> None:
    path = zipped(tmp_path / "x", [("manifest.json", b"{}"), ("run.jsonl", b"x"), ("run.jsonl", b"y")])
    assert refused(verified, path) == "run.jsonl: is there twice"


def test_member_that_is_only_in_the_file_or_only_in_the_manifest_is_refused(plant: Plant, verified: Verified) -> None:
    assert refused(verified, plant({"figures/more.json": b"{}"}, rehash=False)) == (
        "figures/more.json: is in the file and not in the manifest"
    )
    assert refused(verified, plant({"tables/pairs.json": None}, rehash=False)) == (
        "tables/pairs.json: is in the manifest and not in the file"
    )
    assert "manifest.json: names a member twice" in refused(
        verified,
        plant({}, manifest=lambda manifest: manifest["members"].append(manifest["members"][1])),
    )
    assert "has no run.jsonl" in refused(verified, plant({"run.jsonl": None}))


def test_too_many_members_are_refused(tmp_path: Path, verified: Verified) -> None:
    path = zipped(tmp_path / "x", [(f"figures/{number}.json", b"") for number in range(MEMBERS_MAX + 1)])
    assert f"has {MEMBERS_MAX + 1} members; a bundle has at most {MEMBERS_MAX}" in refused(verified, path)


def test_long_list_of_members_is_refused_before_it_is_read(tmp_path: Path, verified: Verified) -> None:
    path = zipped(tmp_path / "x", [(f"figures/{'x' * 60}{number}.json", b"") for number in range(30_000)])
    tracemalloc.start()
    assert "its list of members has" in refused(verified, path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000


def test_zip64_end_is_refused(tmp_path: Path, verified: Verified, bundle: Path) -> None:
    data = bundle.read_bytes()
    path = tmp_path / "x"
    path.write_bytes(data[:-22] + b"PK\x06\x07" + bytes(16) + data[-22:])
    assert "more members than a bundle can have" in refused(verified, path)


def test_zip_bomb_is_refused_without_unpacking_it(tmp_path: Path, verified: Verified) -> None:
    path = tmp_path / "x"
    zipped(path, [("run.jsonl", bytes(30 * 1024**2))])
    tracemalloc.start()
    assert "no member of a bundle is packed to less than 1/250" in refused(verified, path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000
    zipped(path, [("figures/x.json", bytes(65 * 1024**2))])
    assert "unpacks to 65 MiB; at most 64 MiB may be" in refused(verified, path)


def test_size_that_lies_does_not_unpack_more(tmp_path: Path, plant: Plant, verified: Verified) -> None:
    """The directory says 10 bytes; the member has more: its check sum is wrong then."""
    path = plant({"README.txt": b"x" * 500_000})
    data = path.read_bytes()
    place = data.rindex(b"PK\x01\x02", 0, data.rindex(b"README.txt"))
    path.write_bytes(data[: place + 24] + struct.pack("<I", 10) + data[place + 28 :])
    assert "README.txt: is damaged: Bad CRC-32" in refused(verified, path)


def test_members_that_lie_over_each_other_are_refused(tmp_path: Path, plant: Plant, verified: Verified) -> None:
    """As in bombs whose members share their data."""
    path = plant({})
    data = bytearray(path.read_bytes())
    places = []
    at = data.index(b"PK\x01\x02")
    while at >= 0:
        places.append(at)
        at = data.find(b"PK\x01\x02", at + 4)
    first, second = places[0], places[1]
    data[second + 42 : second + 46] = data[first + 42 : first + 46]
    path.write_bytes(data)
    assert "lies over" in refused(verified, path)


def test_encrypted_or_strangely_packed_member_is_refused(tmp_path: Path, verified: Verified) -> None:
    path = tmp_path / "x"
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_LZMA) as to:
        to.writestr("manifest.json", b"{}")
    assert "is encrypted, or packed in a way that bundles are not" in refused(verified, path)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("figures/waterfall.json", b'{"a": ', "figures/waterfall.json: is no JSON"),
        ("figures/waterfall.json", b"\xff\xfe", "figures/waterfall.json: is no JSON"),
        ("figures/waterfall.json", b"[" * 100_000, "figures/waterfall.json: is no JSON: maximum recursion"),
        ("tables/stages.json", b"9" * 5000, "tables/stages.json: is no JSON"),
        ("tables/stages.json", b'{"rows": NaN}', "tables/stages.json: is no JSON: NaN: no number"),
        ("tables/stages.json", b'{"rows": 1e999}', "tables/stages.json: is no JSON: 1e999: no number"),
        ("report.html", b"\xff", "report.html: is no UTF-8: invalid start byte at byte 0"),
        ("run.jsonl", b"", "run.jsonl: line 1: is no run"),
        ("run.jsonl", b"{}\n", "run.jsonl: line 1: is no run"),
        ("run.jsonl", b"\x1b[2J\n", "run.jsonl: line 1: is no JSON"),
    ],
)
def test_member_that_is_not_what_it_should_be_is_refused(
    plant: Plant, verified: Verified, name: str, data: bytes, words: str
) -> None:
    assert refused(verified, plant({name: data})).startswith(words)


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
    with zipfile.ZipFile(bundle) as found:
        lines = found.read("run.jsonl").split(b"\n")
    place = next(number for number, line in enumerate(lines) if line.startswith(b'{"kind":"timeline"'))
    whole = json.loads(lines[place])

    def planted(edit: Callable[[Any], object]) -> str:
        changed = json.loads(json.dumps(whole))
        edit(changed["data"])
        return refused(
            verified,
            plant({"run.jsonl": b"\n".join([*lines[:place], json.dumps(changed).encode(), *lines[place + 1 :]])}),
        )

    assert "no report can be made of it" in planted(lambda data: data["links"][0].update(instants=[]))
    assert "run.jsonl" in planted(lambda data: data["links"][0].update(link="nonsense"))


def test_json_of_more_values_than_a_report_has_is_refused_before_it_is_parsed(
    plant: Plant, verified: Verified, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = plant({"tables/stages.json": b"[" + b",[]" * 20_000})
    monkeypatch.setattr("hwd.report.bundle.archive.VALUES_MAX", 10_000)
    assert "tables/stages.json: has some 40001 values; at most 10000 may be" in refused(verified, path)


def test_line_without_an_end_is_refused(plant: Plant, verified: Verified, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hwd.report.bundle.archive.LINE_BYTES_MAX", 1000)
    assert "run.jsonl: a line is over" in refused(verified, plant({"run.jsonl": bytes(range(32, 127)) * 20}))


def test_reconfigurations_that_never_end_are_refused(
    plant: Plant, verified: Verified, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hwd.report.bundle.verification.OPEN_MAX", 0)
    assert "run.jsonl: over 0 reconfigurations have no end" in refused(verified, plant({}))


def test_yaml_bomb_in_the_record_is_read_within_bounds(bundle: Path, plant: Plant, verified: Verified) -> None:
    with zipfile.ZipFile(bundle) as found:
        first, rest = found.read("run.jsonl").split(b"\n", 1)
    run = json.loads(first)
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    run["run"]["testbed_text"] = run["run"]["playbook_text"] = "\n".join(levels)
    differences = verified(plant({"run.jsonl": json.dumps(run).encode() + b"\n" + rest})).differences
    assert differences
