"""Where a setting comes from, and what happens to a misspelt one."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import structlog

from waterclock.model.errors import RequestError
from waterclock.setting_sources import refuse_unknown
from waterclock.settings import Settings, WorkerSettings, load_settings
from waterclock.telemetry import announce_ready, configure_logging

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path, monkeypatch):
    for name in os.environ:
        if name.startswith("WATERCLOCK_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def write_user_file(text: str) -> None:
    folder = Path("~/.config/waterclock").expanduser()
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(text)


def test_flags_win_over_environment_over_folder_over_user_over_default(monkeypatch):
    assert load_settings().worker.slots == 32
    write_user_file("partitions = 8\n[worker]\nslots = 1\nlease_ttl_s = 30\npool = 'user'\n")
    assert load_settings().worker.slots == 1
    Path("waterclock.toml").write_text("[worker]\nslots = 2\npool = 'folder'\n")
    assert load_settings().worker.slots == 2
    monkeypatch.setenv("WATERCLOCK_WORKER__SLOTS", "3")
    assert load_settings().worker.slots == 3
    settings = load_settings({"worker": {"slots": 4}})
    assert settings.worker.slots == 4
    assert settings.worker.pool == "folder"
    assert settings.worker.lease_ttl_s == 30
    assert settings.partitions == 8


def test_contact_points_are_a_list_or_words_with_commas(monkeypatch):
    Path("waterclock.toml").write_text("[cassandra]\ncontact_points = ['a', 'b']\n")
    assert load_settings().cassandra.contact_points == ("a", "b")
    monkeypatch.setenv("WATERCLOCK_CASSANDRA__CONTACT_POINTS", "c, d")
    assert load_settings().cassandra.contact_points == ("c", "d")


def test_the_default_pool_is_always_among_the_pools(monkeypatch):
    assert load_settings().pools == ("default",)
    monkeypatch.setenv("WATERCLOCK_POOLS", "gpu")
    assert load_settings().pools == ("default", "gpu")
    monkeypatch.setenv("WATERCLOCK_POOLS", "GPU!")
    with pytest.raises(RequestError, match="list of names"):
        load_settings()


def test_client_properties_pass_untouched(monkeypatch):
    Path("waterclock.toml").write_text("[kafka.client]\n'security.protocol' = 'SASL_SSL'\n")
    assert load_settings().kafka.client == {"security.protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    ("text", "wrong", "meant"),
    [
        ("partition = 8\n", "partition", "partitions"),
        ("[worker]\nslot = 8\n", "worker.slot", "slots"),
        ("[kafka]\nbootstrap_servers = 'x'\n", "kafka.bootstrap_servers", "bootstrap"),
    ],
)
def test_an_unknown_key_names_its_file_and_what_was_meant(text, wrong, meant):
    Path("waterclock.toml").write_text(text)
    with pytest.raises(RequestError) as told:
        load_settings()
    assert f"'{wrong}' (waterclock.toml)" in told.value.message
    assert told.value.hint == f"Did you mean '{meant}'?"


def test_an_unknown_nested_variable_is_an_error(monkeypatch):
    monkeypatch.setenv("WATERCLOCK_WORKER__SLOT", "3")
    with pytest.raises(RequestError, match="Did you mean 'slots'"):
        load_settings()


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("WATERCLOCK_PRODUCTON", "Did you mean WATERCLOCK_PRODUCTION?"),
        ("WATERCLOCK_KAFKAA__BOOTSTRAP", "Did you mean WATERCLOCK_KAFKA__BOOTSTRAP?"),
        ("WATERCLOCK_KAFKA_BOOTSTRAP", "Did you mean WATERCLOCK_KAFKA__BOOTSTRAP?"),
        ("WATERCLOCK_API_PORT", "Did you mean WATERCLOCK_API__PORT?"),
        ("WATERCLOCK_CASSANDRA_PASSWORD_FILE", "Did you mean WATERCLOCK_CASSANDRA__PASSWORD_FILE?"),
        ("WATERCLOCK_PRODUCTION__NOW", "Did you mean WATERCLOCK_PRODUCTION?"),
        ("WATERCLOCK_RUN", "Unset it, or correct it"),
        ("WATERCLOCK_", "Unset it, or correct it"),
    ],
)
def test_a_variable_that_leads_to_no_setting_is_an_error(monkeypatch, variable, meant):
    monkeypatch.setenv(variable, "")
    with pytest.raises(RequestError) as told:
        load_settings()
    assert told.value.message == f"The variable {variable} leads to no setting"
    assert told.value.hint.startswith(meant)


def test_a_variable_that_somebody_else_reads_may_stand_in_the_environment(monkeypatch):
    """A program that a job runs has its run's, and may call ``waterclock``; Kubernetes tells of each Service."""
    for variable in ("READY_FILE", "COMPILED", "RUN_ID", "RUN_TRIGGERED_BY", "TEST_KAFKA", "PRODUCTION_FILE"):
        monkeypatch.setenv(f"WATERCLOCK_{variable}", "")
    for variable, value in {
        "API_SERVICE_HOST": "10.96.0.7",
        "API_SERVICE_PORT_HTTP": "8080",
        "API_PORT": "tcp://10.96.0.7:8080",
        "API_PORT_8080_TCP_ADDR": "10.96.0.7",
        "SERVICE_PORT": "8080",
        "PORT": "tcp://10.96.0.7:8080",
    }.items():
        monkeypatch.setenv(f"WATERCLOCK_{variable}", value)
    assert load_settings().api.port == 8080


