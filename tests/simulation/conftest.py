"""Plays keep all cores busy by themselves: meanwhile no short form of an acceptance check begins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.short_forms import ShortForms


@pytest.fixture(scope="package", autouse=True)
def _alone(short_forms: ShortForms) -> Iterator[None]:
    with short_forms.waiting():
        yield
