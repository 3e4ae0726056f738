"""A role as a child process: ``python -m waterclock.<role>``, told by its environment, ready when it says so.

It says so by writing READY into the file that ``WATERCLOCK_READY_FILE`` names (``telemetry.announce_ready``), once it
owns its inputs. The file of an earlier life is removed before the new one starts.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .child import Child
from .trouble import died

_LOG_MAX_BYTES = 16 * 1024 * 1024


class RoleSpec(NamedTuple):
    """Which role, under which instance name, and what its environment adds. ``stop_rank``: lower stops earlier.

    ``address``: where it listens, "" for those who listen nowhere.
    """

    module: str
    instance: str
    stop_rank: int
    env: Mapping[str, str]
    address: str = ""


class RoleProcess(Child):
    """One life of a role."""

    def __init__(self, spec: RoleSpec, env: Mapping[str, str], folder: Path) -> None:
        self.address = spec.address
        self._ready_file = folder / "ready" / spec.instance
        self._ready_file.parent.mkdir(parents=True, exist_ok=True)
        self._ready_file.unlink(missing_ok=True)
        own = {
            "WATERCLOCK_INSTANCE": spec.instance,
            "WATERCLOCK_READY_FILE": str(self._ready_file),
            "PYTHONUNBUFFERED": "1",
        }
        log_path = folder / "logs" / f"{spec.instance}.log"
        set_aside(log_path)
        argv = [sys.executable, "-m", spec.module]
        super().__init__(spec.instance, argv, log_path, said_once({**env, **spec.env, **own}), own_session=False)

    def is_ready(self) -> bool:
        """Whether it wrote READY. Raises StackTrouble with its last lines when it is dead."""
        code = self.exit_code()
        if code is not None:
            raise died(self.name, code, self.log_path, self.last_lines())
        try:
            return self._ready_file.read_text().startswith("READY")
        except FileNotFoundError:
            return False


def said_once(env: Mapping[str, str]) -> dict[str, str]:
    """Without the ``..._FILE`` of what is said beside it: the role refuses a setting that is given twice."""
    return {
        name: value
        for name, value in env.items()
        if not (name.startswith("WATERCLOCK_") and name.endswith("_FILE") and name.removesuffix("_FILE") in env)
    }


def set_aside(log_path: Path) -> None:
    """Begin a new log file when the old one is large; one old one is kept, so that logs do not grow for ever."""
    if log_path.exists() and log_path.stat().st_size > _LOG_MAX_BYTES:
        log_path.replace(log_path.with_suffix(".log.1"))
