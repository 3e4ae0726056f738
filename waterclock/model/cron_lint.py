"""From what a person wrote to plain cron fields: the grammar of ours, checked before any parser sees the text.

croniter accepts more than it means: it drops ``W``, reads ``5-5`` as the whole field, miscounts steps over a wrapped
range and takes 0.7 s for 200 kB of ``mon,``. So the text is first capped, then macros and ``H`` are replaced by fixed
text, wrapped ranges by lists, and every item outside our grammar is refused here with a hint.

What must hold: the outcome depends on the text, the flag and the job id alone, for ever (``H`` is in golden tests: a
change would move the fire times of stored jobs). How it fails: RequestError, pointer ``/cron``.
"""

from __future__ import annotations

import difflib
import re
from hashlib import blake2b
from typing import NamedTuple, NoReturn

from .errors import RequestError

CRON_MAX = 128
"""Characters in a cron expression."""


class Field(NamedTuple):
    """One column of an expression: its name, its values ``low``..``high``, and the names for them."""

    name: str
    low: int
    high: int
    names: dict[str, int]

    @property
    def is_day(self) -> bool:
        """Day of month or day of week: where ``?`` may stand for ``*``."""
        return self.name.startswith("day")


_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}

FIELDS = (
    Field("second", 0, 59, {}),
    Field("minute", 0, 59, {}),
    Field("hour", 0, 23, {}),
    Field("day-of-month", 1, 31, {}),
    Field("month", 1, 12, _MONTHS),
    Field("day-of-week", 0, 6, _DAYS),
)

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_ITEM = re.compile(r"(?P<from>\*|[a-z]+|\d+)(?:-(?P<to>[a-z]+|\d+))?(?:/(?P<step>\d+))?")
_HASHED = re.compile(r"h(?:\((?P<low>\d+)-(?P<high>\d+)\))?(?:/(?P<step>\d+))?")
_HAS_HASHED = re.compile(r"(?:^|[\s,])h", re.IGNORECASE)
_NTH = re.compile(r"(?:l(?P<last>[0-7])|(?P<day>[a-z]+|\d+)#(?P<nth>[1-5]))")
_HASHED_DAY_MAX = 28


class PlainCron(NamedTuple):
    """Six fields in plain text (second first), and remarks for the author. ``resolved`` is what to show."""

    fields: tuple[str, ...]
    resolved: str
    warnings: tuple[str, ...]


def refuse(message: str, hint: str) -> NoReturn:
    """Raise the RequestError of an expression."""
    raise RequestError(message, pointer="/cron", hint=hint)


def has_hashed(text: str) -> bool:
    """Whether the expression holds an ``H``, so that its meaning depends on the job's id."""
    return _HAS_HASHED.search(text) is not None


def read_plain(text: str, *, seconds: bool, job_id: str) -> PlainCron:
    """Check an expression and bring it to plain fields. Raises RequestError (pointer ``/cron``)."""
    _check_characters(text)
    columns = _columns(text.lower(), seconds=seconds)
    warnings: list[str] = []
    plain = tuple(_read_field(field, column, job_id, warnings) for field, column in zip(FIELDS, columns, strict=True))
    return PlainCron(plain, " ".join(plain if seconds else plain[1:]), tuple(warnings))


def refuse_from_seven(text: str, *, seconds: bool) -> None:
    """Refuse ``7-n`` with n below 7 outside days of the week, which is read as ``0-n``. Raises RequestError."""
    for field, column in zip(FIELDS, _columns(text.lower(), seconds=seconds), strict=True):
        for item in column.split(",") if field.name != "day-of-week" else ():
            match = _ITEM.fullmatch(item)
            if match is None or not (match["from"].isdigit() and (match["to"] or "").isdigit()):
                continue
            if int(match["from"]) == 7 and int(match["to"]) < 7:
                refuse(
                    f"{field.name}: the range {item!r} runs backwards",
                    f"Write two ranges in a list, such as 7-{field.high},{field.low}-{match['to']}",
                )


