"""Fifty schedules that are easy to get wrong: expression, zone, from when, the rules asked for, and what is tricky.

Imports nothing of ours. The next ten fires of each stand in ``tests/golden/preview.txt``.
"""

from typing import NamedTuple


class Tricky(NamedTuple):
    """One schedule. ``job_id``: what H is drawn from."""

    text: str
    zone: str
    after: str
    why: str
    gap: str = "auto"
    fold: str = "auto"
    job_id: str = ""


NEW_YORK, LORD_HOWE, CHATHAM, TROLL = "America/New_York", "Australia/Lord_Howe", "Pacific/Chatham", "Antarctica/Troll"
SPRING, AUTUMN = "2026-03-06T00:00Z", "2026-10-30T00:00Z"

TRICKY = (
    # Spring: local times that do not exist.
    Tricky("30 2 * * *", NEW_YORK, SPRING, "inside the gap: once, at its end"),
    Tricky("30 2 * * *", NEW_YORK, SPRING, "the same, left out", gap="skip"),
    Tricky("15,45 2 * * *", NEW_YORK, SPRING, "two times in the gap make one fire"),
    Tricky("0,30 2,3 * * *", NEW_YORK, SPRING, "what falls into the gap meets a real 03:00"),
    Tricky("*/30 2 * * *", NEW_YORK, SPRING, "wild: nothing is moved"),
    Tricky("*/30 2 * * *", NEW_YORK, SPRING, "wild, and moved because it was asked for", gap="shift"),
    Tricky("0 */2 * * *", NEW_YORK, "2026-03-07T22:00Z", "00:00, then 04:00"),
    Tricky("0 * * * *", NEW_YORK, "2026-03-08T04:30Z", "every hour is an hour apart"),
    Tricky("30 2 * 3 sun#2", NEW_YORK, "2026-01-01T00:00Z", "always in the gap: moved every year"),
    Tricky("0 3 * * *", NEW_YORK, SPRING, "the very end of the gap, and nothing is moved there"),
    # Autumn: local times that come twice.
    Tricky("30 1 * * *", NEW_YORK, AUTUMN, "comes twice, fires once"),
    Tricky("30 1 * * *", NEW_YORK, AUTUMN, "comes twice, and both were asked for", fold="both"),
    Tricky("*/30 1 * * *", NEW_YORK, "2026-10-31T12:00Z", "wild: both hours"),
    Tricky("*/30 1 * * *", NEW_YORK, "2026-10-31T12:00Z", "wild, and only the first was asked for", fold="first"),
    Tricky("*/20 * * * *", NEW_YORK, "2026-11-01T04:30Z", "every 20 minutes through the repeated hour"),
    Tricky("0 1,2 * * sun", "Europe/Berlin", "2026-10-20T00:00Z", "02:00 comes twice, 01:00 does not"),
    Tricky("0 2 * * *", "Europe/Berlin", "2026-10-23T00:00Z", "the first instant of the repeated hour"),
    Tricky("0 3 * * *", "Europe/Berlin", "2026-10-23T00:00Z", "the first instant behind it"),
    # Clocks that change by something else than an hour, or at another time of day.
    Tricky("15 2 * * *", LORD_HOWE, "2026-10-02T00:00Z", "half an hour is missing"),
    Tricky("45 1 * * *", LORD_HOWE, "2026-04-03T00:00Z", "half an hour comes twice"),
    Tricky("*/15 1-2 * * *", LORD_HOWE, "2026-04-04T13:00Z", "wild, through half an hour that comes twice"),
    Tricky("50 2 * * *", CHATHAM, "2026-09-25T00:00Z", "the gap begins at 02:45"),
    Tricky("0 3 * * *", CHATHAM, "2026-04-03T00:00Z", "02:45 to 03:45 comes twice"),
    Tricky("30 1,2 * * *", TROLL, "2026-03-28T00:00Z", "two hours are missing"),
    Tricky("0 */1 * * *", TROLL, "2026-10-24T21:30Z", "two hours come twice"),
    Tricky("0 0 * * *", "America/Havana", "2026-03-06T12:00Z", "midnight does not exist"),
    Tricky("30 0 * * *", "America/Havana", "2026-10-30T12:00Z", "midnight comes twice"),
    Tricky("0 0 * * *", "America/Santiago", "2026-09-04T12:00Z", "midnight does not exist, in the south"),
    Tricky("1 0 * * *", "America/St_Johns", "2006-10-27T12:00Z", "the clock went back one minute after midnight"),
    Tricky("0 12 * * *", "Asia/Pyongyang", "2018-05-02T00:00Z", "half an hour, once and for good"),
    Tricky("45 23 * * *", "Asia/Pyongyang", "2018-05-02T00:00Z", "and what fell into it"),
    Tricky("30 4 * * *", "Asia/Kathmandu", "2026-06-01T00:00Z", "an offset of 5:45, and no change ever"),
    # Changes of the calendar: a gap of three hours and more is never made up for.
    Tricky("0 9 * * *", "Pacific/Apia", "2011-12-27T00:00Z", "30 December 2011 never was"),
    Tricky("0 12 30 12 *", "Pacific/Apia", "2009-01-01T00:00Z", "and whoever waits for it waits another year"),
    Tricky("30 1 * * *", "Antarctica/Casey", "2018-03-08T00:00Z", "three hours come twice"),
    Tricky("0 3 * * *", "Antarctica/Casey", "2020-10-02T00:00Z", "three hours are missing, from one minute past"),
    Tricky("*/30 0-3 * * *", "Antarctica/Casey", "2020-10-03T12:00Z", "the same, wild"),
    # Days.
    Tricky("0 0 29 2 *", "UTC", "2026-01-01T00:00Z", "leap days"),
    Tricky("0 0 29 2 *", "UTC", "2090-01-01T00:00Z", "2100 is no leap year"),
    Tricky("0 0 29 2 mon", "UTC", "2028-01-01T00:00Z", "a leap day, or any Monday of February"),
    Tricky("0 12 L * *", "Europe/Berlin", "2027-10-15T00:00Z", "last days, through a leap February"),
    Tricky("0 12 * * L5", "Asia/Tokyo", "2026-01-01T00:00Z", "the last Friday"),
    Tricky("0 12 * * fri#5", "Asia/Tokyo", "2026-01-01T00:00Z", "the fifth Friday: not every month has one"),
    Tricky("0 8 13 * FRI", "Europe/London", "2026-02-01T00:00Z", "the 13th, or any Friday: either"),
    Tricky("0 8 1,L jan-MAR/2 *", "Europe/London", "2026-01-01T00:00Z", "names with a step, first and last day"),
    Tricky("0 22-2 * * sat-mon", "Europe/London", "2026-03-27T00:00Z", "ranges that wrap, through spring"),
    # Steps, H, macros.
    Tricky("*/45 */7 * * *", "UTC", "2026-01-01T00:00Z", "steps that do not divide"),
    Tricky("H H(1-3) * * *", "Europe/Berlin", "2026-03-27T00:00Z", "H of a job, through spring", job_id="acme:nightly"),
    Tricky("H/20 H H * *", "UTC", "2026-01-01T00:00Z", "H with a step, and its day", job_id="acme:report"),
    Tricky("@monthly", "Asia/Beirut", "2026-01-15T00:00Z", "a macro: midnight of the first"),
)
