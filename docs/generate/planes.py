"""The rules of control planes, from the members of `Breach` and the sentence under each."""

import ast
import inspect

from docs.generate.pages import code, table
from hwd.planes.target_rules import Breach


def breaches() -> str:
    (made,) = ast.parse(inspect.getsource(Breach)).body
    assert isinstance(made, ast.ClassDef)
    sentences: dict[str, str] = {}
    for member, below in zip(made.body, made.body[1:], strict=False):
        if isinstance(member, ast.Assign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            assert isinstance(member.targets[0], ast.Name)
            sentences[member.targets[0].id] = str(below.value.value)
    return table(("breach", "is"), ((code(breach), sentences[breach.name]) for breach in Breach))
