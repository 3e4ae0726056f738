"""The ledger of seeds: which ranges were played, on which cores, and what came of them; one JSON line for each batch.

Must hold: a line counts for the cores that it was played on, told by the digest of all product code that a play
imports, and for no others; a seed that fell short of the bar is in no count; ranges that overlap count once; what no
line has provoked is told. A violation is never forgotten while the cores are the same: where the present play and
judges are those that found it, it stands; where the mistake was theirs and they were mended, the seed is played again,
and a regression has to name it. How many were played by other plays and judges than the present ones is told. The file
is in the repository, so whoever has hours to spare adds a line: ``python -m tests.simulation --ledger --seeds N``.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path

from .hunt import Catch

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("seeds.jsonl")
FILE_OF_LONG = Path(__file__).with_name("long_seeds.jsonl")
"""Of long seeds (``long_plan.py``), apart: no count of seeds is made of them."""
REGRESSIONS = Path(__file__).with_name("regressions") / "README.md"
WANTED = 100_000

_IMPORTED = """
import sys
import tests.simulation.play
for name, module in sorted(sys.modules.items()):
    if getattr(module, "__file__", None):
        print(name, module.__file__, sep="|")
"""


@dataclass(frozen=True, slots=True)
class Batch:
    """Seeds [first, first + count), of which ``counted`` met the bar. ``violations``: those that broke a promise;
    ``missing``: what it should have provoked and did not. ``digest``: of the cores; ``judges``: of the play and its
    judges."""

    first: int
    count: int
    counted: int
    commit: str
    digest: str
    violations: tuple[int, ...]
    seeds_per_s: float
    missing: tuple[str, ...] = ()
    judges: str = ""


def fresh_seed() -> int:
    """Where a batch begins that nobody has played."""
    return secrets.randbits(62)


def batch_of(first: int, caught: Catch) -> Batch:
    """What came of a hunt from ``first`` on, on the code as it is now."""
    return Batch(
        first,
        caught.seeds,
        caught.seeds - len(caught.short),
        _commit(),
        cores_digest(),
        tuple(sorted(caught.violations)),
        round(caught.seeds_per_s, 2),
        tuple(caught.missing),
        judges_digest(),
    )


def add(batch: Batch, file: Path = FILE) -> None:
    """One more line."""
    with file.open("a", encoding="utf-8") as ledger:
        ledger.write(json.dumps(asdict(batch)) + "\n")


def batches(file: Path = FILE) -> list[Batch]:
    """All lines, the oldest first; those too that were played on other code."""
    if not file.exists():
        return []
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    lists = ("violations", "missing")
    return [Batch(**line | {name: tuple(line.get(name, ())) for name in lists}) for line in lines]


def violations(known: list[Batch], digest: str, judges: str) -> list[int]:
    """Seeds that broke a promise on these cores, by the word of these judges: while there is one, no count helps."""
    return sorted(seed for each in _on(known, digest) if each.judges == judges for seed in each.violations)


def settled(known: list[Batch], digest: str, judges: str) -> list[int]:
    """Seeds that broke a promise on these cores by the word of other judges: to be played again by the present ones."""
    return sorted(seed for each in _on(known, digest) if each.judges != judges for seed in each.violations)


def without_a_regression(seeds: Iterable[int], readme: Path = REGRESSIONS) -> list[int]:
    """Those of which no plan is kept, nor said why not."""
    named = readme.read_text(encoding="utf-8")
    return [seed for seed in seeds if str(seed) not in named]


def never_provoked(known: list[Batch], digest: str) -> list[str]:
    """What was missing in every batch on these cores."""
    missing = [set(batch.missing) for batch in _on(known, digest)]
    return sorted(set.intersection(*missing)) if missing else []


def counted(known: list[Batch], digest: str) -> int:
    """How many seeds were played clean on these cores."""
    return sum(each.counted - len(each.violations) for each in _once(_on(known, digest)))


def counted_by(known: list[Batch], digest: str, judges: str) -> int:
    """How many of those by this play and these judges."""
    mine = (each for each in _once(_on(known, digest)) if each.judges == judges)
    return sum(each.counted - len(each.violations) for each in mine)


def _on(known: list[Batch], digest: str) -> list[Batch]:
    return [each for each in known if each.digest == digest]


def _once(known: list[Batch]) -> Iterator[Batch]:
    """Those that overlap no earlier one."""
    seen = list[range]()
    for batch in known:
        seeds = range(batch.first, batch.first + batch.count)
        if not any(seeds.start < each.stop and each.start < seeds.stop for each in seen):
            seen.append(seeds)
            yield batch


@cache
def cores_digest() -> str:
    """Of every file of the product that a play may import, and of the schemas: roles, models, ports in memory.

    Of their syntax trees, so that a remark changes nothing. Asked of a process of its own, so that it does not depend
    on what else this one has imported; what a function imports when it is called is followed from there.
    """
    digest = _digest_of(path for path in _imported() if not _is_of_tests(path))
    for path in sorted((ROOT / "schemas" / "avro").glob("*.avsc")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def judges_digest() -> str:
    """The same of what plays and judges them."""
    return _digest_of(path for path in _imported() if _is_of_tests(path)).hexdigest()


@cache
def _imported() -> tuple[Path, ...]:
    command = [sys.executable, "-c", _IMPORTED]
    env = os.environ | {"WATERCLOCK_COMPILED": "0"}  # compiled or not, what counts are the sources
    told = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=True).stdout
    return tuple(sorted(_with_imports_in_functions(dict(line.split("|") for line in told.splitlines()))))


def _is_of_tests(path: Path) -> bool:
    return path.is_relative_to(ROOT / "tests")


def _digest_of(paths: Iterable[Path]) -> hashlib.blake2b:
    digest = hashlib.blake2b(digest_size=12)
    for path in paths:
        digest.update(path.relative_to(ROOT).as_posix().encode())
        digest.update(ast.dump(ast.parse(path.read_text(encoding="utf-8"))).encode())
    return digest


def _with_imports_in_functions(loaded: dict[str, str]) -> set[Path]:
    """The files of ours among these modules (name: file), and those that their functions import, and so on."""
    waiting = {name: Path(file) for name, file in loaded.items() if _is_ours(Path(file))}
    found: set[Path] = set()
    while waiting:
        name, path = waiting.popitem()
        if path in found:
            continue
        found.add(path)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for imported in _imports_in_functions(path, package):
            spec = _spec_of(imported)
            if spec is not None and spec.origin and _is_ours(Path(spec.origin)):
                waiting[imported] = Path(spec.origin)
    return found


def _is_ours(path: Path) -> bool:
    return path.suffix == ".py" and path.is_relative_to(ROOT) and ".venv" not in path.parts


def _imports_in_functions(path: Path, package: str) -> set[str]:
    found: set[str] = set()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for node in ast.walk(function) if isinstance(function, functions) else ():
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                begin = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                found |= {begin, *(f"{begin}.{alias.name}" for alias in node.names)}
    return found


def _spec_of(name: str) -> ModuleSpec | None:
    """None for what is no module: a name that is imported from one."""
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip() or "no repository"
