"""The product's previews in the form of the golden page, and where they differ from it. Brute force wrote the page."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from tests.oracle import brute_preview
from tests.oracle.tricky_schedules import TRICKY, Tricky
from waterclock.model.job import Cron, Fold, Gap
from waterclock.model.preview import preview_cron
from waterclock.model.preview_document import preview_document
from waterclock.model.time_text import parse_rfc3339


def differences(preview_of: Callable[[Tricky], dict[str, Any]]) -> list[str]:
    """Lines of the page that ``preview_of`` (a preview as the API answers it) shows otherwise."""
    golden = brute_preview.PAGE.read_text(encoding="utf-8")
    shown = "\n".join([brute_preview.HEAD, *(line for number, tricky in enumerate(TRICKY, 1)
                                             for line in _entry(number, tricky, preview_of(tricky)))])  # fmt: skip
    return list(difflib.unified_diff(golden.splitlines(), shown.splitlines(), "brute force", "the product", n=1))


def preview_of(tricky: Tricky) -> dict[str, Any]:
    """By the model, without a door."""
    cron = Cron(tricky.text, tricky.zone, gap=Gap(tricky.gap), fold=Fold(tricky.fold))
    after = parse_rfc3339(tricky.after.replace("Z", ":00Z"))
    return preview_document(preview_cron(cron, after, brute_preview.FIRES, job_id=tricky.job_id))


def _entry(number: int, tricky: Tricky, preview: dict[str, Any]) -> Iterator[str]:
    """``read_as`` is the product's: the page shows what ``H`` became."""
    yield from brute_preview.heading(number, tricky, preview["read_as"])
    for fire in preview["next_fires"]:
        marks = fire["marks"]
        for mark in marks:
            if mark["mark"] == "skipped":
                yield f"{datetime.fromisoformat(mark['nominal_from']):%a %Y-%m-%d %H:%M}  no fire for {_span(mark)}"
        local, utc = datetime.fromisoformat(fire["local"]), datetime.fromisoformat(fire["utc"])
        said = [_said(mark) for mark in marks if mark["mark"] != "skipped"]
        yield "  ".join([f"{local:%a %Y-%m-%d %H:%M} {fire['local'][-6:]}", f"{utc:%Y-%m-%dT%H:%MZ}", *said])
    yield ""


def _said(mark: dict[str, Any]) -> str:
    return f"moved from {_span(mark)}" if mark["mark"] == "moved" else mark["mark"].replace("_", " ")


def _span(mark: dict[str, Any]) -> str:
    first, last = (datetime.fromisoformat(mark[key]) for key in ("nominal_from", "nominal_to"))
    return f"{first:%H:%M}" if mark["times"] == 1 else f"{first:%H:%M}..{last:%H:%M} ({mark['times']})"
