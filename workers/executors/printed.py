"""What attempts have printed and nobody has sent yet: bounded for each attempt, and for the worker.

What must hold: printing never waits for anything but a short lock, and never fails. Of an attempt the head is kept (64
KiB, 1,000 lines, 4 KiB a line) and the rest is counted; the worker holds at most 1 MiB of whole lines, those that are
on their way included, and 4 KiB for each stream of an attempt whose line has not ended. What is beyond a bound is
dropped, and a note in the run's log, the last of its lines, says how much.

A thread may be interrupted at any allocation by the garbage collector, whose finalizers are user code and may print. So
the lock is one that a thread may take twice; what is printed by whoever is inside already is dropped and counted.

How it fails: where the worker's own bound leaves no room even for the note, only the worker's log tells of it. An
attempt that prints nothing costs nothing: it has no ``Printed``.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from waterclock.clock import Clock
from waterclock.model.events import WorkRecord
from waterclock.model.ids import Instant
from waterclock.model.run_log import BYTES_MAX, LINE_BYTES_MAX, LINES_MAX, NOTE_SEQ, LogLine, LogStream, RunLog

QUEUE_BYTES_MAX = 1024 * 1024
"""What one worker holds of lines that no broker has acknowledged."""

_LINE_COST = 200
"""Bytes that a line takes beside its text, about."""

_MARK_BYTES = 32
"""Room for what a cut line says at its end."""


class _Unfinished(NamedTuple):
    """The beginning of a line whose newline has not come; ``over``: characters that are not kept."""

    text: str
    over: int


class Printed:
    """The lines of one attempt. Any thread may call it."""

    __slots__ = (
        "_bytes",
        "_cut_count",
        "_cut_size",
        "_dropped_count",
        "_inside_count",
        "_is_full",
        "_note_is_due",
        "_noted_count",
        "_queue",
        "_seq",
        "_token",
        "_unfinished",
        "_waiting",
        "_work",
    )

    def __init__(self, queue: LineQueue, work: WorkRecord, token: int) -> None:
        self._queue = queue
        self._work = work
        self._token = token
        self._seq = 0
        self._bytes = 0
        self._is_full = False
        self._unfinished: dict[LogStream, _Unfinished] = {}
        self._waiting: list[LogLine] = []
        self._cut_count = 0
        self._cut_size = 0
        self._dropped_count = 0
        self._inside_count = 0
        self._noted_count = 0
        self._note_is_due = False

    def write(self, stream: LogStream, text: str) -> None:
        """Text as it is printed: lines end where it has newlines, and the last one goes on with the next write."""
        queue = self._queue
        with queue.lock:
            if queue.is_busy:
                self._inside_count += 1
                return
            queue.is_busy = True
            try:
                self._write(stream, text, queue.clock.now())
            finally:
                queue.is_busy = False

    def end(self) -> None:
        """The attempt is over: unfinished lines count as lines, and the note tells the whole of what is not kept."""
        queue = self._queue
        with queue.lock:
            queue.is_busy = True
            try:
                at = queue.clock.now()
                for stream in list(self._unfinished):
                    self._finish(stream, at)
                if self._missing_count > self._noted_count:
                    self._ask_for_note()
            finally:
                queue.is_busy = False

    def take(self) -> RunLog:
        """Everything that waits, and the note where one is due. For the queue, which holds the lock."""
        work, lines = self._work, self._waiting
        self._waiting = []
        if self._note_is_due:
            self._note_is_due = False
            self._noted_count = self._missing_count
            lines.append(LogLine(NOTE_SEQ, self._queue.clock.now(), LogStream.NOTE, self._note()))
        return RunLog(work.run_id, work.attempt, work.job_id, self._token, "", tuple(lines))

    @property
    def _missing_count(self) -> int:
        return self._cut_count + self._dropped_count + self._inside_count

    def _write(self, stream: LogStream, text: str, at: Instant) -> None:
        begin = 0
        while (end := text.find("\n", begin)) >= 0:
            if self._is_full:
                self._unfinished.pop(stream, None)
                self._cut(text.count("\n", begin), len(text) - begin)
                begin = text.rfind("\n") + 1
                break
            self._go_on(stream, text[begin:end])
            self._finish(stream, at)
            begin = end + 1
        if begin < len(text):
            self._go_on(stream, text[begin:])

    def _go_on(self, stream: LogStream, part: str) -> None:
        before = self._unfinished.get(stream)
        text = part if before is None else before.text + part
        kept = text[:LINE_BYTES_MAX]
        over = len(text) - len(kept) + (0 if before is None else before.over)
        self._unfinished[stream] = _Unfinished(kept, over)

    def _finish(self, stream: LogStream, at: Instant) -> None:
        line = self._unfinished.pop(stream)
        text, size = _bounded(line)
        if self._is_full or self._seq >= LINES_MAX or self._bytes + size > BYTES_MAX:
            self._is_full = True
            self._cut(1, len(line.text) + line.over + 1)
            return
        self._seq += 1
        self._bytes += size
        if self._queue.admit(self, size + _LINE_COST):
            self._waiting.append(LogLine(self._seq, at, stream, text))
        else:
            self._dropped_count += 1
            self._queue.dropped_count += 1

    def _cut(self, lines_count: int, size: int) -> None:
        if not self._cut_count:
            self._ask_for_note()  # now, for whoever follows, and for the case that there is no end
        self._cut_count += lines_count
        self._cut_size += size

    def _ask_for_note(self) -> None:
        if not self._note_is_due:
            self._note_is_due = self._queue.admit(self, _LINE_COST)

    def _note(self) -> str:
        """What is not kept up to now."""
        parts = []
        if self._cut_count:
            parts.append(
                f"{self._cut_count:,} more lines ({self._cut_size:,} characters) were printed than the {LINES_MAX:,} "
                f"lines and {BYTES_MAX // 1024} KiB that are kept of an attempt"
            )
        if self._dropped_count:
            parts.append(f"{self._dropped_count:,} lines were dropped: the brokers did not take them in time")
        if self._inside_count:
            parts.append(
                f"{self._inside_count:,} texts were dropped: a finalizer printed them while a line was being kept"
            )
        return "; ".join(parts)


class LineQueue:
    """The lines of one worker on their way out; ``lock`` guards it and every ``Printed`` of it.

    ``is_busy``: whoever holds the lock is in the middle of something. Found so under the lock, it is this very thread.
    """

    def __init__(self, clock: Clock, bytes_max: int = QUEUE_BYTES_MAX) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.is_busy = False
        self.dropped_count = 0
        """Lines that the worker's own bound has cost, of all attempts since the start."""
        self._bytes_max = bytes_max
        self._bytes = 0
        self._taken_bytes = 0
        self._costs: dict[Printed, int] = {}
        self._bell = threading.Event()

    def begin(self, work: WorkRecord, token: int) -> Printed:
        """For an attempt that prints its first text."""
        return Printed(self, work, token)

    def admit(self, printed: Printed, cost: int) -> bool:
        """Whether there is room for so many bytes more of it. Under the lock."""
        if self._bytes + cost > self._bytes_max:
            return False
        self._bytes += cost
        self._costs[printed] = self._costs.get(printed, 0) + cost
        if not self._bell.is_set():
            self._bell.set()
        return True

    def take(self, bytes_max: int) -> list[RunLog]:
        """What waits, of whole attempts, until ``bytes_max`` are reached. It counts until ``sent`` is called."""
        with self.lock:
            self.is_busy = True
            try:
                return self._take(bytes_max)
            finally:
                self.is_busy = False

    def sent(self) -> None:
        """What was taken is out of our hands."""
        with self.lock:
            self._bytes -= self._taken_bytes
            self._taken_bytes = 0

    def _take(self, bytes_max: int) -> list[RunLog]:
        taken: list[RunLog] = []
        for printed in list(self._costs):
            if self._taken_bytes >= bytes_max:
                break
            self._taken_bytes += self._costs.pop(printed)
            taken.append(printed.take())
        if not self._costs:
            self._bell.clear()
        return taken

    def wait(self) -> None:
        """Return when something waits to be taken, or after ``ring``."""
        self._bell.wait()

    def ring(self) -> None:
        """End a ``wait``."""
        self._bell.set()


def _bounded(line: _Unfinished) -> tuple[str, int]:
    """The line as it is kept, and its bytes. Half of a surrogate pair is no UTF-8: it becomes a question mark."""
    text = line.text.removesuffix("\r")
    if len(text) * 4 <= LINE_BYTES_MAX - _MARK_BYTES and not line.over and text.isascii():
        return text, len(text)
    raw = text.encode("utf-8", "replace")
    if len(raw) > LINE_BYTES_MAX or line.over:
        head = raw[: LINE_BYTES_MAX - _MARK_BYTES].decode("utf-8", "ignore")
        raw = f"{head} ... ({len(text) - len(head) + line.over:,} more)".encode()
    return raw.decode("utf-8"), len(raw)
