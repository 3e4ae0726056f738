"""Secrets from files: which variables name one, and what happens when it cannot be had."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from waterclock.commands.worker import worker
from waterclock.model.errors import RequestError
from waterclock.settings import Settings, load_settings
from waterclock.stack.child import Child
from waterclock.stack.up import Up
from waterclock.store.access import driver_options


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path, monkeypatch):
    for name in os.environ:
        if name.startswith("WATERCLOCK_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("secret").write_text("s3cret\n")


def test_a_password_is_read_from_the_file_that_the_environment_names(monkeypatch):
    monkeypatch.setenv("WATERCLOCK_CASSANDRA__PASSWORD_FILE", "secret")
    monkeypatch.setenv("WATERCLOCK_KAFKA__CLIENT__SASL.PASSWORD_FILE", "secret")
    settings = load_settings()
    assert settings.cassandra.password.get_secret_value() == "s3cret"
    assert settings.kafka.properties == {"sasl.password": "s3cret"}
    assert "s3cret" not in repr(settings.cassandra)


def test_a_whole_table_of_client_settings_may_stand_in_a_file(monkeypatch):
    Path("client.json").write_text('{"security.protocol": "SASL_SSL", "socket.keepalive.enable": true}')
    monkeypatch.setenv("WATERCLOCK_KAFKA__CLIENT_FILE", "client.json")
    assert load_settings().kafka.properties == {"security.protocol": "SASL_SSL", "socket.keepalive.enable": "True"}


def test_what_is_no_setting_or_has_a_name_of_its_own_stays_what_it_is(monkeypatch):
    monkeypatch.setenv("WATERCLOCK_READY_FILE", "/nowhere/ready")
    monkeypatch.setenv("WATERCLOCK_CASSANDRA__TLS__CA_FILE", "ca.pem")
    assert load_settings().cassandra.tls.ca_file == Path("ca.pem")


def test_a_file_that_cannot_be_read_is_named_with_its_variable(monkeypatch):
    monkeypatch.setenv("WATERCLOCK_CASSANDRA__PASSWORD_FILE", "absent")
    with pytest.raises(RequestError, match=r"WATERCLOCK_CASSANDRA__PASSWORD_FILE: absent cannot be read"):
        load_settings()


def test_a_value_given_twice_is_refused(monkeypatch):
    monkeypatch.setenv("WATERCLOCK_CASSANDRA__PASSWORD_FILE", "secret")
    monkeypatch.setenv("WATERCLOCK_CASSANDRA__PASSWORD", "other")
    with pytest.raises(RequestError, match="are both set"):
        load_settings()


def test_a_misspelt_secret_is_refused_and_its_value_never_repeated(monkeypatch):
    monkeypatch.setenv("WATERCLOCK_CASSANDRA__PASWORD_FILE", "secret")
    with pytest.raises(RequestError, match="Did you mean 'password'"):
        load_settings()
    monkeypatch.delenv("WATERCLOCK_CASSANDRA__PASWORD_FILE")
    with pytest.raises(RequestError) as refused:
        load_settings({"cassandra": {"password": ["s3cret"]}})
    assert "s3cret" not in str(refused.value)


def test_what_the_guarantees_stand_on_is_not_replaced_through_the_drivers_options():
    settings = load_settings({"cassandra": {"client": {"protocol_version": 3}}})
    with pytest.raises(RequestError, match=r"cassandra\.client\.protocol_version is not free"):
        driver_options(settings.cassandra)


def test_a_certificate_that_is_none_is_refused_with_the_setting_that_names_it():
    settings = load_settings({"cassandra": {"tls": {"enabled": True, "ca_file": "secret"}}})
    with pytest.raises(RequestError, match=r"cassandra\.tls\.ca_file cannot be used"):
        driver_options(settings.cassandra)


def test_the_certificate_and_its_name_are_checked_unless_told_otherwise():
    from_defaults = driver_options(load_settings({"cassandra": {"tls": {"enabled": True}}}).cassandra)["ssl_context"]
    assert from_defaults.check_hostname
    assert from_defaults.verify_mode.name == "CERT_REQUIRED"
    lenient = load_settings({"cassandra": {"tls": {"enabled": True, "check_host": False}}}).cassandra
    assert not driver_options(lenient)["ssl_context"].check_hostname
    assert driver_options(lenient)["ssl_context"].verify_mode.name == "CERT_REQUIRED"


def settings_in_files(monkeypatch, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        Path(name).write_text(text)
        monkeypatch.setenv(f"WATERCLOCK_{name}_FILE", name)


def settings_of(monkeypatch, env: Mapping[str, str]) -> Settings:
    """What a process reads that is started with this environment."""
    for name in [name for name in os.environ if name.startswith("WATERCLOCK_")]:
        monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return load_settings()


def test_roles_of_a_local_stack_start_where_files_hold_settings_that_it_hands_on(monkeypatch):
    texts = {"KAFKA__BOOTSTRAP": "broker:9092", "API__PORT": "45690", "CASSANDRA__PASSWORD": "s3cret"}
    settings_in_files(monkeypatch, texts)
    told = []
    monkeypatch.setattr(Child, "__init__", lambda *parts, **_: told.append(parts[4]))
    up = Up(load_settings(), str)
    up._choose_ports()
    for plan in up._roles():
        plan.launch()
    assert {env["WATERCLOCK_INSTANCE"] for env in told} > {"api-1", "worker-1"}
    for env in told:
        settings = settings_of(monkeypatch, env)
        assert settings.kafka.bootstrap == "broker:9092"
        assert settings.api.port == 45_690
        assert settings.cassandra.password.get_secret_value() == "s3cret"


def test_a_worker_of_ones_own_starts_where_files_hold_settings_that_it_is_given(monkeypatch):
    Path("shop.py").write_text("from waterclock import App\n\napp = App()\n")
    texts = {
        "KAFKA__BOOTSTRAP": "broker:9092",
        "CASSANDRA__CONTACT_POINTS": "one,two",
        "CASSANDRA__PORT": "9142",
        "CASSANDRA__PASSWORD": "s3cret",
        "WORKER__POOL": "slow",
    }
    settings_in_files(monkeypatch, texts)
    told = []
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(os, "execve", lambda _program, _words, env: told.append(env))
    worker("shop:app", pool="fast", slots=3)
    (env,) = told
    settings = settings_of(monkeypatch, env)
    assert settings.kafka.bootstrap == "broker:9092"
    assert (settings.cassandra.contact_points, settings.cassandra.port) == (("one", "two"), 9142)
    assert settings.cassandra.password.get_secret_value() == "s3cret"
    assert (settings.worker.pool, settings.worker.slots) == ("fast", 3)
