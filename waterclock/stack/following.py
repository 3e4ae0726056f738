"""Reading log files as they grow: the end of each, and then line by line, as ``tail -f`` does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

_TAIL_BYTES = 256 * 1024
_LOOK_AGAIN_S = 0.2


def last_lines(path: Path, count: int) -> list[str]:
    """The last ``count`` lines, out of the last 256 KiB."""
    if count <= 0:
        return []
    with path.open("rb") as log:
        size = log.seek(0, 2)
        log.seek(max(0, size - _TAIL_BYTES))
        return _lines(log.read().removesuffix(b"\n"))[-count:]


def follow_logs(paths: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    """(name, line) for every line that comes from now on, for ever. A file that began anew is read from its start."""
    return _follow(paths, {name: path.stat().st_size for name, path in paths.items()})


def _follow(paths: Mapping[str, Path], at: dict[str, int]) -> Iterator[tuple[str, str]]:
    while True:
        for name, path in paths.items():
            for line in _new_lines(path, at, name):
                yield name, line
        time.sleep(_LOOK_AGAIN_S)


def _new_lines(path: Path, at: dict[str, int], name: str) -> list[str]:
    """Whole lines only: the end of one that is still being written waits. One beyond 256 KiB comes in pieces."""
    try:
        size = path.stat().st_size
        start = at[name] if size >= at[name] else 0
        with path.open("rb") as log:
            log.seek(start)
            read = log.read(_TAIL_BYTES)
    except FileNotFoundError:  # between two files
        return []
    whole, newline, _ = read.rpartition(b"\n")
    if not newline and len(read) == _TAIL_BYTES:
        whole = read
    at[name] = start + len(whole) + len(newline)
    return _lines(whole) if whole or newline else []


def _lines(text: bytes) -> list[str]:
    """As they were written: what else counts as the end of a line in Unicode may stand inside one of JSON."""
    return text.decode(errors="replace").split("\n") if text else []
