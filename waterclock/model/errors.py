"""One tree of errors for the whole system.

Four branches, by who has to act:

* :class:`RequestError`: the caller's mistake. Shown to them with what, where and what to do; exit codes 2-4.
* :class:`AttemptError`: the job's failure. It becomes an outcome in the log and never a crash of ours.
* :class:`LostResource`: we no longer own what we worked on (a partition, a transactional id, a lease): stop, re-own.
* :class:`BackendDown`: Kafka or Cassandra does not answer. Wait, keep trying, and say so.

Anything else that escapes is a bug: let it crash the process; the supervisor restarts it and the log decides.
Driver exceptions are translated into this tree once, in ``waterclock/log/kafka*.py`` and ``waterclock/store/``.
"""

from __future__ import annotations


class WaterclockError(Exception):
    """Root of everything that Waterclock raises on purpose."""


class RequestError(WaterclockError):
    """The caller asked for something that cannot be: says what, where (``pointer``) and what to do (``hint``).

    ``pointer`` is an RFC 6901 JSON pointer into the request ("" = the whole request). ``problem`` is the kind of the
    refusal as answers carry it: a stable slug.
    """

    exit_code = 2
    problem = "invalid"

    def __init__(self, message: str, *, pointer: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.pointer = pointer
        self.hint = hint

    def __str__(self) -> str:
        where = f" (at {self.pointer})" if self.pointer else ""
        what_to_do = f". {self.hint}" if self.hint else ""
        return f"{self.message}{where}{what_to_do}"


class NotFound(RequestError):
    """The job or run named does not exist."""

    exit_code = 3
    problem = "not-found"


class Conflict(RequestError):
    """The request contradicts what stands: another revision, a deleted job, a name that is taken."""

    exit_code = 4
    problem = "conflict"


class KeyReused(Conflict):
    """An idempotency key that was served is used again, for something else. ``first_command_id``: what it was for."""

    problem = "key-reused"

    def __init__(self, message: str, *, first_command_id: str, pointer: str = "", hint: str = "") -> None:
        super().__init__(message, pointer=pointer, hint=hint)
        self.first_command_id = first_command_id


class Busy(RequestError):
    """Nothing is wrong with the request, but a bound of ours is reached: the same request may be accepted later."""

    exit_code = 1
    problem = "busy"


class UndecodableRecord(RequestError):
    """Bytes that are not a record of ours: unknown fingerprint, over the size cap, cut short, trailing bytes.

    The role that meets one forwards the bytes with this message to ``rejects`` and moves on.
    """


class AttemptError(WaterclockError):
    """The handler failed. ``error_class`` groups failures; ``trace`` is short and bounded.

    ``retry_after_us``: how long whoever was called wants to be left alone, 0 where it did not say.
    """

    def __init__(self, message: str, *, error_class: str = "", trace: str = "", retry_after_us: int = 0) -> None:
        super().__init__(message)
        self.error_class = error_class or type(self).__name__
        self.trace = trace
        self.retry_after_us = retry_after_us


class EmitRefused(AttemptError):
    """A record that user code wanted to send cannot leave: no such topic, too large, or nobody would take it."""


class AttemptStopped(AttemptError):
    """User code heeded the request to stop. Why it was asked is not its affair: whoever asked makes the outcome."""


class LostResource(WaterclockError):
    """What we worked on is no longer ours, or may not be: stop, drop it, own it again from what is committed."""


class RoundAborted(LostResource):
    """The round ended in a clean abort: nothing of it is visible and the producer is still usable."""


class RoundInDoubt(LostResource):
    """The round may or may not have landed. The producer is dirty: a new one with the same id settles it."""


class Fenced(LostResource):
    """A newer producer has our transactional id, or we were slower than ``transaction.timeout.ms``.

    Fatal for the producer object. Who did it is not in the error (KIP-98): a worker asks ``leases``; any other
    role exits, naming the id and both causes, and never fences back.
    """


class LeaseLost(LostResource):
    """This incarnation of a worker is dead on ``leases``, or could not commit or beat in time."""


class BackendDown(WaterclockError):
    """A backend does not answer: ``backend`` names it. The caller waits and tries again, within a bound it states."""

    def __init__(self, backend: str, message: str) -> None:
        super().__init__(f"{backend}: {message}")
        self.backend = backend


class ClockBehind(BackendDown):
    """A write's stamp lies further ahead of this process's clock than it may: the backend would keep it as the newest
    for so long. Commonly the clock is behind that of the brokers; the caller waits until it is put right."""


class AccessRefused(BackendDown):
    """A backend answers, and does not let us in: credentials, certificate, or rights. The message says which.

    Roles wait as for one that is away: what is wrong is put right on the other side as often as on ours.
    """


class WriteUnknown(BackendDown):
    """A write timed out: it may have been applied. Repeat it with the same timestamp; never recompute the stamp."""
