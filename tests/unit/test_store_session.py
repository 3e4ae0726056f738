"""What the driver is given and cannot use is told at once, and not as a server that does not answer."""

from __future__ import annotations

from typing import Any

import pytest
from cassandra.cluster import Cluster, NoHostAvailable

from waterclock.clock import SystemClock
from waterclock.model.errors import BackendDown, RequestError
from waterclock.store.session import connect

_STUMBLE = TypeError("'str' object cannot be interpreted as an integer")
"""What a `connect_timeout` in quotes comes to, which the driver looks at only when it connects."""


def _connect(monkeypatch: pytest.MonkeyPatch, errors: dict[str, Exception], options: dict[str, Any]) -> None:
    def fails(*_: object) -> None:
        raise NoHostAvailable("Unable to connect to any servers", errors)

    monkeypatch.setattr(Cluster, "connect", fails)
    connect(["127.0.0.1"], 1, SystemClock(), deadline_s=0.0, options=options)


def test_an_argument_of_a_wrong_type_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestError, match=r"cassandra\.client cannot be used: 'str' object") as caught:
        _connect(monkeypatch, {"a": _STUMBLE, "b": _STUMBLE}, {"connect_timeout": "5"})
    assert caught.value.pointer == "/cassandra/client"


@pytest.mark.parametrize(
    ("errors", "options"),
    [
        ({"a": _STUMBLE, "b": OSError("refused")}, {"connect_timeout": 5}),
        ({"a": _STUMBLE}, {}),
        ({}, {"connect_timeout": 5}),
    ],
    ids=["a node is away", "nothing was set", "no node"],
)
def test_what_may_be_no_fault_of_the_setting_is_a_server_that_is_away(
    monkeypatch: pytest.MonkeyPatch, errors: dict[str, Exception], options: dict[str, Any]
) -> None:
    with pytest.raises(BackendDown, match="no answer from"):
        _connect(monkeypatch, errors, options)
