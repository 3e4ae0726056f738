"""Plans that a hunt found failing are kept at once, made smaller within a bound: nobody has to think of it.

What is kept lies outside the repository's files until somebody has mended what it shows, and put it into
``regressions/`` with its reason. Must hold: whatever happens while a plan is made smaller, the plan itself is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from .plan import Plan, draw
from .plan_text import plan_to_text
from .shrink import shrink

FOLDER = Path(".waterclock/failing-plans")
SHRUNK_MAX = 3
"""So many of a hunt are made smaller; the others are kept as they were drawn."""
PLAYS_MAX = 60


def kept(
    violations: Mapping[int, tuple[str, ...]],
    folder: Path = FOLDER,
    plays_max: int = PLAYS_MAX,
    draws: Callable[[int], Plan] = draw,
) -> Iterator[str]:
    """Write the plans of these seeds into the folder; tells each as it is done."""
    if violations:
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(sorted(violations)):
        plan, file = draws(seed), folder / f"{seed}.json"
        file.write_text(plan_to_text(plan) + "\n", encoding="utf-8")
        how = "as it was drawn"
        if number < SHRUNK_MAX:
            try:
                found = shrink(plan, plays_max=plays_max)
            except Exception as error:  # noqa: BLE001 - it is told, and the plan stands there already
                how = f"not made smaller: {type(error).__name__}: {error}"
            else:
                file.write_text(plan_to_text(found.plan) + "\n", encoding="utf-8")
                orders, troubles = len(found.plan.orders), len(found.plan.troubles)
                how = f"{orders} orders and {troubles} troubles are left after {found.plays} plays"
        yield f"{file}: {how}; {violations[seed][0]}"