def _check_characters(text: str) -> None:
    if len(text) > CRON_MAX:
        refuse(f"The expression has {len(text)} characters", f"At most {CRON_MAX} are allowed; split it into two jobs")
    if not text.strip():
        refuse("The expression is empty", "Write five fields, such as 0 9 * * 1-5")
    strange = [c for c in text if not (" " <= c <= "~" or c == "\t")]
    if strange:
        refuse(
            f"{strange[0]!r} is not allowed in an expression", "Use printable ASCII, and blanks or tabs between fields"
        )


def _columns(text: str, *, seconds: bool) -> list[str]:
    """The six columns of the lower-case text; second is ``0`` where the expression has none."""
    text = text.strip()
    if text.startswith("@"):
        return ["0", *_macro(text).split()]
    if re.match(r"(cron_)?tz=", text):
        refuse("A zone inside the expression is not accepted", 'Give it as "zone", such as "zone": "Europe/Berlin"')
    columns = text.split()
    wanted = 6 if seconds else 5
    if len(columns) == wanted:
        return columns if seconds else ["0", *columns]
    hint = "Write minute hour day-of-month month day-of-week"
    if seconds:
        hint = "Write second minute hour day-of-month month day-of-week, the second first"
    elif len(columns) == 6:
        hint = 'For seconds set "seconds": true and write them first; there is no year field'
    refuse(f"The expression has {len(columns)} fields and not {wanted}", hint)


def _macro(text: str) -> str:
    if text in _MACROS:
        return _MACROS[text]
    if text.startswith("@every"):
        refuse("@every is no cron expression", 'Use an interval: "every": "5m" in place of "cron"')
    if text == "@reboot":
        refuse("@reboot is not accepted", 'A schedule knows no machine; for one run now use "at" or trigger')
    near = difflib.get_close_matches(text, _MACROS, n=1)
    refuse(f"{text!r} is not known", f"Did you mean {near[0]}?" if near else f"Known: {' '.join(_MACROS)}")


def _read_field(field: Field, column: str, job_id: str, warnings: list[str]) -> str:
    if column == "?" and field.is_day:
        return "*"
    items = column.split(",")
    marked = [item for item in items if field.name == "day-of-week" and _NTH.fullmatch(item)]
    if marked and len(marked) < len(items):
        refuse(
            f"day-of-week: {column!r} mixes plain days with {marked[0]!r}",
            "Write all as day#week or L and day, or make two jobs",
        )
    return ",".join(_read_item(field, item, job_id, warnings) for item in items)


def _read_item(field: Field, item: str, job_id: str, warnings: list[str]) -> str:
    """One item of a list, checked, in the form that croniter reads as we mean it."""
    if field.name == "day-of-month" and item == "l":
        return item
    if field.name == "day-of-week" and (nth := _NTH.fullmatch(item)):
        if nth["day"]:
            _value(field, nth["day"], item)
        return item
    if hashed := _HASHED.fullmatch(item):
        item = _replace_hashed(field, item, hashed, job_id)
    match = _ITEM.fullmatch(item)
    if match is None or (match["from"] == "*" and match["to"]):
        _refuse_item(field, item)
    step = int(match["step"]) if match["step"] else 0
    if match["step"]:
        _check_step(field, item, step)
    if match["from"] == "*":
        if step and (field.high - field.low + 1) % step:
            warnings.append(f"{field.name} {item}: the last step is shorter, it begins anew at {field.low}")
        return item
    low = _value(field, match["from"], item)
    if match["to"] is None:
        return _check_start(field, item, low, step, warnings)
    return _read_range(field, item, (low, _value(field, match["to"], item)), step, warnings)


def _value(field: Field, word: str, item: str) -> int:
    """The number of a word; Sunday is 0, and 7 where it was written so."""
    number = int(word) if word.isdigit() else field.names.get(word)
    if number is None:
        _refuse_item(field, item)
    high = 7 if field.name == "day-of-week" else field.high
    if not field.low <= number <= high:
        refuse(f"{field.name}: {item!r} is out of range", f"Values go from {field.low} to {high}")
    return number


