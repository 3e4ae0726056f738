"""All executors of a worker behind one port: each attempt goes to the one that its work record names.

What must hold: an attempt that cannot be served here (an executor that is switched off, not installed, or of a later
release) ends as a failed attempt that says so, never as a crash; calls to other systems run on a loop of their own, so
that a handler which blocks its loop holds up no call; what was asked to stop before its turn is not called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from waterclock.clock import Clock
from waterclock.egress.refusals import NotSent
from waterclock.model.errors import AttemptError
from waterclock.model.executor import Executor, GrpcCall, HttpCall, KafkaRecord, executor_from_json

from . import ending
from .basket import Basket
from .grpc_call import GrpcCalls
from .http_call import HttpCalls
from .kafka_record import KafkaRecords
from .loop_thread import LoopThread
from .port import Attempt, EndedAttempt
from .python import PythonExecutors
from .shell_command import ShellCommands


class ExecutorsByKind:
    """``python`` must put its ends into the same ``basket``."""

    def __init__(
        self,
        python: PythonExecutors,
        basket: Basket,
        clock: Clock,
        *,
        http: HttpCalls,
        grpc: GrpcCalls,
        shell: ShellCommands,
        kafka: KafkaRecords,
    ) -> None:
        self._python = python
        self._http = http
        self._grpc = grpc
        self._shell = shell
        self._kafka = kafka
        self._calls = LoopThread("calls-loop", self._serve, basket, clock, closing=self._close)

    def submit(self, attempts: Sequence[Attempt]) -> None:
        calls = [attempt for attempt in attempts if attempt.work.executor]
        if not calls:
            self._python.submit(attempts)
            return
        self._calls.submit(calls)
        self._python.submit([attempt for attempt in attempts if not attempt.work.executor])

    def take_ended(self) -> list[EndedAttempt]:
        return self._python.take_ended()

    def wait(self, enough: int, timeout_s: float) -> None:
        self._python.wait(enough, timeout_s)

    def allow_until(self, monotonic_s: float) -> None:
        self._python.allow_until(monotonic_s)
        self._calls.allow_until(monotonic_s)

    def ask(self, attempts: Sequence[Attempt]) -> None:
        self._python.ask(attempts)
        self._calls.call(self._shell.ask, [attempt for attempt in attempts if attempt.work.executor])

    def force(self, attempts: Sequence[Attempt]) -> None:
        self._calls.force([attempt for attempt in attempts if attempt.work.executor])
        self._python.force([attempt for attempt in attempts if not attempt.work.executor])

    def withdraw(self) -> list[Attempt]:
        return self._python.withdraw()

    def forget(self) -> None:
        self._calls.forget()
        self._python.forget()

    def stop(self, grace_s: float) -> None:
        self._calls.stop(grace_s / 2)
        self._python.stop(grace_s / 2)

    # -- on the loop of calls --------------------------------------------------------------------------------------

    async def _serve(self, attempt: Attempt) -> None:
        try:
            if attempt.is_asked_to_stop:
                raise NotSent("it was to stop before its call began")
            ended = await self._call(attempt, _executor_of(attempt))
        except NotSent as stopped:
            ended = ending.not_begun(attempt, str(stopped))
        except AttemptError as error:
            ended = ending.fell_short(attempt, error)
        except BaseException as error:  # noqa: BLE001 - cancelled, or a bug: it ends this attempt and nothing else
            ended = ending.failed(attempt, error)
        self._calls.end(ended)

    async def _call(self, attempt: Attempt, executor: Executor) -> EndedAttempt:
        if isinstance(executor, HttpCall):
            return await self._http.serve(attempt, executor)
        if isinstance(executor, GrpcCall):
            return await self._grpc.serve(attempt, executor)
        if isinstance(executor, KafkaRecord):
            # It may ask the broker whether the topic exists: the loop of all calls, and of their time-outs, goes on.
            return await asyncio.to_thread(self._kafka.serve, attempt, executor)
        return await self._shell.serve(attempt, executor)

    async def _close(self) -> None:
        await self._http.close()
        await self._grpc.close()


def _executor_of(attempt: Attempt) -> Executor:
    try:
        return executor_from_json(attempt.work.executor)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AttemptError(
            f"this worker does not know the job's executor: {type(error).__name__}: {error}; is it of a later release?",
            error_class="executor-unknown",
        ) from None
