"""A proxy between clients and one Kafka broker that can lose a commit, or only its answer, and cuts nothing.

Losing an answer and losing a connection are two different faults: ``tests/conformance/proxy.py``, which this one
stands on, cuts. Once a commit was chosen, every repetition of it (same id, producer id and epoch) meets the same fate:
librdkafka sends it again by itself, and a repetition that came through would end the doubt. One broker only.
"""

from __future__ import annotations

import struct
import threading
from typing import NamedTuple

from tests.conformance.proxy import END_TXN, CuttingProxy, Request, Way, transactional_id_of


class _Commit(NamedTuple):
    """An EndTxn(commit) request, and all its repetitions."""

    transactional_id: str
    producer_id: int
    epoch: int


class DoubtProxy(CuttingProxy):
    """Listens on 127.0.0.1:``port``, a port of its own."""

    def __init__(self, host: str, broker_port: int) -> None:
        self._armed: dict[str, bool] = {}
        self._chosen: dict[_Commit, bool] = {}
        self._lost: set[tuple[object, int]] = set()
        self._choosing = threading.Lock()
        super().__init__(host, broker_port)

    def lose_commit(self, transactional_id: str, *, applied: bool) -> None:
        """The next commit of this id gets no answer; ``applied``: the broker gets the request all the same."""
        with self._choosing:
            self._armed[transactional_id] = applied

    def way_of(self, request: Request) -> Way:
        commit = _commit_of(request) if request.api_key == END_TXN else None
        if commit is None:
            return Way.ON
        with self._choosing:
            if commit.transactional_id in self._armed:
                self._chosen[commit] = self._armed.pop(commit.transactional_id)
            applied = self._chosen.get(commit)
            if applied:
                self._lost.add((request.connection, request.correlation_id))
        return Way.LOST if applied is False else Way.ON

    def reaches(self, connection: object, answer: bytes) -> bool:
        (correlation_id,) = struct.unpack_from(">i", answer, 4)
        with self._choosing:
            is_lost = (connection, correlation_id) in self._lost
            self._lost.discard((connection, correlation_id))
        return not is_lost


def _commit_of(request: Request) -> _Commit | None:
    """The commit that an EndTxn frame asks for; None where it asks for an abort. Header v1, body v0-v2."""
    transactional_id = transactional_id_of(request.frame, request.version)
    (client_length,) = struct.unpack_from(">h", request.frame, 12)
    at = 16 + max(0, client_length) + len(transactional_id)
    producer_id, epoch, is_commit = struct.unpack_from(">qh?", request.frame, at)
    return _Commit(transactional_id, producer_id, epoch) if is_commit else None
