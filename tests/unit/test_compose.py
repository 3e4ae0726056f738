"""The compose file, as far as it can be held to its word without an engine: names, commands, settings, order."""

from __future__ import annotations

import base64
import importlib.util
import os
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from waterclock import cli
from waterclock.settings import load_settings

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose" / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path, monkeypatch):
    for name in os.environ:
        if name.startswith("WATERCLOCK_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def roles() -> dict[str, str]:
    """Service -> the module that it runs."""
    return {name: s["command"][2] for name, s in OURS.items() if s["command"][:2] == ["python", "-m"]}


def test_every_role_of_the_wheel_is_a_service_with_a_name_of_its_own():
    assert set(roles().values()) == set(PROJECT["entry-points"]["waterclock.roles"].values())
    instances = [OURS[name]["environment"]["WATERCLOCK_INSTANCE"] for name in roles()]
    assert len(set(instances)) == len(instances), "two of one name would fence each other"


@pytest.mark.parametrize("name", sorted(roles()))
def test_a_roles_module_can_be_run(name):
    assert importlib.util.find_spec(f"{roles()[name]}.__main__")


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_variable_is_a_setting_of_this_release(name, monkeypatch):
    for variable, value in OURS[name]["environment"].items():
        monkeypatch.setenv(variable, value)
    settings = load_settings()
    assert settings.kafka.bootstrap == "kafka:19092"
    assert settings.cassandra.contact_points == ("cassandra",)
    assert settings.instance == OURS[name]["environment"].get("WATERCLOCK_INSTANCE", "")
    known = {"WATERCLOCK_KAFKA__BOOTSTRAP", "WATERCLOCK_CASSANDRA__CONTACT_POINTS", "WATERCLOCK_INSTANCE"}
    assert set(OURS[name]["environment"]) <= known | {"WATERCLOCK_READY_FILE", "WATERCLOCK_API__HOST"}


def test_every_command_line_is_one_that_we_understand():
    lines = [shlex.join(s["command"]) for s in OURS.values() if s["command"][0] == "waterclock"]
    for service in OURS.values():
        if service["command"][0] == "sh":
            lines += re.findall(r"waterclock [^|\n]+", service["command"][-1])
    assert len(lines) >= 7
    for line in lines:
        words = shlex.split(line)[1:]
        command = cli._load(words.pop(0))
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.make_context(command.name, words)  # raises where an option or argument is wrong


def test_what_a_service_waits_for_exists_in_its_profile_and_can_be_waited_for():
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert set(service["profiles"]) <= set(SERVICES[other]["profiles"]), f"{name} needs {other}"
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], f"{name} waits for {other}"
            else:
                assert how["condition"] == "service_completed_successfully"
                assert "restart" not in SERVICES[other], f"{other} must be able to end"


def test_the_profiles_are_those_that_the_docs_name():
    assert {profile for service in SERVICES.values() for profile in service["profiles"]} == {"core", "demo", "cli"}
    assert set(roles()) <= {name for name, service in SERVICES.items() if "core" in service["profiles"]}


def test_ours_run_without_rights_and_everybody_listens_on_loopback_alone():
    for name, service in OURS.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
    for name, service in SERVICES.items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name


def test_images_are_pinned_and_ours_is_the_release():
    assert SERVICES["kafka"]["image"] == "apache/kafka:4.3.1"
    assert SERVICES["cassandra"]["image"] == "cassandra:5.0.9"
    assert {service["image"] for service in OURS.values()} == {f"waterclock:{PROJECT['version']}"}


def test_the_brokers_settings_fit_each_other():
    settings = SERVICES["kafka"]["environment"]
    assert len(base64.urlsafe_b64decode(settings["CLUSTER_ID"] + "==")) == 16
    listeners = re.findall(r"(\w+)://", settings["KAFKA_LISTENERS"])
    assert listeners == re.findall(r"(\w+):PLAINTEXT", settings["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"])
    assert re.findall(r"(\w+)://", settings["KAFKA_ADVERTISED_LISTENERS"]) == listeners[:2]
    assert settings["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"


def test_the_image_holds_every_package_and_runs_as_nobody():
    dockerfile = (ROOT / "compose" / "Dockerfile").read_text()
    copied = set(re.findall(r"^COPY (\w+) \1$", dockerfile, re.MULTILINE))
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    homes = {packages["package-dir"].get(name, name.split(".")[0]) for name in packages["packages"]}
    assert {home.split("/")[0] for home in homes} <= copied | {"waterclock"}
    kept = (ROOT / "compose" / "Dockerfile.dockerignore").read_text()
    assert all(f"!{name}\n" in kept for name in copied)
    assert "\nUSER 10001\n" in dockerfile
    assert 'ENTRYPOINT ["tini", "--"]' in dockerfile


def test_the_one_cassandra_answers_a_write_once_it_is_on_the_disk():
    """Else its kill loses what it answered last (``tests/integration/test_cassandra_kill.py``)."""
    options = dict(option.split("=", 1) for option in SERVICES["cassandra"]["environment"]["JVM_EXTRA_OPTS"].split())
    assert options["-Dcassandra.config.allow_system_properties"] == "true", "or the others are passed over"
    assert options["-Dcassandra.settings.commitlog_sync"] == "batch"
    assert options["-Dcassandra.settings.commitlog_sync_period"] == "0ms", "batch with a period does not start"
