"""When a transaction was committed, read from a partition's segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.commit_times import CommitTimes

_COMMITS, _ABORTS = bytes([0, 0, 0, 1]), bytes([0, 0, 0, 0])


def batch(first: int, count: int, at_ms: int, producer: int, attributes: int, records: bytes = b"....") -> bytes:
    """As the protocol guide lays it out."""
    body = b"".join(
        (
            (0).to_bytes(4, "big"),  # leader epoch
            bytes([2]),  # magic
            (0).to_bytes(4, "big"),  # CRC
            attributes.to_bytes(2, "big"),
            (count - 1).to_bytes(4, "big"),  # last offset delta
            (at_ms - 1).to_bytes(8, "big"),
            at_ms.to_bytes(8, "big"),
            producer.to_bytes(8, "big", signed=True),
            (0).to_bytes(2, "big"),
            (0).to_bytes(4, "big"),
            count.to_bytes(4, "big"),
            records,
        )
    )
    return first.to_bytes(8, "big") + len(body).to_bytes(4, "big") + body


def data(first: int, count: int, at_ms: int, producer: int) -> bytes:
    return batch(first, count, at_ms, producer, 0b1_0011)  # in a transaction, lz4


def marker(at: int, at_ms: int, producer: int, key: bytes) -> bytes:
    record = bytes([0, 0, 0, 8]) + key + bytes([12, 0, 0, 0, 0, 0, 0, 0])
    return batch(at, 1, at_ms, producer, 0b11_0000, bytes([2 * len(record)]) + record)


def test_each_record_was_committed_when_its_transaction_was(tmp_path: Path) -> None:
    """Two producers at once, one that aborts in between, one without transactions; over two segments."""
    (tmp_path / "00000000000000000000.log").write_bytes(
        data(0, 3, 1_000, 7) + data(3, 2, 1_005, 8) + data(5, 1, 1_006, 7) + marker(6, 1_010, 7, _COMMITS)
    )
    (tmp_path / "00000000000000000007.log").write_bytes(
        marker(7, 1_020, 8, _ABORTS)
        + batch(8, 2, 1_030, -1, 0)
        + data(10, 1, 1_040, 8)
        + marker(11, 1_055, 8, _COMMITS)
        + data(12, 1, 1_060, 7)
    )
    times = CommitTimes(tmp_path)
    assert [times.at_s(offset) for offset in (0, 2, 5)] == [1.010] * 3
    assert [times.at_s(offset) for offset in (8, 9, 10)] == [1.030, 1.030, 1.055]
    for offset in (3, 4, 6, 7, 11, 12):  # aborted, markers, and one that is still open
        with pytest.raises(KeyError):
            times.at_s(offset)
