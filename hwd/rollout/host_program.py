"""Makes programs for a host's own Python: several modules in one text, since none of ours is installed there yet."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

ROLLOUT: Final = ("programs", "facts", "lock", "staging", "program")
"""`python3 -I -B - VERB JSON`; in the order of their imports."""
SUPERVISION: Final = ("child", "supervisor", "output_log", "lasting_supervisor", "relay")
"""Over the input of `python3 -I -B -c`, with what it is asked (`hwd.rollout.processes.supervised_program.boot`)."""


def make_program(modules: Sequence[str] = ROLLOUT) -> bytes:
    """Runs `main` of the last module of `hwd.rollout.onhost` among these."""
    folder = files("hwd.rollout.onhost")
    sources = {f"hwd.rollout.onhost.{name}": folder.joinpath(f"{name}.py").read_text("utf-8") for name in modules}
    return f"""import sys, types
for name, source in {sources!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
module.main()
""".encode()
