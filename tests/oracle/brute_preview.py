"""The next fires of a schedule, and what clock changes do to each: by brute force. Imports nothing of ours.

``python -m tests.oracle.brute_preview`` writes the page ``tests/golden/preview.txt``, which a person can check by hand.
"""

import sys
import zoneinfo
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path

from tests.oracle.brute_force import day_test, localise, nominal, ruled, rules
from tests.oracle.tricky_schedules import TRICKY, Tricky

PAGE = Path(__file__).resolve().parents[1] / "golden" / "preview.txt"
FIRES = 10
DAY, EPOCH = 1_440, datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = (("minute", 0, 59), ("hour", 0, 23), ("day-of-month", 1, 28), ("month", 1, 12), ("day-of-week", 0, 6))
MACROS = {"@monthly": "0 0 1 * *"}
HEAD = f"""The next {FIRES} fires of {len(TRICKY)} tricky schedules, by brute force: every minute of UTC, localised,
and the rules for clock changes applied to the letter. Each line: local time with its offset, UTC, what is unusual. A
line without a UTC time is no fire: a time that the schedule names and that the clock passes over.
"""


def resolved(text, job_id):
    """Five columns with macros and H replaced: H is a hash of the job's id and the column's name."""
    columns = MACROS.get(text, text).lower().split()
    return " ".join(hashed(column, *limits, job_id) for column, limits in zip(columns, COLUMNS, strict=True))


def hashed(column, name, low, high, job_id):
    """``H``, ``H(a-b)``, and either with a step ``/s``."""
    if not column.startswith("h"):
        return column
    body, _, step = column.partition("/")
    if "(" in body:
        low, high = (int(word) for word in body[2:-1].split("-"))
    digest = int.from_bytes(blake2b(f"{job_id}\n{name}".encode(), digest_size=8).digest())
    return f"{low + digest % int(step)}-{high}/{step}" if step else str(low + digest % (high - low + 1))


def stretches(text, zone, after, days):
    """(begin, window) of every UTC day from ``after`` on that touches a local date which the day columns name."""
    on_day = day_test(*text.split()[2:])
    for day in range(after // DAY, after // DAY + days):
        date = (EPOCH + timedelta(days=day)).date()
        if any(on_day(date + timedelta(days=beside)) for beside in (-1, 0, 1)):
            yield day * DAY, localise(zone, day * DAY, day * DAY + DAY)


def rows(text, zone, after, count, gap="auto", fold="auto", days=60 * 366):
    """The fires behind the UTC minute ``after``: (minute, local, offset, marks), and the gaps of which nothing fires:
    (None, first time, None, marks). A mark is (kind, first nominal time, last one, how many). Ends after so many days.
    """
    (moves, once), tz, made = rules(text, gap, fold), zoneinfo.ZoneInfo(zone), 0
    for begin, window in stretches(text, zone, after, days):
        named, gaps = nominal(text, window, begin)
        fires = {minute for minute in ruled(named, gaps, moves, once) if minute > after}
        inside = {minute: (length, times) for minute, length, times in gaps if times and minute > after}
        for minute in sorted(fires | set(inside)):
            length, times = inside.get(minute, (0, []))
            served, marks = moves and length < 180, []
            if times and not served:
                yield None, times[0], None, [("skipped", times[0], times[-1], len(times))]
            elif times:
                marks.append(("moved", times[0], times[-1], len(times)))
            if minute not in fires:
                continue
            local, second_time, offset = window[minute - begin + 1]
            offsets = {local.replace(tzinfo=tz, fold=which).utcoffset() for which in (0, 1)}
            if len(offsets) == 2:
                marks.append(("second_of_two" if second_time else "first_of_two", local, local, 1))
            yield minute, local, offset, marks
            made += 1
            if made == count:
                return


def page():
    """The golden page."""
    return "\n".join([HEAD, *(line for number, tricky in enumerate(TRICKY, 1) for line in entry(number, tricky))])


def entry(number, tricky):
    """The lines of one schedule."""
    text = resolved(tricky.text, tricky.job_id)
    after = (datetime.fromisoformat(tricky.after) - EPOCH) // timedelta(minutes=1)
    lines = list(heading(number, tricky, text))
    for minute, local, offset, marks in rows(text, tricky.zone, after, FIRES, tricky.gap, tricky.fold):
        shown = f"{local:%a %Y-%m-%d %H:%M}"
        if minute is not None:
            sign = "-" if offset < 0 else "+"
            utc = EPOCH + timedelta(minutes=minute)
            shown += f" {sign}{abs(offset) // 60:02}:{abs(offset) % 60:02}  {utc:%Y-%m-%dT%H:%MZ}"
        lines.append("  ".join([shown, *map(mark, marks)]))
    return [*lines, ""]


def heading(number, tricky: Tricky, text):
    """What the schedule is, and why it is here."""
    asked = [f"{word} {value}" for word, value in (("gap", tricky.gap), ("fold", tricky.fold)) if value != "auto"]
    read_as = [f"H of {tricky.job_id}: {text}"] if tricky.job_id else []
    yield f"{number}. {tricky.text}  {tricky.zone}, from {tricky.after}  ({tricky.why})"
    if asked or read_as:
        yield f"   {'; '.join(asked + read_as)}"


def mark(found):
    """A mark in words: nominal times, and how many where there are several."""
    kind, first, last, many = found
    span = f"{first:%H:%M}" if many == 1 else f"{first:%H:%M}..{last:%H:%M} ({many})"
    return {"moved": f"moved from {span}", "skipped": f"no fire for {span}"}.get(kind, kind.replace("_", " "))


if __name__ == "__main__":
    sys.stdout.write(f"{PAGE.name}: {PAGE.write_text(page(), encoding='utf-8')} characters\n")
