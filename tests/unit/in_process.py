"""A command of ``waterclock`` in the test's own process: what it prints, and the exit code that it means."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any, TypeAlias

import pytest

from tests.unit.api_world import ApiWorld
from waterclock import cli
from waterclock.settings import Settings

Run: TypeAlias = Callable[..., tuple[int, list[dict[str, Any]], str]]


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


def let_open(monkeypatch: pytest.MonkeyPatch, module: ModuleType, store: Any) -> None:
    """Commands of this module find this store, with the settings that there are without any."""
    monkeypatch.setattr(module, "here", Settings)
    monkeypatch.setattr(module, "open_store", lambda _: nullcontext(store))


def on_ports_of(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *modules: ModuleType
) -> Run:
    """Runs commands of these modules on a world's ports: (exit code, documents on stdout, stderr)."""

    @contextmanager
    def log(_: Settings) -> Iterator[Any]:
        yield world.services.log

    @contextmanager
    def store(_: Settings) -> Iterator[Any]:
        yield world.services.store

    for module in modules:
        monkeypatch.setattr(module, "here", lambda: world.settings)
        monkeypatch.setattr(module, "open_log", log)
        monkeypatch.setattr(module, "open_store", store)

    def run(*words: str) -> tuple[int, list[dict[str, Any]], str]:
        code, out, err = run_command(monkeypatch, capsys, *words)
        return code, documents_of(out), err

    return run
