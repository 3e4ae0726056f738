"""The way of printed lines to ``run-logs``: a thread of its own, beside the rounds and never in them.

What must hold: nothing of the worker waits for it. It sends plainly, keyed by run id, at most once a fifth of a second,
and keeps a batch until the brokers have acknowledged it; meanwhile the queue (``printed.py``) fills and, at its bound,
drops and counts. A batch may arrive twice: its lines carry numbers.

How it fails: brokers away, lines are dropped at the bound, and the worker's log says how many; killed, what was printed
in the last moments is lost. A batch that Kafka refuses (no such topic, no right) is dropped, and said at most once a
minute.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack

import structlog

from waterclock.clock import Clock
from waterclock.log.port import Appender, Log, Outgoing
from waterclock.model.errors import BackendDown, RequestError
from waterclock.wire.messages import run_log_message
from waterclock.wire.names import Names

from .executors.capture import Capture
from .executors.printed import LineQueue

_LINGER_S = 0.2
_BATCH_BYTES = 256 * 1024
_FLUSH_S = 10.0
_REST_S = 1.0
_SAY_EVERY_S = 60.0

logger = structlog.get_logger()


class RunLogSender:
    """Sends what ``queue`` holds. ``worker`` is the stable name of the process slot."""

    def __init__(self, appender: Appender, names: Names, clock: Clock, queue: LineQueue, *, worker: str) -> None:
        self._appender = appender
        self._names = names
        self._clock = clock
        self._queue = queue
        self._worker = worker
        self._in_hand: Sequence[Outgoing] = ()
        self._dropped_count = 0
        self._say_at_s: dict[str, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="run-logs", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, within_s: float) -> None:
        """Send what waits, and end; what takes longer is left to the daemon thread, and lost with the process."""
        self._stopping.set()
        self._queue.ring()
        if self._thread.is_alive():
            self._thread.join(within_s)

    def step(self) -> bool:
        """Send one batch and wait until it is acknowledged. True: it was. False: none waited, or no broker answers."""
        if not self._in_hand:
            logs = [log._replace(worker=self._worker) for log in self._queue.take(_BATCH_BYTES)]
            self._in_hand = [run_log_message(self._names, log) for log in logs if log.lines]
        self._say_dropped()
        if not self._in_hand:
            self._queue.sent()
            return False
        try:
            for message in self._in_hand:
                self._appender.append(message)
            self._appender.flush(_FLUSH_S)
        except BackendDown as down:
            self._say("run_logs_wait", str(down))
            return False
        except RequestError as refused:
            self._say("run_logs_refused", str(refused))
        self._in_hand = ()
        self._queue.sent()
        return True

    # -- in the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                if not self._in_hand:
                    self._queue.wait()
                self._stopping.wait(_LINGER_S)
                if not self.step() and self._in_hand:
                    self._stopping.wait(_REST_S)
            while self.step():  # ends: nothing more is printed, or whoever waits for us gives up
                pass
        except Exception:
            # A bug here must not take runs down: from now on their lines are dropped, and this says why.
            logger.exception("run_logs_ended", worker=self._worker)
        finally:
            self._appender.close()

    def _say_dropped(self) -> None:
        dropped_count = self._queue.dropped_count
        if dropped_count > self._dropped_count and self._say("run_logs_dropped", f"{dropped_count} lines so far"):
            self._dropped_count = dropped_count

    def _say(self, event: str, cause: str) -> bool:
        now_s = self._clock.monotonic_s()
        if now_s < self._say_at_s.get(event, now_s):
            return False
        self._say_at_s[event] = now_s + _SAY_EVERY_S
        logger.warning(event, worker=self._worker, cause=cause)
        return True


class Output:
    """What handlers print in this process, from their own ``print`` to the topic."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue = LineQueue(clock)
        self._undo = ExitStack()
        self._sender: RunLogSender | None = None
        self.capture = Capture(self._queue)

    def begin(self, log: Log, names: Names, worker: str) -> None:
        """Listen and send from now on; a second call, by a start that is tried again, changes nothing."""
        if self._sender is None:
            self._sender = RunLogSender(log.appender(), names, self._clock, self._queue, worker=worker)
            self._undo.enter_context(self.capture.installed())
            self._sender.start()

    def end(self, within_s: float) -> None:
        """Listen no more; send what waits."""
        self._undo.close()
        if self._sender is not None:
            self._sender.stop(within_s)
