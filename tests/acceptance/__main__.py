"""``python -m tests.acceptance`` lists the checks; with a name it runs one: whole, or with ``--short`` its short form.

A check is a module beside this one with a function ``main(short: bool) -> None`` that raises where the promise is
broken or where what it wanted to provoke did not happen; its docstring's first line tells what it shows. A module with
``SHORT_FORM = False`` is never part of ``make test``; ``SHORT_TIMEOUT_S`` is for one whose short form is long.
"""

from __future__ import annotations

import ast
import importlib
import json
import resource
import sys
from pathlib import Path
from typing import Any, NamedTuple

from waterclock.leaving import leave_after

_HERE = Path(__file__).resolve().parent


SHORT_TIMEOUT_S = 300
CORE_SECONDS = "core seconds of it and all its processes"


class Check(NamedTuple):
    """One check: its name, what it shows, whether ``make test`` runs its short form, and how long that may take."""

    name: str
    shows: str
    short_form: bool
    short_timeout_s: int


def checks() -> list[Check]:
    """All checks, by name; found without importing them."""
    found = ((path, ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(_HERE.glob("[a-z]*.py")))
    return [
        Check(
            path.stem.replace("_", "-"),
            (ast.get_docstring(tree) or "").partition("\n")[0],
            _setting(tree, "SHORT_FORM", True),
            _setting(tree, "SHORT_TIMEOUT_S", SHORT_TIMEOUT_S),
        )
        for path, tree in found
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)
    ]


def _setting(tree: ast.Module, name: str, otherwise: Any) -> Any:
    """The value of a plain assignment at the top of a module."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
            return ast.literal_eval(node.value)
    return otherwise


def main(words: list[str]) -> int:
    known = checks()
    names = [word for word in words if word != "--short"]
    if not names:
        for check in known:
            print(f"  make show NAME={check.name:<18} {check.shows}")
        return 0
    if len(names) > 1 or names[0] not in {check.name for check in known}:
        print(f"no check is named {' '.join(names)!r}; there are: {', '.join(check.name for check in known)}")
        return 2
    module = importlib.import_module(f"tests.acceptance.{names[0].replace('-', '_')}")
    module.main(short="--short" in words)
    print(json.dumps({"check": names[0], "figure": CORE_SECONDS, "value": _core_seconds()}))
    print(f"{names[0]}: shown")
    return 0


def _core_seconds() -> float:
    """What this process and all that it started and saw the end of have used of the cores."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return round(sum(each.ru_utime + each.ru_stime for each in used), 1)


if __name__ == "__main__":
    leave_after(lambda: sys.exit(main(sys.argv[1:])))
