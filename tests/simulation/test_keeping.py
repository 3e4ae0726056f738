"""What a hunt finds failing is kept, whatever comes of making it smaller, and what is kept for ever has its reason."""

from __future__ import annotations

from pathlib import Path

from .keeping import kept
from .plan import draw
from .plan_text import read_plan

REGRESSIONS = Path(__file__).with_name("regressions")


def test_a_failing_seed_is_kept_as_a_plan_even_where_it_cannot_be_made_smaller(tmp_path: Path) -> None:
    told = list(kept({7: ("I1 a fire was lost",)}, tmp_path / "new", plays_max=1))
    assert read_plan(tmp_path / "new" / "7.json") == draw(7)
    assert len(told) == 1
    assert "not made smaller" in told[0], "the product is sound, so there is nothing to shrink"
    assert "I1 a fire was lost" in told[0]


def test_where_nothing_failed_nothing_is_kept(tmp_path: Path) -> None:
    assert list(kept({}, tmp_path / "new")) == []
    assert not (tmp_path / "new").exists()


def test_every_plan_that_is_kept_for_ever_is_listed_with_its_reason() -> None:
    listed = (REGRESSIONS / "README.md").read_text(encoding="utf-8")
    assert [file.name for file in REGRESSIONS.glob("*.json") if f"`{file.name}`" not in listed] == []
