"""output_of: runs a program of the host, such as `chronyc`, `pmc` or `mlxlink`, and returns its output."""

import asyncio

from hwd_drivers.core.errors import DeadlineError, LinkError


async def output_of(*command: str, within_s: float) -> bytes:
    """The program's standard output.

    Raises LinkError when it fails, DeadlineError when it takes too long. The program is then killed, and also when the
    caller is cancelled.
    """
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(within_s):
            answer, words = await process.communicate()
    except TimeoutError as error:
        raise DeadlineError(f"{' '.join(command)}: no answer in {within_s:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = (words or answer).decode(errors="replace").strip().splitlines()
        raise LinkError(f"{' '.join(command)}: failed with status {process.returncode}: {' '.join(said[-1:])[:200]}")
    return answer
