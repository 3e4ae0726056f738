"""What a user writes: an App, its handlers, and the Context that a handler is called with.

    from waterclock import App

    app = App()

    @app.handler("send-invoice")
    async def send_invoice(ctx):
        ...

Must hold: a handler's name is what a job's ``handler`` field says, one function to a name. A handler takes the context
and nothing else; what it returns is kept if it is JSON and small; what it raises fails the attempt.

Records that a handler gives to ``ctx.emit`` leave in the transaction that records its success, and not otherwise.

Limit: a handler may be called again for the same run, after a crash or a lost lease. ``ctx.idempotency_key`` is the
same each time and ``ctx.fence`` only grows: give both to the system that you change, and let it refuse what is older.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import orjson
import structlog

from waterclock.model.errors import AttemptStopped, EmitRefused, RequestError
from waterclock.model.events import WorkRecord
from waterclock.model.ids import Instant

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Headers: TypeAlias = Mapping[str, str | bytes] | Iterable[tuple[str, str | bytes]]
Emit: TypeAlias = Callable[[str, str | bytes, object, Headers], str]
"""What stands behind ``ctx.emit``: topic, key, value, headers; answers the effect id."""


class Door(Protocol):
    """What stands behind a context: one object for both, for there may be a hundred thousand contexts at once."""

    def emit(self, topic: str, key: str | bytes, value: object, headers: Headers) -> str:
        """``Context.emit``."""
        ...

    def is_asked(self) -> bool:
        """``Context.cancelled``."""
        ...


_Function = TypeVar("_Function", bound=Callable[["Context"], Any])


class Context:
    """One attempt of one run, as its handler sees it."""

    __slots__ = (
        "_deadline_at",
        "_door",
        "_fire_at",
        "attempt",
        "backfill",
        "fence",
        "job_id",
        "payload",
        "run_id",
        "triggered_by",
    )

    def __init__(
        self,
        run_id: str,
        job_id: str,
        fire_at: Instant,
        attempt: int,
        fence: int,
        payload: bytes = b"",
        emit: Emit | None = None,
        *,
        asked: Callable[[], bool] | None = None,
        deadline_at: Instant = 0,
        backfill: str = "",
        triggered_by: str = "",
    ) -> None:
        self.run_id = run_id
        """``<job id>@<fire time>``: the same in every attempt."""
        self.job_id = job_id
        """``<tenant>:<name>``."""
        self.attempt = attempt
        """Counted from 1."""
        self.fence = fence
        """The fencing token of this attempt: later attempts of the same job have greater ones."""
        self.payload = payload
        """The job's payload, as bytes."""
        self.backfill = backfill
        """The id of the backfill that made this run, "" where none did: its fire time may lie far back then."""
        self.triggered_by = triggered_by
        """The run by whose end this one was started (the job's ``on``), "" where by none."""
        self._fire_at = fire_at
        self._door: Door = _Given(emit or _emits_nothing, asked or _is_never_asked)
        self._deadline_at = deadline_at

    @classmethod
    def of(cls, work: WorkRecord, fence: int, door: Door | None = None, *, deadline_at: Instant = 0) -> Context:
        """The context of the attempt that this work record asks for, claimed under ``fence``.

        ``door``: what stands behind it; ``deadline_at``: when it will be asked to stop, 0 without a time-out.
        """
        made = cls.__new__(cls)
        made.run_id = work.run_id
        made.job_id = work.job_id
        made.attempt = work.attempt
        made.fence = fence
        made.payload = work.payload
        made.backfill = work.backfill
        made.triggered_by = work.triggered_by
        made._fire_at = work.fire_at
        made._door = door or _SHUT
        made._deadline_at = deadline_at
        return made

    @property
    def cancelled(self) -> bool:
        """Whether this attempt should stop: it was cancelled, its time is over, or its worker is shutting down.

        Look at it between steps, from any thread. Whoever heeds it raises (``check`` does); an async handler that goes
        on is cancelled a little later, a sync one cannot be. What returns all the same has succeeded.
        """
        return self._door.is_asked()

    @property
    def deadline(self) -> datetime | None:
        """When this attempt will be asked to stop, in UTC by this machine's clock; None where it has no time-out."""
        return _EPOCH + timedelta(microseconds=self._deadline_at) if self._deadline_at else None

    def check(self) -> None:
        """Go on, or stop here: raises AttemptStopped where ``cancelled`` is true."""
        if self.cancelled:
            raise AttemptStopped(f"attempt {self.attempt} of {self.run_id} was asked to stop")

    @property
    def fire_time(self) -> datetime:
        """The instant that this run is meant for, in UTC; never when it happens to start."""
        return _EPOCH + timedelta(microseconds=self._fire_at)

    @property
    def idempotency_key(self) -> str:
        """Give it to the system that you call: it is the same in every attempt of this run."""
        return self.run_id

    @property
    def log(self) -> Any:
        """A structlog logger that names this run and attempt in every line."""
        return structlog.get_logger().bind(run_id=self.run_id, job_id=self.job_id, attempt=self.attempt)

    def emit(self, topic: str, key: str | bytes, value: object, headers: Headers = ()) -> str:
        """Send a record to a topic of yours if, and only if, this attempt succeeds; answers its effect id.

        It leaves in the transaction that records the success, under the header ``ce_id`` = effect id
        ``<run id>/out/<number>``, which has no attempt in it: a reader of committed records that drops repeated ids
        sees each effect once, as long as the handler emits in the same order each time. Checked here and now; may be
        called from any thread until the handler returns. ``value``: bytes or text as they are, None for a tombstone,
        anything else as JSON. At most 1,000 records and 4 MiB a run, 960 KiB a record.

        Raises EmitRefused, which fails the attempt if you let it; BackendDown where no broker answers.
        """
        return self._door.emit(topic, key, value, headers)

    def json(self) -> Any:
        """The payload read as JSON; None for an empty payload. Raises ValueError where it is no JSON."""
        return orjson.loads(self.payload) if self.payload else None

    def __repr__(self) -> str:
        return f"<Context {self.run_id} attempt {self.attempt}>"


