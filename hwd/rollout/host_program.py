"""Makes the program for a host's own Python, `python3 -I -B - VERB JSON`: several modules in one text, since none of
ours is installed there yet.
"""

from importlib.resources import files
from typing import Final

MODULES: Final = ("programs", "facts", "lock", "staging", "program")
"""In the order of their imports."""


def make_program() -> bytes:
    """Runs `hwd.rollout.onhost.program.main`."""
    folder = files("hwd.rollout.onhost")
    sources = {f"hwd.rollout.onhost.{name}": folder.joinpath(f"{name}.py").read_text("utf-8") for name in MODULES}
    return f"""import sys, types
for name, source in {sources!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
module.main()
""".encode()
