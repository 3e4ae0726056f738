"""A run's state as text: what the maker of a work record knew of the run, for whoever claims it (design §7).

It rides in ``WorkRecord.verify_state``, so it is on-disk format: the fields of :class:`RunState` in their order, as a
compact JSON list; "" where the run was unknown. The last two are there only where one of them is set, as no plain run's
is. Fields may be added at the end, none may move. Trusted: roles alone write work records; what is no state all the
same raises ValueError.
"""

from __future__ import annotations

import orjson

from .events import Outcome, RunStatus
from .reduce import RunState

_OF_ALL_RUNS = 8


def state_to_text(state: RunState | None) -> str:
    """The text of a state; exact inverse: :func:`state_from_text`."""
    if state is None:
        return ""
    return orjson.dumps(list(state if state.is_dag or state.expired else state[:_OF_ALL_RUNS])).decode()


def state_from_text(text: str) -> RunState | None:
    """The state in a text; fields of a later release are dropped. Raises ValueError."""
    if not text:
        return None
    try:
        status, attempt, outcome, *rest = orjson.loads(text)[: len(RunState._fields)]
        return RunState(RunStatus(status), attempt, Outcome(outcome), *rest)
    except (TypeError, KeyError) as error:
        raise ValueError(f"no state of a run: {text[:80]!r}") from error