def _check_step(field: Field, item: str, step: int) -> None:
    if not 1 <= step <= field.high - field.low:
        refuse(
            f"{field.name}: the step of {item!r} is out of range",
            f"Steps go from 1 to {field.high - field.low}; for the first value alone write {field.low}",
        )


def _check_start(field: Field, item: str, low: int, step: int, warnings: list[str]) -> str:
    """``n`` or ``n/step``, which runs to the field's maximum."""
    if step and low >= field.high:
        refuse(f"{field.name}: {item!r} starts at the maximum, so that the step means nothing", f"Write {low}")
    if step and low + step > field.high:
        warnings.append(f"{field.name} {item}: the step leads out of the field, only {low} matches")
    return item


def _read_range(field: Field, item: str, ends: tuple[int, int], step: int, warnings: list[str]) -> str:
    """``a-b`` or ``a-b/step``. A wrapped one (hours, days of the week) becomes a list: croniter miscounts its steps."""
    low, high = ends
    if low == 7 and high < 7:
        low = 0
        if field.name != "day-of-week":  # what is stored goes on firing as it did; the doors take no more of them
            warnings.append(f"{field.name} {item}: the range is read as {low}-{high}")
    if low == high:
        refuse(f"{field.name}: the range {item!r} holds one value", f"Write {low}, or * for every value")
    if low < high:
        if step > high - low:
            warnings.append(f"{field.name} {item}: the step leads out of the range, only {low} matches")
        return f"{low}-{high}" + (f"/{step}" if step else "")
    if field.name not in {"hour", "day-of-week"}:
        refuse(f"{field.name}: the range {item!r} runs backwards", f"Write {high}-{low}, or two ranges in a list")
    count = field.high - field.low + 1
    listed = [str((low + passed) % count) for passed in range(0, (high - low) % count + 1, step or 1)]
    warnings.append(f"{field.name} {item}: the range wraps around and means {','.join(listed)}")
    return ",".join(listed)


def _replace_hashed(field: Field, item: str, match: re.Match[str], job_id: str) -> str:
    """``H`` spreads jobs: the same value for one job for ever, another for its neighbour."""
    if not job_id:
        refuse(f"{field.name}: {item!r} is not accepted here", "H needs the job's id: name the job, or write a number")
    low, high = field.low, _HASHED_DAY_MAX if field.name == "day-of-month" else field.high
    if match["low"]:
        low, high = _value(field, match["low"], item), _value(field, match["high"], item)
        if low >= high:
            refuse(f"{field.name}: the range of {item!r} is empty", "Write H(a-b) with a below b")
    digest = int.from_bytes(blake2b(f"{job_id}\n{field.name}".encode(), digest_size=8).digest())
    if not match["step"]:
        return str(low + digest % (high - low + 1))
    step = int(match["step"])
    if not 1 <= step <= high - low:
        refuse(f"{field.name}: the step of {item!r} is out of range", f"Steps go from 1 to {high - low}")
    return f"{low + digest % step}-{high}/{step}"


def _refuse_item(field: Field, item: str) -> NoReturn:
    hint = "Accepted are *, n, a-b, lists, */step, a-b/step, a/step"
    if not item:
        hint = "Remove the empty item: a comma stands between two values"
    elif field.is_day and "w" in re.sub("[a-z]{3}", "", item):
        hint = "The nearest weekday (W) is not supported; list the days, or use an own calendar rule in the handler"
    elif field.name == "day-of-week" and re.fullmatch(r"\d?l", item):
        hint = f"For the last such day of the month write L{item[:-1] or 5}"
    elif field.is_day and "l" in item:
        hint = "L alone is the last day of the month; L5 in day-of-week is its last Friday"
    elif re.match(r"r\b", item):
        hint = "R differs at every reading; H is spread over the jobs and stays"
    elif field.names and re.fullmatch("[a-z]+", item):
        near = difflib.get_close_matches(item[:3], field.names, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Names: {' '.join(field.names)}"
    refuse(f"{field.name}: {item!r} is not accepted", hint)
