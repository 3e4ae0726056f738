"""The ledger of seeds: which ranges were played, on which cores, and what came of them; one JSON line for each batch.

Must hold: a line counts for the code that it was played on, told by the digest of everything that a play imports, and
for no other; a seed that fell short of the bar is in no count; ranges that overlap count once. The file is in the
repository, so whoever has hours to spare adds a line: ``python -m tests.simulation --ledger --seeds N``.
"""

from __future__ import annotations

import ast
import hashlib
import json
import secrets
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from .hunt import Catch

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("seeds.jsonl")
WANTED = 100_000

_IMPORTED = """
import sys
import tests.simulation.play
print("\\n".join(sorted({getattr(module, "__file__", None) or "" for module in list(sys.modules.values())})))
"""


@dataclass(frozen=True, slots=True)
class Batch:
    """Seeds [first, first + count), of which ``counted`` met the bar. ``violations``: those that broke a promise."""

    first: int
    count: int
    counted: int
    commit: str
    digest: str
    violations: tuple[int, ...]
    seeds_per_s: float


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
    return [Batch(**line | {"violations": tuple(line["violations"])}) for line in lines]


def counted(known: list[Batch], digest: str) -> int:
    """How many seeds were played clean on the code of this digest. A batch with a violation counts for nothing."""
    total, seen = 0, list[range]()
    for batch in known:
        seeds = range(batch.first, batch.first + batch.count)
        overlaps = any(seeds.start < each.stop and each.start < seeds.stop for each in seen)
        if batch.digest == digest and not batch.violations and not overlaps:
            total += batch.counted
            seen.append(seeds)
    return total


@cache
def cores_digest() -> str:
    """Of every file of ours that a play imports: the product's cores, the ports in memory, the play, the judges.

    Of their syntax trees, so that a remark changes nothing. Asked of a process of its own, so that it does not depend
    on what else this one has imported.
    """
    command = [sys.executable, "-c", _IMPORTED]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True).stdout
    digest = hashlib.blake2b(digest_size=12)
    for name in told.splitlines():
        path = Path(name)
        if path.suffix == ".py" and path.is_relative_to(ROOT) and ".venv" not in path.parts:
            digest.update(path.relative_to(ROOT).as_posix().encode())
            digest.update(ast.dump(ast.parse(path.read_text(encoding="utf-8"))).encode())
    return digest.hexdigest()


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip() or "no repository"
