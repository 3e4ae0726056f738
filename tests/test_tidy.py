"""The house stays tidy: what the linters cannot see, as ordinary tests over the source text.

Every rule has its reason in its name or its docstring. Ratchets only ever tighten.
"""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROLES = ("dispatcher", "workers", "dag_engine", "retry_router")
FOLDERS = ("waterclock", *ROLES, "schemas")

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 400

LONGER_FUNCTIONS: dict[str, int] = {}
"""Ratchet: ``path:function`` -> lines. An entry may shrink or go; a new one needs a reason in its commit."""

LONGER_FILES: dict[str, int] = {}
"""The same for files."""


def _files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


SOURCES = _files(*FOLDERS)
TESTS = _files("tests")
CORES = [
    *(
        path
        for path in _files(*ROLES, "waterclock/model", "waterclock/recorder", "waterclock/intake")
        if path.name != "__main__.py"
    ),
    ROOT / "waterclock/transact.py",
]
"""What a replay must decide alike. ``__main__.py`` wires real clocks and names, and decides nothing."""


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _imports(path: Path) -> Iterator[str]:
    """The modules that a file imports absolutely, also inside functions."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _dotted(node: ast.expr) -> str:
    """``a.b.c`` of a call's function; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def _calls(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Call):
            yield node.lineno, _dotted(node.func)


