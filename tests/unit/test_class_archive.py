"""An archive of classes is used where it is whole and made for this Java, and is missed by nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.stack import class_archive
from waterclock.stack.jars import CASSANDRA, KAFKA, Distribution
from waterclock.stack.java import Java
from waterclock.stack.trouble import StackTrouble


@pytest.fixture
def lib(tmp_path: Path) -> Path:
    folder = tmp_path / "target" / "lib"
    folder.mkdir(parents=True)
    return folder


def java(tmp_path: Path, version: str = "17.0.15") -> Java:
    home = tmp_path / version
    (home / "bin").mkdir(parents=True, exist_ok=True)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return Java(home / "bin" / "java", 17)


def made(distribution: Distribution, lib: Path, by: Java) -> Path:
    """As a JVM leaves it, under the name that it was told."""
    option = class_archive.writing(distribution, lib, by)[-1]
    Path(option.removeprefix("-XX:ArchiveClassesAtExit=")).write_bytes(b"classes")
    return class_archive.finish(distribution, lib, by)


def test_without_an_archive_a_jvm_is_told_nothing(lib: Path, tmp_path: Path) -> None:
    assert class_archive.reading(KAFKA, lib, java(tmp_path)) == []
    assert class_archive.reading(CASSANDRA, lib, java(tmp_path)) == []


def test_a_finished_archive_is_read(lib: Path, tmp_path: Path) -> None:
    path = made(KAFKA, lib, java(tmp_path))
    assert f"-XX:SharedArchiveFile={path}" in class_archive.reading(KAFKA, lib, java(tmp_path))
    assert class_archive.reading(CASSANDRA, lib, java(tmp_path)) == []


def test_an_archive_that_is_being_written_is_not_read(lib: Path, tmp_path: Path) -> None:
    option = class_archive.writing(KAFKA, lib, java(tmp_path))[-1]
    Path(option.removeprefix("-XX:ArchiveClassesAtExit=")).write_bytes(b"half of the cla")
    assert class_archive.reading(KAFKA, lib, java(tmp_path)) == []


def test_another_java_has_an_archive_of_its_own(lib: Path, tmp_path: Path) -> None:
    made(KAFKA, lib, java(tmp_path))
    assert class_archive.reading(KAFKA, lib, java(tmp_path, "17.0.16")) == []


def test_an_archive_that_was_not_left_is_told_of(lib: Path, tmp_path: Path) -> None:
    with pytest.raises(StackTrouble, match="kafka left no archive"):
        class_archive.finish(KAFKA, lib, java(tmp_path))


def test_cassandra_may_archive_beside_its_agent(lib: Path, tmp_path: Path) -> None:
    assert "-XX:+AllowArchivingWithJavaAgent" in class_archive.writing(CASSANDRA, lib, java(tmp_path))
    made(CASSANDRA, lib, java(tmp_path))
    assert "-XX:+AllowArchivingWithJavaAgent" in class_archive.reading(CASSANDRA, lib, java(tmp_path))