class _Given:
    """A door of two functions, for whoever makes a context by hand."""

    def __init__(self, emit: Emit, asked: Callable[[], bool]) -> None:
        self._emit = emit
        self._asked = asked

    def emit(self, topic: str, key: str | bytes, value: object, headers: Headers) -> str:
        return self._emit(topic, key, value, headers)

    def is_asked(self) -> bool:
        return self._asked()


def _is_never_asked() -> bool:
    return False


def _emits_nothing(topic: str, *_: object) -> str:
    raise EmitRefused(f"This context belongs to no worker, so nothing can be sent to {topic}: give it an `emit`")


_SHUT = _Given(_emits_nothing, _is_never_asked)


class Handler(NamedTuple):
    """A registered function; ``is_async``: called on the event loop, else in a thread."""

    call: Callable[[Context], Any]
    is_async: bool


class App:
    """The handlers that a worker can run, by name."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def handler(self, name: str) -> Callable[[_Function], _Function]:
        """Register a function, sync or async, under the name that jobs call it by.

        Raises RequestError where the name is empty or taken: two functions under one name would be a silent mistake.
        """
        if not name:
            raise RequestError("a handler needs a name", hint='Write @app.handler("send-invoice")')
        if name in self._handlers:
            raise RequestError(
                f"handler {name!r} is registered twice", hint="Give each function a name of its own in this App"
            )

        def register(function: _Function) -> _Function:
            self._handlers[name] = Handler(function, _is_async(function))
            return function

        return register

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """What is registered now, by name; read-only, and live."""
        return MappingProxyType(self._handlers)


def _is_async(function: Callable[[Context], Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def load_app(place: str) -> App:
    """The App at ``<module>:<attribute>``, found as Python finds modules, the current folder first.

    Raises RequestError that says what was not found. What the module itself raises while it is imported comes through:
    it is the user's own trace.
    """
    module_name, colon, attribute = place.partition(":")
    if not colon or not module_name or not attribute:
        raise RequestError(f"{place!r} names no App", hint="Write <module>:<attribute>, such as app:app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise
        raise RequestError(
            f"there is no module {error.name!r}", hint=f"Looked in {here} and on Python's path"
        ) from None
    found = getattr(module, attribute, None)
    if not isinstance(found, App):
        raise RequestError(
            f"{place} is {'missing' if found is None else type(found).__name__}, not an App",
            hint=f"Write `{attribute} = App()` in {module_name} and register handlers with it",
        )
    return found