def _begins(module: str, names: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


# Who may import whom ------------------------------------------------------------------------------------------------


def test_no_source_imports_a_role_by_its_installed_name() -> None:
    """import-linter does not see it, and the module would exist twice in one process."""
    installed = tuple(f"waterclock.{name}" for name in (*ROLES, "schemas"))
    assert [(_name(path), module) for path in SOURCES for module in _imports(path) if _begins(module, installed)] == []


def test_a_role_imports_its_own_modules_relatively_and_nobody_imports_it() -> None:
    bare = (*ROLES, "schemas")
    assert [(_name(path), module) for path in SOURCES for module in _imports(path) if _begins(module, bare)] == []


def test_tests_import_roles_by_their_installed_names() -> None:
    bare = (*ROLES, "schemas")
    assert [(_name(path), module) for path in TESTS for module in _imports(path) if _begins(module, bare)] == []


@pytest.mark.parametrize(
    ("library", "home"),
    [
        ("cassandra", r"waterclock/(store|stack)/"),
        ("confluent_kafka", r"waterclock/(log/kafka|stack/)"),
        ("croniter", r"waterclock/model/cron"),
        ("fastavro", r"waterclock/wire/"),
        # Whoever calls foreign systems by another way than the guarded one would not be stopped.
        ("aiohttp", r"waterclock/egress/"),
    ],
)
def test_a_driver_is_known_in_its_home_alone(library: str, home: str) -> None:
    importing = [path for path in SOURCES if any(_begins(module, (library,)) for module in _imports(path))]
    assert importing, f"nobody imports {library}: is this rule still needed?"
    assert [_name(path) for path in importing if not re.match(home, _name(path))] == []


def test_the_model_imports_nothing_of_ours() -> None:
    mine = [(_name(path), module) for path in _files("waterclock/model") for module in _imports(path)]
    assert [
        each for each in mine if _begins(each[1], ("waterclock",)) and not _begins(each[1], ("waterclock.model",))
    ] == []


# What cores must not do ---------------------------------------------------------------------------------------------

_CLOCKS = re.compile(
    r"time\.(sleep|time|time_ns|monotonic|monotonic_ns|perf_counter|perf_counter_ns)"
    r"|(datetime\.)?(datetime|date)\.(now|utcnow|today)"
)
_DICE = re.compile(r"random\.(?!Random$)\w+|uuid\.uuid[14]|uuid[14]|os\.urandom|secrets\.\w+|hash")


def test_cores_take_time_from_the_clock_port_and_never_sleep() -> None:
    found = [f"{_name(path)}:{line} {call}" for path in CORES for line, call in _calls(path) if _CLOCKS.fullmatch(call)]
    assert found == []


def test_cores_throw_no_dice() -> None:
    """A replay must decide alike; ``hash()`` of a text differs from process to process."""
    found = [f"{_name(path)}:{line} {call}" for path in CORES for line, call in _calls(path) if _DICE.fullmatch(call)]
    assert found == []


def test_cores_cannot_reach_clock_or_dice_by_a_shorter_name() -> None:
    """``from time import sleep`` would hide a call from the two rules above."""
    hidden = [
        f"{_name(path)}: from {node.module} import {alias.name}"
        for path in CORES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module in {"time", "random", "secrets", "uuid"}
        for alias in node.names
        if alias.name not in {"Random", "UUID"}
    ]
    assert hidden == []


def test_services_wait_on_an_event_and_never_sleep() -> None:
    """``time.sleep`` fails with EINVAL where the wall clock is faked under a process: a dispatcher died of it.

    Not of what people write against, and of the commands: those are no services.
    """
    people = ("waterclock/clients/", "waterclock/commands/", "waterclock/stack/")
    services = [path for path in SOURCES if not _name(path).startswith(people)]
    assert [f"{_name(path)}:{line}" for path in services for line, call in _calls(path) if call == "time.sleep"] == []


def test_services_log_and_never_print() -> None:
    speaking = re.compile(r"waterclock/(cli|stack/|demo)")
    found = [
        f"{_name(path)}:{line}"
        for path in SOURCES
        if not speaking.match(_name(path))
        for line, call in _calls(path)
        if call == "print"
    ]
    assert found == []


def test_only_transact_touches_the_transaction_methods_of_a_producer() -> None:
    found = [
        f"{_name(path)}:{line} {call}"
        for path in SOURCES
        if _name(path) != "waterclock/transact.py"
        and not _name(path).startswith(("waterclock/log/", "waterclock/stack/"))
        for line, call in _calls(path)
        if re.search(r"producer\.(init|begin|send_offsets|commit|abort)$", call)
    ]
    assert found == []


# Shape ----------------------------------------------------------------------------------------------------------------


def test_every_module_says_why_it_exists() -> None:
    silent = [path for path in (*SOURCES, *TESTS) if not ast.get_docstring(_tree(path))]
    assert [_name(path) for path in silent if path in SOURCES or path.name != "__init__.py"] == []


def test_no_module_is_a_drawer() -> None:
    drawers = {"util", "utils", "common", "helper", "helpers", "manager", "base", "misc"}
    parts = {
        (_name(path), part) for path in (*SOURCES, *TESTS) for part in path.relative_to(ROOT).with_suffix("").parts
    }
    assert [name for name, part in parts if part in drawers] == []


def test_functions_stay_short() -> None:
    lengths = {
        f"{_name(path)}:{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {k: n for k, n in lengths.items() if n > LONGER_FUNCTIONS.get(k, FUNCTION_LINES_MAX)} == {}
    assert {k: n for k, n in LONGER_FUNCTIONS.items() if lengths.get(k, 0) < n} == {}, "tighten the ratchet"


def test_files_stay_short() -> None:
    lengths = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {k: n for k, n in lengths.items() if n > LONGER_FILES.get(k, FILE_LINES_MAX)} == {}
    assert {k: n for k, n in LONGER_FILES.items() if lengths.get(k, 0) < n} == {}, "tighten the ratchet"


INSIDE_IMAGES = ("compose/Dockerfile", "compose/docker-compose.yml")
"""Their paths are those of an image, the same everywhere."""


def test_no_machine_of_ours_shows() -> None:
    """A clone works anywhere: no path of one machine in what is kept."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    places = re.compile(r"(?<![\w.\-~}])/(home|root|work|opt|Users)/\w")
    shown = [
        f"{name}:{number}"
        for name in listed.split("\0")
        if name and name not in INSIDE_IMAGES and (ROOT / name).is_file()
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if places.search(line)
    ]
    assert shown == []


# Packaging ------------------------------------------------------------------------------------------------------------


def _setuptools() -> dict[str, object]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: dict[str, object] = tomllib.load(file)["tool"]["setuptools"]
        return found


def test_the_list_of_packages_is_the_tree() -> None:
    """A sub-package that is not listed works in a checkout and is missing from the wheel."""
    tree = {
        path.parent.relative_to(ROOT).as_posix().replace("/", ".") for path in SOURCES if path.name == "__init__.py"
    }
    installed = {name if _begins(name, ("waterclock",)) else f"waterclock.{name}" for name in tree}
    assert set(_setuptools()["packages"]) == installed  # type: ignore[call-overload]


def test_every_folder_with_a_module_is_a_package() -> None:
    assert [_name(path) for path in SOURCES if not (path.parent / "__init__.py").exists()] == []


def test_every_data_file_goes_into_the_wheel() -> None:
    data = _setuptools()["package-data"]
    assert isinstance(data, dict)
    shipped = {
        path
        for package, patterns in data.items()
        for pattern in patterns
        for path in (ROOT / package.replace("waterclock.schemas", "schemas").replace(".", "/")).glob(pattern)
    }
    kept = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*") if path.is_file()}
    left = {path for path in kept if path.suffix not in {".py", ".pyc"} and "__pycache__" not in path.parts}
    assert sorted(_name(path) for path in left - shipped if ".egg-info" not in _name(path)) == []
