"""`python -m docs.generate` fills the generated parts of all pages; `--check` only reports stale ones
(exit status 1).
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from docs.generate import command_line, documents, drivers, http, json_shapes, keys, messages, metrics, planes
from docs.generate.pages import filled

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent


def parts() -> Mapping[str, Callable[[], str]]:
    """The generator of each part, by its name in the pages."""
    return {
        "command-overview": command_line.overview,
        "commands": command_line.commands,
        "json-shapes": json_shapes.shapes,
        "calls": http.calls,
        "bodies": http.bodies,
        "answers": http.answers,
        "answer-fields": http.answer_fields,
        "problems": http.problems,
        "documents": documents.documents,
        "messages": messages.messages,
        "metrics": metrics.metrics,
        "series": metrics.series,
        "breaches": planes.breaches,
        "driver-models": drivers.overview,
        "driver-options": drivers.options,
        "testbed-keys": partial(keys.keys, "testbed"),
        "testbed-words": partial(keys.words, "testbed"),
        "playbook-keys": partial(keys.keys, "playbook"),
        "playbook-words": partial(keys.words, "playbook"),
    }


def stale() -> dict[Path, str]:
    """Pages whose generated parts differ from the code, with their new text."""
    found = {}
    for page in sorted(DOCS.glob("*/*.md")):
        text = page.read_text(encoding="utf-8")
        if (fresh := filled(text, parts())) != text:
            found[page] = fresh
    return found


def main() -> int:
    pages = stale()
    for page, text in pages.items():
        if "--check" not in sys.argv:
            page.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{page.relative_to(ROOT)}\n")
    return int("--check" in sys.argv and bool(pages))


if __name__ == "__main__":
    sys.exit(main())
