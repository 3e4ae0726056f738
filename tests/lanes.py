"""A pytest plugin of ``make test``: two lanes beside one another, each a process of its own (``-p tests.lanes -n 2``).

Tests of real servers wait for most of their minutes, and tests without use a core or all of them: a lane for each. The
short forms of the acceptance checks go to whichever lane is done first. What must hold: a lane's tests run in the order
in which one session would run them, so that what belongs to a session (the servers, the slice of seeds) belongs to the
one lane that asks for it. How it fails: a process that dies ends the run, once the other lane is done
(``--max-worker-restart=0``: of one that is started anew the scheduler would not come to an end).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_SERVERS, _SHORT_FORMS = "servers", "short forms"
_LANES = {
    "conformance": _SERVERS,
    "integration": _SERVERS,
    "browser": _SERVERS,
    "acceptance": _SHORT_FORMS,
}
_WITHOUT_SERVERS = "without servers"


class Lanes(LoadScopeScheduling):
    """Whole lanes are given out, the one with the most tests first, and so the short forms last."""

    def _split_scope(self, nodeid: str) -> str:
        return _LANES.get(nodeid.split("/")[1], _WITHOUT_SERVERS)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes:
    return Lanes(config, log)


def tell_end(folder: Path) -> None:
    """This lane is done. ``folder``: one that all lanes know."""
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        (folder / f"ended-{worker}").touch()


def others_are_at_work(folder: Path) -> bool:
    """Whether a lane beside this one is not done."""
    others = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) - 1
    return len(list(folder.glob("ended-*"))) < others
