"""A job before it is saved: what it would be, and its next fires with what a clock change does to each."""

from __future__ import annotations

from waterclock.model.document import spec_to_document
from waterclock.model.ids import Instant
from waterclock.model.job import JobSpec
from waterclock.model.preview import anchor_of, preview_job
from waterclock.model.preview_document import row_document, shown_rows

from .cron import explain_preview
from .output import Format, default_format, show_one

_ROWS = 10


def show_preview(job_id: str, spec: JobSpec, now: Instant, written: object, form: Format | None) -> None:
    """Print it: a card with a line for each fire, or one JSON document. ``written``: the cron text as it was given."""
    preview = preview_job(spec, anchor_of(spec.schedule, now), now, _ROWS, job_id=job_id)
    explain_preview(preview, written if isinstance(written, str) else "")
    card = {"job": job_id, **spec_to_document(spec)}
    if (form or default_format()) is Format.TABLE:
        lines = [
            f"{line['local']:<31} {line['utc'] or '-':<20}  {line['remark'] or ''}".rstrip()
            for line in shown_rows(preview)
        ]
        show_one({**card, "next_fires": lines}, form)
    else:
        show_one({**card, "next_fires": [row_document(row) for row in preview.rows]}, form)
