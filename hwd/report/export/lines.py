"""JSON lines: the run on the first, then every document as it was recorded."""

import dataclasses
import json
from collections.abc import Iterable
from typing import BinaryIO

from hwd.records import Run
from hwd_drivers.kit.documents import Document

RUN_KIND = "run"
"""Kind of the first line; no document has it."""


def jsonl(run: Run, documents: Iterable[Document], to: BinaryIO) -> None:
    """Nothing is left out and nothing changed: whoever has this file has the whole run."""
    to.write(_line({"kind": RUN_KIND, "run": dataclasses.asdict(run)}))
    for document in documents:
        to.write(
            _line(
                {
                    "kind": document.kind,
                    "at_ns": document.at_ns,
                    "wall_ns": document.wall_ns,
                    "data": document.data,
                }
            )
        )


def _line(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair is no UTF-8; as an escape it is JSON.
    return text.encode("utf-8", "backslashreplace") + b"\n"
