"""`python -m docs.blocks docs/tutorials/first-experiment.md ...` runs the blocks of pages and says where a
page is wrong.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from docs.blocks.runner import PageError, run_page


async def main(pages: list[str]) -> int:
    for name in pages:
        with tempfile.TemporaryDirectory(prefix="hwd-page-") as folder:
            try:
                left_out = await run_page(Path(name).resolve(), folder=Path(folder))
            except PageError as error:
                sys.stdout.write(f"{error}\n")
                return 1
        sys.stdout.write("".join(f"{line}\n" for line in (f"{name}: as it says", *left_out)))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
