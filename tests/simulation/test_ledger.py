"""The ledger counts what was played clean on the present code, each seed once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .ledger import (
    ROOT,
    Batch,
    _imports_in_functions,
    _with_imports_in_functions,
    add,
    batches,
    cores_digest,
    counted,
    never_provoked,
    violations,
)

CLEAN = Batch(first=100, count=50, counted=48, commit="abc", digest="now", violations=(), seeds_per_s=5.0)


def test_what_is_added_is_read_again(tmp_path: Path) -> None:
    broken = replace(CLEAN, first=500, violations=(501,))
    for batch in (CLEAN, broken):
        add(batch, tmp_path / "seeds.jsonl")
    assert batches(tmp_path / "seeds.jsonl") == [CLEAN, broken]
    assert batches(tmp_path / "nothing.jsonl") == []


def test_only_clean_batches_of_the_same_cores_count_and_each_seed_once() -> None:
    older, broken = replace(CLEAN, first=900, digest="before"), replace(CLEAN, first=500, violations=(501,))
    overlapping, another = replace(CLEAN, first=149), replace(CLEAN, first=150)
    assert counted([CLEAN, older, broken, overlapping, another], "now") == 48 + 48


def test_a_violation_on_these_cores_is_never_forgotten() -> None:
    broken, older = replace(CLEAN, violations=(107,)), replace(CLEAN, digest="before", violations=(3,))
    assert violations([CLEAN, broken, older], "now") == [107]
    assert violations([CLEAN, older], "now") == []


def test_what_no_batch_has_provoked_is_told() -> None:
    rare, blind = replace(CLEAN, missing=("forget",)), replace(CLEAN, missing=("forget", "crash"))
    assert never_provoked([rare, blind], "now") == ["forget"]
    assert never_provoked([rare, blind, CLEAN], "now") == []
    assert never_provoked([], "now") == []


def test_the_digest_knows_what_is_imported_late_and_what_the_schemas_say(tmp_path: Path) -> None:
    late = {path.name for path in _with_imports_in_functions({"tests.simulation.ledger": __file__})}
    assert "test_ledger.py" in late
    caller = ROOT / "tests" / "simulation" / "shrink.py"
    assert _imports_in_functions(_source(tmp_path), "tests.simulation") >= {"tests.simulation.play", "json"}
    assert caller in _with_imports_in_functions({"tests.simulation.shrink": str(caller)})


def _source(folder: Path) -> Path:
    file = folder / "late.py"
    file.write_text("def act():\n    import json\n    from .play import play\n", encoding="utf-8")
    return file


def test_the_digest_is_the_same_whoever_asks() -> None:
    first = cores_digest()
    cores_digest.cache_clear()
    assert cores_digest() == first
