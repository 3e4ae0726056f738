"""A command of ``waterclock`` in the test's own process: what it prints, and the exit code that it means."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from waterclock import cli


def run_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of ``waterclock`` with these words."""
    monkeypatch.setattr(sys, "argv", ["waterclock", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def documents_of(out: str) -> list[dict[str, Any]]:
    """What was printed as JSON lines."""
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]
