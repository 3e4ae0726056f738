"""The ledger counts what was played clean on the present code, each seed once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .ledger import (
    ROOT,
    Batch,
    _imported,
    _imports_in_functions,
    _is_of_tests,
    _with_imports_in_functions,
    add,
    batches,
    cores_digest,
    counted,
    counted_by,
    judges_digest,
    never_provoked,
    settled,
    violations,
    without_a_regression,
)

CLEAN = Batch(
    first=100, count=50, counted=48, commit="abc", digest="now", violations=(), seeds_per_s=5.0, judges="these"
)


def test_what_is_added_is_read_again(tmp_path: Path) -> None:
    broken = replace(CLEAN, first=500, violations=(501,))
    for batch in (CLEAN, broken):
        add(batch, tmp_path / "seeds.jsonl")
    assert batches(tmp_path / "seeds.jsonl") == [CLEAN, broken]
    assert batches(tmp_path / "nothing.jsonl") == []


def test_only_clean_seeds_on_the_same_cores_count_and_each_once() -> None:
    older, broken = replace(CLEAN, first=900, digest="before"), replace(CLEAN, first=500, violations=(501,))
    overlapping, another = replace(CLEAN, first=149), replace(CLEAN, first=150, judges="others")
    assert counted([CLEAN, older, broken, overlapping, another], "now") == 48 + 47 + 48
    assert counted_by([CLEAN, older, broken, overlapping, another], "now", "these") == 48 + 47


def test_a_violation_on_these_cores_is_never_forgotten() -> None:
    """Where judges were mended since, the seed is to be played again, and a regression has to name it."""
    broken, older = replace(CLEAN, first=500, violations=(507,)), replace(CLEAN, digest="before", violations=(103,))
    assert violations([CLEAN, broken, older], "now", "these") == [507]
    assert violations([CLEAN, broken, older], "now", "mended") == []
    assert settled([CLEAN, broken, older], "now", "mended") == [507]
    assert settled([CLEAN, broken, older], "now", "these") == []


def test_a_seed_is_named_among_the_regressions_or_told(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("| `some.json` | what it showed (seed 507) |\n")
    assert without_a_regression([507, 508], tmp_path / "README.md") == [508]


def test_cores_are_the_product_and_judges_the_tests() -> None:
    """So a judge that is mended takes no clean seed away, and a role that is changed takes all."""
    assert {path.relative_to(ROOT).parts[0] for path in _imported() if not _is_of_tests(path)} >= {
        "dag_engine", "dispatcher", "retry_router", "waterclock", "workers"
    }  # fmt: skip
    judges = {path.relative_to(ROOT).as_posix() for path in _imported() if _is_of_tests(path)}
    assert judges >= {"tests/oracle/dag_runs.py", "tests/simulation/play.py", "tests/simulation/plan.py"}
    assert cores_digest() != judges_digest()


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
    first = cores_digest(), judges_digest()
    for kept in (_imported, cores_digest, judges_digest):
        kept.cache_clear()
    assert (cores_digest(), judges_digest()) == first