def test_every_variable_in_our_sources_is_a_setting_or_known_to_be_none():
    """Else what is started with it would not start. Unit tests misspell some, and a changelog tells of old ones."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    found: dict[str, str] = {}
    for name in filter(None, files.split("\0")):
        if name.startswith(("tests/unit/", "CHANGELOG")) or not (ROOT / name).is_file():
            continue
        text = (ROOT / name).read_bytes().decode(errors="ignore")
        found |= dict.fromkeys(re.findall(r"\bWATERCLOCK_[A-Z0-9_]*[A-Z0-9]\b(?!__)", text), name)
    assert len(found) > 50
    found.pop("WATERCLOCK_A__B")  # of no setting: the form of them all
    for variable, place in found.items():
        try:
            refuse_unknown({variable.lower(): "x"}, "WATERCLOCK_", Settings)
        except RequestError as error:
            pytest.fail(f"{place}: {error}")


def test_a_variable_of_a_whole_group_says_how_one_of_its_settings_is_given(monkeypatch):
    monkeypatch.setenv("WATERCLOCK_API", "http://127.0.0.1:8080")
    with pytest.raises(RequestError) as raised:
        load_settings()
    assert (raised.value.message, raised.value.pointer) == (
        "WATERCLOCK_API is a group of settings, and its value is none",
        "/api",
    )
    assert "WATERCLOCK_API__HOST" in raised.value.hint


@pytest.mark.parametrize("partitions", [0, 3, 512])
def test_partitions_divide_the_256_slots(partitions):
    with pytest.raises(RequestError, match="power of two"):
        load_settings({"partitions": partitions})


def test_settings_cannot_be_changed():
    settings = load_settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.partitions = 8  # type: ignore[misc]


def test_a_file_that_is_not_toml_is_named():
    Path("waterclock.toml").write_text("slots: 3\n")
    with pytest.raises(RequestError, match=r"waterclock\.toml is not TOML"):
        load_settings()


def test_a_log_line_is_json_with_a_constant_event_and_hides_secrets(capsys):
    try:
        configure_logging("worker", "worker-1", pretty=False).info("claimed", run_count=3, callback_authorization="x")
    finally:
        structlog.reset_defaults()  # or every later test would log to this one's closed stdout
    line = json.loads(capsys.readouterr().out)
    assert list(line)[:5] == ["ts", "level", "event", "role", "instance"]
    assert line["event"] == "claimed"
    assert line["callback_authorization"] == "[hidden]"


def test_a_process_says_ready_only_where_it_was_asked(tmp_path, monkeypatch):
    announce_ready()
    place = tmp_path / "worker-1.ready"
    monkeypatch.setenv("WATERCLOCK_READY_FILE", str(place))
    announce_ready()
    assert place.read_text() == f"READY {os.getpid()}\n"


@pytest.mark.parametrize(("lease_s", "most_s"), [(3.0, 1.5), (5.0, 2.5), (15.0, 3.0), (600.0, 3.0)])
def test_what_a_killed_worker_leaves_open_ends_well_before_its_lease(lease_s: float, most_s: float) -> None:
    assert WorkerSettings(lease_ttl_s=lease_s).transaction_timeout_s == most_s
