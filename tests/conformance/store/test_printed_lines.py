"""What attempts printed: written twice it is there once, read on it misses nothing, and a later note wins."""

from __future__ import annotations

from waterclock.model.run_log import NOTE_SEQ, LogStream
from waterclock.store.port import LogRow

from .world import StoreWorld

WAIT_S = 10.0


def _line(world: StoreWorld, seq: int, text: str = "", *, fence: int = 7, attempt: int = 1, later: int = 0) -> LogRow:
    stamp = world.now + seq + later
    return LogRow(
        f"{world.tenant}:j@x", attempt, fence, seq, stamp, LogStream.STDOUT, text or f"line {seq} of {fence}", stamp
    )


def _read(world: StoreWorld, attempt: int = 1, limit: int = 100, after: tuple[int, int] | None = None) -> list[str]:
    return [line.text for line in world.other.lines(f"{world.tenant}:j@x", attempt, limit, after)]


def test_a_line_is_read_back_whole(world: StoreWorld) -> None:
    line = _line(world, 1, "tab\t, nul \0, escape \x1b[0m, ümlaut, 👩")
    world.store.keep_lines([line]).wait(WAIT_S)

    assert world.other.lines(line.run_id, 1, 10) == [line._replace(wts=0)]
    assert world.other.lines(line.run_id, 2, 10) == []


def test_lines_come_by_claim_and_number_whatever_order_they_were_written_in(world: StoreWorld) -> None:
    lines = [_line(world, seq, fence=fence) for fence in (9, 7) for seq in (3, 1, 2)]
    world.store.keep_lines(lines).wait(WAIT_S)
    world.store.keep_lines(lines[:2]).wait(WAIT_S)

    assert _read(world) == [f"line {seq} of {fence}" for fence in (7, 9) for seq in (1, 2, 3)]


def test_reading_goes_on_behind_a_line(world: StoreWorld) -> None:
    lines = [_line(world, seq, fence=fence) for fence in (7, 9) for seq in (1, 2, 3)]
    world.store.keep_lines(lines).wait(WAIT_S)

    assert _read(world, limit=2) == ["line 1 of 7", "line 2 of 7"]
    assert _read(world, limit=2, after=(7, 2)) == ["line 3 of 7", "line 1 of 9"]
    assert _read(world, after=(9, 3)) == []


def test_a_later_note_takes_the_place_of_an_earlier_one(world: StoreWorld) -> None:
    world.store.keep_lines([_line(world, NOTE_SEQ, "20 more", later=500)]).wait(WAIT_S)
    world.store.keep_lines([_line(world, NOTE_SEQ, "10 more")]).wait(WAIT_S)

    assert _read(world) == ["20 more"]


def test_a_thousand_lines_are_one_write(world: StoreWorld) -> None:
    lines = [_line(world, seq, "x" * 60) for seq in range(1, 1_001)]
    world.store.keep_lines(lines).wait(WAIT_S)

    assert len(_read(world, limit=2_000)) == 1_000
