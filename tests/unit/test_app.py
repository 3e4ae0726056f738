"""What a user may rely on in an App and its Context."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

import waterclock
from waterclock.app import App, Context, load_app
from waterclock.model.errors import RequestError
from waterclock.model.events import WorkRecord
from waterclock.model.job import Tier

WORK = WorkRecord(
    "acme:bill@20261121T090000.250000Z",
    1_795_251_600_250_000,
    1_795_251_600_250_000,
    2,
    "acme:bill",
    7,
    Tier.HIGH,
    "default",
    "bill",
    b'{"amount": 3}',
)


def test_the_front_door_is_one_import_away() -> None:
    assert waterclock.App is App
    assert waterclock.Context is Context
    with pytest.raises(AttributeError, match="Nothing"):
        waterclock.Nothing  # noqa: B018


def test_the_front_door_opens_lazily() -> None:
    code = "import sys, waterclock.model.ids; sys.exit('waterclock.app' in sys.modules or 'structlog' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_a_context_tells_the_attempt() -> None:
    ctx = Context.of(WORK, fence=281_474_976_710_698)
    assert ctx.run_id == ctx.idempotency_key == "acme:bill@20261121T090000.250000Z"
    assert (ctx.job_id, ctx.attempt, ctx.fence) == ("acme:bill", 2, 281_474_976_710_698)
    assert ctx.fire_time == datetime(2026, 11, 21, 9, 0, 0, 250_000, tzinfo=UTC)
    assert ctx.payload == b'{"amount": 3}'
    assert ctx.json() == {"amount": 3}


def test_an_empty_payload_is_no_json() -> None:
    assert Context("r", "j", 0, 1, 1).json() is None


def test_the_logger_names_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    Context.of(WORK, 1).log.info("hello")
    assert "acme:bill@20261121T090000.250000Z" in capsys.readouterr().out


def test_handlers_are_told_apart_by_how_they_are_called() -> None:
    app = App()

    @app.handler("sync")
    def sync(ctx: Context) -> None: ...

    @app.handler("async")
    async def on_loop(ctx: Context) -> None: ...

    class Callable_:  # noqa: N801
        async def __call__(self, ctx: Context) -> None: ...

    app.handler("object")(Callable_())
    app.handler("partial")(partial(on_loop))
    assert {name: handler.is_async for name, handler in app.handlers.items()} == {
        "sync": False,
        "async": True,
        "object": True,
        "partial": True,
    }


def test_the_decorator_gives_the_function_back() -> None:
    app = App()

    def double(ctx: Context) -> int:
        return 2

    assert app.handler("double")(double) is double


@pytest.mark.parametrize("name", ["", "taken"])
def test_a_handler_needs_a_name_of_its_own(name: str) -> None:
    app = App()
    app.handler("taken")(print)
    with pytest.raises(RequestError):
        app.handler(name)


def test_an_app_is_loaded_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_jobs_here.py").write_text("from waterclock import App\napp = App()\nother = 3\n")
    assert isinstance(load_app("my_jobs_here:app"), App)
    with pytest.raises(RequestError, match="is int, not an App"):
        load_app("my_jobs_here:other")
    with pytest.raises(RequestError, match="is missing"):
        load_app("my_jobs_here:nothing")


def test_a_place_that_leads_nowhere_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(RequestError, match="names no App"):
        load_app("jobs")
    with pytest.raises(RequestError, match="no module 'not_there_at_all'"):
        load_app("not_there_at_all:app")
    (tmp_path / "broken_jobs.py").write_text("import also_not_there\n")
    with pytest.raises(ModuleNotFoundError, match="also_not_there"):
        load_app("broken_jobs:app")
