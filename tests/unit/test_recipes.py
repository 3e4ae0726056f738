"""The programs printed in ``docs/recipes`` are the ones that the check runs, character by character.

A recipe names a file in a comment and prints it in the code block below. ``python -m tests.unit.test_recipes`` prints
the files into the recipes anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPES = sorted((ROOT / "docs" / "recipes").glob("*.md"))
_PRINTED = re.compile(r"(<!-- (?P<file>\S+) -->\n```\w+\n)(?P<text>.*?)(```\n)", re.DOTALL)


def test_there_is_a_recipe_for_each_foreign_producer() -> None:
    assert [path.stem for path in RECIPES] == ["go", "java", "kcat"]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_prints_the_program_that_the_check_runs(recipe: Path) -> None:
    printed = list(_PRINTED.finditer(recipe.read_text(encoding="utf-8")))
    assert printed
    for block in printed:
        assert block["text"] == (ROOT / block["file"]).read_text(encoding="utf-8"), block["file"]


def _print_anew(recipe: Path) -> None:
    text = recipe.read_text(encoding="utf-8")
    anew = _PRINTED.sub(lambda block: block[1] + (ROOT / block["file"]).read_text(encoding="utf-8") + block[4], text)
    recipe.write_text(anew, encoding="utf-8")


if __name__ == "__main__":
    for each in RECIPES:
        _print_anew(each)
