"""Rows that a later release has written: this one does not understand them."""

from __future__ import annotations

from typing import Any

import pytest

from waterclock.store import rows


def not_understood(monkeypatch: pytest.MonkeyPatch, reads: str, job_id: str) -> None:
    """``reads`` of ``store/rows.py`` understands no row of this job."""
    right = getattr(rows, reads)

    def read(of: str, *values: Any) -> Any:
        if of == job_id:
            raise KeyError("a schedule of a later release")
        return right(of, *values)

    monkeypatch.setattr(rows, reads, read)
