"""A change to a job document: RFC 7396 merge patch, and what a person means by naming another kind of schedule.

Pure. ``{"every": "5m"}`` on a cron job replaces the cron: what goes with the old kind goes with it. The same for the
way to the work (handler, http, ...), the payload's two forms, and the two words for the tier.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FAMILIES: tuple[dict[str, tuple[str, ...]], ...] = (
    {"cron": ("zone", "seconds", "gap", "fold"), "every": ("start_at",), "delay": (), "at": (), "dates": ()},
    {"handler": (), "http": (), "grpc": (), "shell": (), "kafka": (), "callback_url": (), "dag": ()},
    {"payload": (), "payload_base64": ()},
    {"tier": (), "priority": ()},
)
"""Keys of which a job has one, each with those that go with it alone."""

_SCHEDULE_PARTS = ("zone", "seconds", "gap", "fold", "start_at", "active_from", "calendars", "on_calendar")


def changed(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The document after the patch; null removes. What comes out is checked like any other document."""
    kept = dict(document)
    for family in _FAMILIES:
        for key in (key for key in family if key in patch and patch[key] is None):
            for gone in family[key]:
                kept.pop(gone, None)
        named = [key for key in family if patch.get(key) is not None]
        if not named:
            continue
        for key, followers in family.items():
            if key not in named:
                for gone in (key, *followers):
                    kept.pop(gone, None)
    result: dict[str, Any] = merged(kept, patch)
    return result


def placed_anew(document: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Without the second that was picked before, where the patch changes what it was picked for, and names none."""
    jitter = document.get("jitter")
    asked = patch.get("jitter")
    names_it = isinstance(asked, Mapping) and "offset" in asked
    touched = "jitter" in patch or any(key in patch for key in (*_FAMILIES[0], *_SCHEDULE_PARTS))
    if not isinstance(jitter, Mapping) or names_it or not touched:
        return document
    return document | {"jitter": {key: value for key, value in jitter.items() if key != "offset"}}


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396. Depth is bounded by what was read (32)."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
