"""The ledger counts what was played clean on the present code, each seed once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .ledger import Batch, add, batches, cores_digest, counted

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


def test_the_digest_is_the_same_whoever_asks() -> None:
    first = cores_digest()
    cores_digest.cache_clear()
    assert cores_digest() == first
