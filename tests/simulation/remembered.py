"""Records decoded once for each play, however many roles read them: bytes in the log never change.

Every worker, router, recorder and API process of a play reads the same records, where real ones do so each in a process
of its own. Must hold: what is remembered is immutable (named tuples, frozen values, texts, bytes), so that no reader
can tell; it ends with the play; bytes that cannot be decoded are refused anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from waterclock.wire import codec, run_event, work_record

_CODECS = tuple(each for each in vars(codec).values() if isinstance(each, codec._Plain))


@contextmanager
def decoded_once() -> Iterator[None]:
    """The product's decoders, with a memory for the time of one play."""
    with ExitStack() as patches:
        for module, name in ((run_event, "get_event"), (work_record, "get_work")):
            patches.enter_context(mock.patch.object(module, name, _remembering(getattr(module, name))))
        for each in _CODECS:
            shape = each._shape
            value_of = _remembering(_reading(each._read, shape.from_record))
            patches.enter_context(mock.patch.object(each, "_read", lambda _, data, value_of=value_of: value_of(data)))
            patches.enter_context(mock.patch.object(each, "_shape", shape._replace(from_record=_same)))
        yield


def _reading(read: Callable[..., Any], from_record: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    # All bytes of a play are written with the released schemas, which the bytes themselves name.
    return lambda data: from_record(read(codec.schemata.written_with(codec.fingerprint_of(data)), data))


def _same(value: Any) -> Any:
    return value


def _remembering(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    known: dict[bytes, Any] = {}

    def remembered(data: bytes) -> Any:
        found = known.get(data)
        if found is None:
            found = known[data] = decode(data)
        return found

    return remembered
