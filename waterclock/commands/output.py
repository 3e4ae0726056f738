"""What a command computed, as a table, as JSON, or as one JSON document a line.

Tables are for people: without ``-o`` they are printed on a terminal only, and a pipe gets JSON lines. Data goes to
stdout, chatter to stderr. In tables and chatter control characters are spelt out: texts of others do not steer the
terminal. ``NO_COLOR`` is honoured (by rich).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, StrEnum
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table

from waterclock.model.time_text import format_rfc3339

from .visible import visible_lines

Row = Mapping[str, Any]

_PIPE_WIDTH = 240


class Format(StrEnum):
    """The forms of ``-o``."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


OutputOption = Annotated[
    Format | None,
    typer.Option("-o", "--output", help="table on a terminal, jsonl in a pipe", show_default=False),
]


def say(line: str = "") -> None:
    """Chatter, to stderr."""
    typer.echo(visible_lines(line), err=True)


def show_rows(rows: Sequence[Row], columns: Sequence[str], form: Format | None) -> None:
    """A list: a table with these columns (absent: empty), or all fields as JSON."""
    match form or default_format():
        case Format.TABLE:
            _table(rows, columns)
        case Format.JSON:
            _write(orjson.dumps(list(rows), default=_plain, option=orjson.OPT_INDENT_2))
        case Format.JSONL:
            for row in rows:
                _write(orjson.dumps(row, default=_plain))


def show_one(row: Row, form: Format | None) -> None:
    """One thing: a line for each field that says something, or one JSON document."""
    match form or default_format():
        case Format.TABLE:
            _card(row)
        case Format.JSON:
            _write(orjson.dumps(row, default=_plain, option=orjson.OPT_INDENT_2))
        case Format.JSONL:
            _write(orjson.dumps(row, default=_plain))


def show_line(row: Row) -> None:
    """One JSON line, at once: for what has no end."""
    _write(orjson.dumps(row, default=_plain))
    sys.stdout.flush()


def instant_text(at: int) -> str | None:
    """An instant for people; None for 0, which stands for none."""
    return format_rfc3339(at) if at else None


def payload_text(payload: bytes | None) -> str | None:
    """Bytes as text where they are text, else their number: whole payloads of others are no business of a terminal."""
    if payload is None:
        return None
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return f"<{len(payload)} bytes>"


def default_format() -> Format:
    """What is printed without ``-o``."""
    return Format.TABLE if sys.stdout.isatty() else Format.JSONL


def _write(document: bytes) -> None:
    typer.echo(document.decode())


def _table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.upper().replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    _console().print(table)


def _card(row: Row) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in row.items():
        if value not in (None, "", [], {}):
            table.add_row(name.replace("_", " "), _cell(value))
    _console().print(table)


def _console() -> Console:
    """The terminal; what is not one has no edge to wrap at."""
    return Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH)


def _cell(value: object) -> str:
    from rich.markup import escape

    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return escape(visible_lines(orjson.dumps(value, default=_plain).decode()))
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return "\n".join(_cell(item) for item in value)
    return escape(visible_lines(str(_plain(value) if isinstance(value, bytes | Enum) else value)))


def _plain(value: object) -> object:
    """What orjson does not know."""
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, bytes):
        return payload_text(value)
    if isinstance(value, tuple | frozenset):
        return list(value)
    return str(value)
