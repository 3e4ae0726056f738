"""``waterclock sim`` plays in a checkout, and elsewhere says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock import cli
from waterclock.commands import sim


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["waterclock", "sim", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(str(ended.value.code or 0))


def test_outside_of_a_checkout_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sim, "_CHECKOUT", tmp_path)
    assert run(monkeypatch, "--seed", "1") == 2
    assert "Clone the repository" in capsys.readouterr().err


def test_in_a_checkout_the_words_reach_the_simulation(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--planted", "list") == 0
    assert "no seek after abort" in capfd.readouterr().out


def test_a_file_that_the_caller_names_is_one_of_its_own_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").write_text("raise SystemExit('another project is asked')")
    (tmp_path / "plan.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "--plan", "plan.json") != 0
    told = capfd.readouterr().err
    assert "No such file" not in told
    assert "another project" not in told
    assert "plan_text" in told or "KeyError" in told, told  # it was read, and is no plan
