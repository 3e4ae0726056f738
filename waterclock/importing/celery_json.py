"""A Celery beat schedule in JSON: entries by name, or an object with ``beat_schedule`` and ``timezone``.

A schedule is a number of seconds, or an object as RedBeat keeps it: ``{"__type__": "crontab", "minute": "5", ...}`` and
``{"__type__": "interval", "every": 60}``. What is given twice is told, though readers of JSON keep the last one. How it
fails: RequestError where the file is no JSON object.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from waterclock.model.errors import RequestError

from .celery_entry import Entry, Fields, Seconds, Timing, Unreadable, about_the_tasks, take_entries
from .gathering import Gathering

_HINT = 'Such as {"beat_schedule": {"nightly": {"task": "tasks.add", "schedule": 60}}}'

_LEAVE_ONE = "Readers of JSON keep the last one: leave one"


class _Object(dict[str, object]):
    """An object of the file. ``pairs``: what stands in it, as often as it does."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs

    @property
    def twice(self) -> list[str]:
        """Its keys that come more than once."""
        return [key for key, count in Counter(key for key, _ in self.pairs).items() if count > 1]


def read_celery_json(text: str, gathering: Gathering, *, zone: str | None) -> None:
    """All entries of a file. ``zone`` None: its ``timezone``, else UTC, which is Celery's own default."""
    try:
        document = json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"The file is not JSON: {str(error)[:200]}", hint="Correct the file") from None
    whole = document.get("beat_schedule", document) if isinstance(document, _Object) else None
    if not isinstance(whole, _Object):
        raise RequestError("The file is no object of entries by name", hint=_HINT)
    if whole is not document and document.twice:
        raise RequestError(f"The file gives {document.twice[0][:80]} twice", hint=_LEAVE_ONE)
    named = document.get("timezone") if whole is not document else None
    if zone is None and not isinstance(named, str):
        gathering.note(0, "time zone", "crontabs are taken in UTC, Celery's default: the file does not say it",
                       "Give --tz if beat has another one")  # fmt: skip
    entries: list[Entry] = []
    for key, entry in whole.pairs:
        line = _line_of(text, key)
        if isinstance(entry, _Object):
            twice = next(_given_twice(entry), None)
            parts = {name: value for name, value in entry.items() if name != "schedule"}
            doubt = None if twice is None else Unreadable(f"{twice[:80]} is given twice", _LEAVE_ONE)
            entries.append(Entry(line, key, doubt or _timing(entry.get("schedule")), parts))
        else:
            gathering.left_out(line, key, "it is no object", _HINT)
    take_entries(entries, gathering, zone or (named if isinstance(named, str) else "UTC"))
    about_the_tasks(gathering)


def _timing(value: object) -> Timing:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Seconds(float(value))
    kind = value.get("__type__") if isinstance(value, Mapping) else None
    if isinstance(value, Mapping) and kind == "crontab":
        return Fields({name: given for name, given in value.items() if name != "__type__"})
    if isinstance(value, Mapping) and kind == "interval" and not value.get("relative"):
        return _timing(value.get("every"))
    return Unreadable(
        "its schedule is none that can be read",
        'Write seconds, {"__type__": "crontab", ...} or {"__type__": "interval", "every": ...}',
    )


def _given_twice(value: object) -> Iterator[str]:
    """The keys that come more than once in it, however deep."""
    if isinstance(value, _Object):
        yield from value.twice
    inner = value.values() if isinstance(value, _Object) else value if isinstance(value, list) else ()
    for each in inner:
        yield from _given_twice(each)


def _line_of(text: str, key: str) -> int:
    """Where the key stands first: JSON readers do not say."""
    place = text.find(json.dumps(key))
    return text.count("\n", 0, place) + 1 if place >= 0 else 0
