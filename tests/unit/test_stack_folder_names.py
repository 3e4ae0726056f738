"""Servers find their files in folders of any name: beyond Latin-1, with a backslash, with what URLs mean otherwise."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from waterclock.stack import cassandra_server, kafka_server
from waterclock.stack.java import Java
from waterclock.stack.kit import Kit
from waterclock.stack.memory import NORMAL
from waterclock.stack.ports import PickedPort
from waterclock.stack.trouble import StackTrouble

NAMES = ["plain", "two words", "Prüfung", "水時計", "🕰", "back\\slash", "50%41 off#1?"]


@pytest.mark.parametrize("name", NAMES)
def test_kafka_reads_the_folder_that_is_meant(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    properties = kafka_server._write_properties(folder, PickedPort(45_680, 45_680, None), kafka_server.OPEN)
    lines = properties.read_bytes().decode("latin-1").splitlines()  # as Java does
    (told,) = (line.removeprefix("log.dirs=") for line in lines if line.startswith("log.dirs="))
    read = told.encode("ascii").decode("unicode_escape").encode("utf-16", "surrogatepass").decode("utf-16")
    assert read == str(folder / "logs")


def test_a_folder_that_kafka_would_take_for_two_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(StackTrouble, match="comma"):
        kafka_server._write_properties(tmp_path / "a,b", PickedPort(45_680, 45_680, None), kafka_server.OPEN)


@pytest.mark.parametrize("name", NAMES)
def test_cassandra_is_led_to_its_configuration_by_a_url(tmp_path, name):
    conf = tmp_path / name / "conf"
    kit = Kit(Java(tmp_path / "java", 17), NORMAL)
    words = cassandra_server._command(kit, tmp_path, tmp_path / name, unsafe_system=False)
    (url,) = (word.partition("=")[2] for word in words if word.startswith("-Dcassandra.config="))
    assert Path(url2pathname(urlsplit(url).path)) == conf / "cassandra.yaml"
