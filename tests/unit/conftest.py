"""The slice of fresh seeds begins with the first unit test, to have what other tests leave of the processors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.simulation.slice import Slice


@pytest.fixture(scope="session", autouse=True)
def _beside(slice_of_seeds: Slice | None) -> None:
    """Nothing else than that it was asked for."""
