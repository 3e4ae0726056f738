"""What builds the compiled codecs away from a checkout: in the isolation of pip, as the Dockerfile does."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from waterclock.wire import COMPILED

ROOT = Path(__file__).resolve().parents[2]
WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text())
BUILD = tomllib.loads((ROOT / "compiled" / "pyproject.toml").read_text())["build-system"]["requires"]
PINS = dict(requirement.split("==") for requirement in BUILD)
OURS = {"waterclock", "schemas"}


def file_of(module: str) -> Path | None:
    place = ROOT.joinpath(*module.split("."))
    found = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return found if found.is_file() else None


def imported_by(module: str, source: str) -> Iterator[tuple[str, str]]:
    """(What a module imports wherever it does, the line where it says so)."""
    lines = source.splitlines()
    package = module if (ROOT.joinpath(*module.split("."))).is_dir() else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((each.name, lines[node.lineno - 1]) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base, lines[node.lineno - 1]
            yield from ((f"{base}.{each.name}", lines[node.lineno - 1]) for each in node.names)


def followed() -> tuple[set[str], dict[str, str]]:
    """(The modules of ours that mypyc reads, each package of others that they import with the line that does)."""
    waiting = [f"waterclock.wire.{name}" for name in COMPILED]
    seen: set[str] = set()
    others: dict[str, str] = {}
    while waiting:
        module = waiting.pop()
        path = file_of(module)
        if module in seen or path is None:
            continue
        seen.add(module)
        waiting.append(module.rpartition(".")[0] or "waterclock")
        for name, line in imported_by(module, path.read_text()):
            top = name.partition(".")[0]
            if top in OURS:
                waiting.append(name)
            elif top not in sys.stdlib_module_names:
                others.setdefault(top, line)
    return seen, others


def test_what_the_build_installs_is_what_the_product_runs_on() -> None:
    project = WHOLE["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    pinned = dict(requirement.split("==") for requirement in wanted if "==" in requirement)
    assert {name: pinned.get(name) for name in PINS} == PINS
    (backend,) = WHOLE["build-system"]["requires"]
    assert backend in BUILD


def test_the_build_installs_all_that_mypyc_follows() -> None:
    """A package that is not there is an error to mypy, unless it is said to have no types."""
    modules, others = followed()
    assert {"waterclock.model.ids", "waterclock.app", "waterclock.log.kafka"} <= modules
    assert {"orjson", "confluent_kafka", "structlog"} <= set(others)
    untyped = [name for each in WHOLE["tool"]["mypy"]["overrides"] for name in each["module"]]
    missing = {
        name: line
        for name, line in others.items()
        if name.replace("_", "-") not in PINS
        and not any(fnmatch(f"{name}.", pattern) for pattern in untyped)
        and "type: ignore[import-untyped]" not in line
    }
    assert missing == {}
