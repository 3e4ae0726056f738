"""Calendars by their documented rules alone: which instants they block, and where a fire goes. Imports nothing of ours.

A calendar is read from its documented compiled form; a time is asked by walking: one instant, its local date, the days
after it one by one. Instants are microseconds.
"""

import base64
import datetime as dt
import functools
import zoneinfo

zoneinfo.reset_tzpath(to=())

SECOND_US = 1_000_000
DAY = dt.timedelta(days=1)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
DAYS_MAX = 366
CORRECTION = dt.timedelta(hours=3)


def _number(parts):
    value, shift = 0, 0
    while True:
        byte = parts.pop(0)
        value += (byte % 128) * 128**shift
        shift += 1
        if byte < 128:
            return value


def _side(parts):
    week = parts.pop(0)
    first, size = _number(parts), _number(parts)
    bits = [parts.pop(0) for _ in range(size)]
    days = {first + 8 * place + bit for place, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1}
    ranges, at = [], 0
    for _ in range(_number(parts)):
        start = at + _number(parts)
        at = start + _number(parts)
        ranges.append((start, at))
    return {weekday for weekday in range(7) if week >> weekday & 1}, days, ranges


@functools.lru_cache(maxsize=1_024)
def decoded(text):
    """(include, exclude) of a compiled text: each (weekdays, days since 1970, ranges of seconds)."""
    parts = list(base64.b64decode(text))
    if parts.pop(0) != 1:
        raise ValueError("another form")
    return _side(parts), _side(parts)


def _holds(side, local, at):
    weekdays, days, ranges = side
    day = (local.date() - EPOCH.date()).days
    return local.weekday() in weekdays or day in days or any(a * SECOND_US <= at < b * SECOND_US for a, b in ranges)


def zone_of(spec):
    """The zone whose days a calendar's days are."""
    return spec["cron"]["zone"] if spec["cron"] is not None else "UTC"


def local_of(at, zone):
    """The wall time of an instant."""
    return (EPOCH + dt.timedelta(microseconds=at)).astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)


@functools.lru_cache(maxsize=1 << 18)
def _is_blocked(texts, zone, at):
    local = local_of(at, zone)
    for include, exclude in map(decoded, texts):
        if _holds(exclude, local, at) or (any(include) and not _holds(include, local, at)):
            return True
    return False


def texts_of(said):
    """The compiled calendars of a timing."""
    return tuple(use[2] for use in said["calendars"])


def is_blocked(spec, said, at):
    """Whether a calendar of the job blocks the instant. ``said``: its timing, defaults included."""
    return bool(said["calendars"]) and _is_blocked(texts_of(said), zone_of(spec), at)


def instant_of(local, zone):
    """The instant of a wall time: the first of two, the end of a gap; None where the zone leaves the day out."""
    place = zoneinfo.ZoneInfo(zone)
    first = local.replace(tzinfo=place, fold=0)
    at = (first - EPOCH) // dt.timedelta(microseconds=1)
    if local_of(at, zone) == local:
        return at
    before, after = first.utcoffset(), local.replace(tzinfo=place, fold=1).utcoffset()
    if after - before >= CORRECTION:
        return None
    minute = at // (60 * SECOND_US)  # by the offset before the gap: at or behind its end
    while _offset(minute - 1, place) == _offset(minute, place):
        minute -= 1
    return minute * 60 * SECOND_US


def _offset(minute, place):
    return (EPOCH + dt.timedelta(minutes=minute)).astimezone(place).utcoffset()


@functools.lru_cache(maxsize=1 << 16)
def _target(texts, zone, at, until):
    local = local_of(at, zone)
    for days in range(1, DAYS_MAX + 1):
        there = instant_of(local + days * DAY, zone)
        if there is not None and not _is_blocked(texts, zone, there):
            return there if not until or there < until else at
    return at


def target(spec, said, at):
    """Where a fire of the schedule goes: to itself where nothing blocks it, and where nothing allows it."""
    if not is_blocked(spec, said, at):
        return at
    return _target(texts_of(said), zone_of(spec), at, said["until_at"])


def moves(said):
    """Whether the calendars move fires."""
    return bool(said["calendars"]) and said["on_calendar"] == "next_allowed"
