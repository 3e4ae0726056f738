"""Beside the integration tests, which wait for most of their time, the short forms of the acceptance checks begin."""

from __future__ import annotations

import pytest

from tests.acceptance.short_forms import ShortForms


@pytest.fixture(scope="session", autouse=True)
def _beside(short_forms: ShortForms) -> None:
    """They need nothing but to be begun; what no test of this session asks for is not."""
