"""Cron expressions that must be refused: a list by hand, and a generator that breaks a good one in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

BY_HAND = (
    "", " ", "\t", "* * * *", "* * * * * *", "* * * * * * *", "* * * * * 2026", "hello", "null", "[]", "{}", "-1",
    "1e9",
    "5-5 * * * *", "30-10 * * * *", "*/70 * * * *", "*/60 * * * *", "*/0 * * * *", "59/15 * * * *", "0 23/1 * * *",
    "60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 * 0 *", "0 0 * 13 *", "0 0 * * 8", "-5 * * * *",
    "0,,5 * * * *", "0, * * * *", ", * * * *", "* - * * *", "*-5 * * * *", "*/ * * * *", "*/5/2 * * * *", "** * * * *",
    "1-2-3 * * * *", "5/ * * * *", "/5 * * * *", "1--2 * * * *", "1,-2 * * * *", "0x10 * * * *", "1.5 * * * *",
    "0 0 20-5 * *", "0 0 * nov-feb *", "0 0 * * sun-sun", "0 0 * * 7-0", "0 0 * * 6/1", "0 0 * * 7/2", "0 0 * * */7",
    "? * * * *", "0 ? * * *", "0 0 ?,1 * *", "0 0 * ? *", "0 0 ?/2 * *",
    "0 0 15W * *", "0 0 LW * *", "0 0 W * *", "0 0 * * 5W", "0 0 L-3 * *", "0 0 28-L * *", "0 0 * * 5L", "0 0 L/2 * *",
    "0 0 * * L", "0 0 L5 * *", "0 0 * * 5#6", "0 0 * * 5#0", "0 0 * * 1-3#2", "0 0 * * *#1", "0 0 * * 8#1",
    "0 0 * * #2",
    "0 0 * * foo#1", "0 0 * * fri#2,mon", "0 0 * * L5,1-5", "0 0 * * L8", "L * * * *", "0 0 * L *", "0 0 * * fri##2",
    "R * * * *", "R(0-5) * * * *", "0 0 R * *", "0 0 * * mom", "0 0 * june *", "0 0 * * monday", "mon * * * *",
    "H(5-5) * * * *", "H(9-5) * * * *", "H(0-60) * * * *", "H/60 * * * *", "H(0-9)/10 * * * *", "H( * * * *",
    "HH * * * *",
    "H(1) * * * *", "H(-1-5) * * * *", "H-5 * * * *", "H/ * * * *", "H(0-5)/0 * * * *", "H(0-5)(0-5) * * * *",
    "0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 * 2 1#5", "0 0 30,31 2 *", "0 0 31 jun *",
    "TZ=UTC 0 0 * * *", "CRON_TZ=UTC 0 0 * * *", "@reboot", "@every 5m", "@fortnightly", "@", "@daily 5", "@@daily",
    "@every", "@every 0s", "@YEARLY @DAILY", "\uff10 0 * * *", "\u0663 0 * * *", "0 0\n* * *", "0 0\x00* * *",
    "0\u00a00 * * *", "0 0 * * *\x1c", "0\u20280 * * *", "\ufeff0 0 * * *", "0 0 * * *\n", "\u202e0 0 * * *",
    "0\x7f0 * * *",
    "\U0001f553 * * * *", "\ud800 * * * *", "0 0 * * m\u043en", "0 0 * * \u212aon",
    "*/1," * 20_000 + "* * * * *", "mon," * 50_000 + "* * * * *", "9" * 5_001 + " * * * *", "1" * 129, "*" * 200_000,
    " " * 200_000, "0 0 * * " + "1," * 60 + "1", "((((((((((" * 12, "H(" * 60, "#" * 128, "-" * 128, "/" * 128,
    "," * 128,
    "9" * 120 + " * * * *", "0 " * 64, "0\t" * 64, "1-" * 63 + "1", "*/" * 60 + "1", "0 0 * * " + "5#1," * 28 + "5#9",
)  # fmt: skip

_GOOD = (
    "0 9 * * 1-5", "*/15 * * * *", "30 2 1,15 * *", "0 0 L * *", "0 12 * * fri#2", "5 4 * jan-jun sun", "0 22-2 * * *",
    "H H(1-5) * * *", "0 8-18/2 * * mon-fri", "10,20,30 6 * 3-10/3 *",
)  # fmt: skip
_TOO_HIGH = {0: (60, 99), 1: (24, 99), 2: (32, 99), 3: (13, 99), 4: (8, 99)}
_STRANGE = (
    "\x00\x01\x07\n\r\x0b\x1b\x7f\x85\u00a0\u00e9\u0660\u06f5\u2003\u2028\u200b\u202e\u3000\ufe0f\uff11\U0001d7d8"
)
_JUNK = (
    "W", "LW", "R", "~", "x", "*5", "5*", "**", "1-", "-1", "1--2", "*/", "/2", "1/0", "()", "H()", "#", "#1", "!", "%",
    "??", "&&", "1;2", "$(id)", "`id`", "'", '"', "\\d", "1e3", "+1", "0b1", "nan", "jan-", "-mon", "L-", "LL",
)  # fmt: skip


def generated(seed: int) -> Iterator[str]:
    """Without an end; each holds one defect that makes it no expression, wherever it was put."""
    drawn = Random(seed)
    defects: tuple[Callable[[Random, list[str]], str], ...] = (
        _too_high, _junk_in_a_list, _strange_character, _a_field_too_many, _a_field_too_few, _empty_item, _too_long,
        _bad_step, _huge_number,
    )  # fmt: skip
    while True:
        yield drawn.choice(defects)(drawn, drawn.choice(_GOOD).split())


def _put(drawn: Random, columns: list[str], item: str, place: int | None = None) -> str:
    """An item more in a column, in front, behind or alone."""
    at = drawn.randrange(5) if place is None else place
    columns[at] = drawn.choice((item, f"{item},{columns[at]}", f"{columns[at]},{item}"))
    return " ".join(columns)


def _too_high(drawn: Random, columns: list[str]) -> str:
    place = drawn.randrange(5)
    low, high = _TOO_HIGH[place]
    return _put(drawn, columns, str(drawn.randint(low, high)), place)


def _junk_in_a_list(drawn: Random, columns: list[str]) -> str:
    return _put(drawn, columns, drawn.choice(_JUNK))


def _strange_character(drawn: Random, columns: list[str]) -> str:
    text = " ".join(columns)
    place = drawn.randrange(len(text))
    return text[:place] + drawn.choice(_STRANGE) + text[place:]


def _a_field_too_many(drawn: Random, columns: list[str]) -> str:
    return " ".join([*columns, *["*"] * drawn.randint(1, 40)])


def _a_field_too_few(drawn: Random, columns: list[str]) -> str:
    return " ".join(columns[: drawn.randint(1, 4)])


def _empty_item(drawn: Random, columns: list[str]) -> str:
    place = drawn.randrange(5)
    columns[place] = drawn.choice((f",{columns[place]}", f"{columns[place]},", f"{columns[place]},,1"))
    return " ".join(columns)


def _too_long(drawn: Random, columns: list[str]) -> str:
    piece = drawn.choice(("0,", "*/1,", "mon,", "1-2,", "H,", "L,", " ", "5#1,"))
    return piece * drawn.choice((200, 5_000, 100_000)) + " ".join(columns)


def _bad_step(drawn: Random, columns: list[str]) -> str:
    return _put(drawn, columns, f"*/{drawn.choice(('0', '00', '99', '1000', '9' * 20, '-1', '', '1.5', 'a'))}")


def _huge_number(drawn: Random, columns: list[str]) -> str:
    return _put(drawn, columns, str(drawn.randint(10**3, 10 ** drawn.choice((6, 18, 40, 80)))))
