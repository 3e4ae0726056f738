"""A job's past at the terminal: its versions, and what differs between two of them."""

from __future__ import annotations

import json
from typing import Any

from waterclock.model.errors import NotFound
from waterclock.model.job import JobVersion, Pause
from waterclock.model.spec_diff import CHANGES_MAX, spec_diff
from waterclock.model.time_text import format_rfc3339
from waterclock.store.versions import Versions

from .output import Format, default_format, say, show_rows

_SHOWN_MAX = 120
"""Characters of a value in a table; JSON output has all of it."""


def find(store: Versions, job_id: str, revision: int) -> JobVersion:
    """The version with this number. Raises NotFound."""
    version = store.version(job_id, revision)
    if version is None:
        raise NotFound(
            f"There is no version {revision} of {job_id}", hint=f"`waterclock job history {job_id}` lists them"
        )
    return version


def show_history(store: Versions, job_id: str, limit: int, below: int | None, output: Format | None) -> None:
    """One line for each version, newest first."""
    found = store.history(job_id, limit + 1, below)
    if not found:
        raise NotFound(f"There is no version of {job_id} here", hint="`waterclock job list` shows the jobs there are")
    lines = [_line(version) for version in found[:limit]]
    show_rows(lines, ("revision", "at", "action", "actor", "status", "note"), output)
    if len(found) > limit:
        say(f"there are more: the same command with --below {found[limit - 1].revision} goes on behind these")


def show_diff(store: Versions, job_id: str, before: int | None, after: int | None, output: Format | None) -> None:
    """One line for each field that differs."""
    newer = find(store, job_id, after) if after is not None else _newest(store, job_id)
    older = find(store, job_id, before) if before is not None else _newest(store, job_id, newer.revision)
    found = spec_diff(older.spec, newer.spec)
    rows: list[dict[str, Any]] = [change._asdict() for change in found.changes]
    if older.status is not newer.status:
        words = older.status.name.lower(), newer.status.name.lower()
        rows.insert(0, {"field": "(status)", "kind": "changed", "before": words[0], "after": words[1]})
    if (output or default_format()) is Format.TABLE:
        rows = [row | {side: _shown(row, side) for side in ("before", "after")} for row in rows]
    show_rows(rows, ("field", "kind", "before", "after"), output)
    say(f"from {older.revision} to {newer.revision}" + ("" if rows else ": nothing differs"))
    if not found.is_whole:
        say(f"more than {CHANGES_MAX} fields differ: these are the first")


def pause_card(pause: Pause | None) -> str | None:
    """Why a job is paused, in one line."""
    if pause is None:
        return None
    until = f", until {format_rfc3339(pause.resume_at)}" if pause.resume_at else ""
    words = f": {pause.note}" if pause.note else ""
    return f"by {pause.actor} since {format_rfc3339(pause.paused_at)}{until}{words}"


def _newest(store: Versions, job_id: str, below: int | None = None) -> JobVersion:
    found = store.history(job_id, 1, below)
    if not found:
        raise NotFound(f"There is no older version of {job_id}" if below else f"There is no job {job_id}",
                       hint="`waterclock job history` lists a job's versions")  # fmt: skip
    return found[0]


def _line(version: JobVersion) -> dict[str, Any]:
    note = version.note
    if version.from_revision:
        note = f"back to {version.from_revision}" + (f": {note}" if note else "")
    return {
        "revision": version.revision,
        "at": format_rfc3339(version.stamp_at),
        "action": version.action or None,
        "actor": version.actor,
        "status": version.status.name.lower(),
        "note": note or None,
    }


def _shown(row: dict[str, Any], side: str) -> str:
    if row["kind"] == ("added" if side == "before" else "removed"):
        return ""
    text = row[side] if isinstance(row[side], str) else json.dumps(row[side], ensure_ascii=False)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"
