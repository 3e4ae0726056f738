"""Evidence of the peers' runs: every task counted once, from outside."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from bench.peers import stamps


def test_every_process_writes_a_file_of_its_own(tmp_path: Path) -> None:
    sink = stamps.Sink(tmp_path)
    sink.stamp(0)
    child = os.fork()
    if child == 0:
        sink.stamp(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"{os.getpid()}.stamps", f"{child}.stamps"}
    assert stamps.written(tmp_path) == 2
    assert len(stamps.read(tmp_path, 0, 2)) == 2


def test_stamps_are_told_in_the_order_of_tasks(tmp_path: Path) -> None:
    (tmp_path / "1.stamps").write_bytes(_stamp(11, 5.0) + _stamp(10, 6.0) + _stamp(99, 1.0))
    assert stamps.read(tmp_path, 10, 2) == [6.0, 5.0]


def test_a_stamp_has_the_form_that_the_other_languages_write() -> None:
    assert stamps.STAMP.pack(3, 1.5) == _stamp(3, 1.5)


@pytest.mark.parametrize(("indexes", "said"), [([0, 0, 1], "0 did not run, and 1 runs"), ([1], "1 did not run, and 0")])
def test_a_lost_and_a_doubled_task_make_the_figure_void(tmp_path: Path, indexes: list[int], said: str) -> None:
    (tmp_path / "1.stamps").write_bytes(b"".join(_stamp(index, 1.0) for index in indexes))
    with pytest.raises(ValueError, match=said):
        stamps.read(tmp_path, 0, 2)


def _stamp(index: int, at: float) -> bytes:
    return index.to_bytes(8, "little") + struct.pack("<d", at)
