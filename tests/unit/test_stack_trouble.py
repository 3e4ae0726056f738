"""What is told when the local stack cannot start: one cause, one next step."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from waterclock.settings import load_settings
from waterclock.stack.banner import other_port
from waterclock.stack.jars import CASSANDRA, KAFKA, JarSource, jars_of
from waterclock.stack.java import find_java
from waterclock.stack.memory import NORMAL, SMALL, choose_heaps
from waterclock.stack.ports import Holder, PickedPort, holder_of, is_free, pick_port
from waterclock.stack.trouble import StackTrouble, known_cause
from waterclock.stack.up import Up


@pytest.fixture
def listener():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def java_home(folder: Path, release: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return folder


def test_a_taken_port_gives_way_to_the_same_plus_ten_thousand_and_names_who_has_it(listener):
    picked = pick_port(listener)
    assert picked.port != listener
    assert is_free(picked.port)
    assert picked.holder.pid == os.getpid()
    assert "python" in picked.holder.name
    if listener + 10_000 < 60_000 and is_free(listener + 10_000):
        assert picked.port == listener + 10_000


def test_a_port_given_out_a_moment_ago_is_not_given_again():
    first = pick_port(45_678)
    assert pick_port(first.port, taken=(first.port,)).port != first.port


def test_a_free_port_has_no_holder_that_we_could_name():
    port = pick_port(45_679).port
    assert holder_of(port) == Holder(0, "another process")


def test_a_port_that_was_asked_for_and_is_taken_is_refused_with_its_holder(listener, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    with pytest.raises(StackTrouble) as told:
        Up(load_settings(), said.append, kafka_port=listener).run()
    assert f"Port {listener} is taken by python" in told.value.message
    assert f"pid {os.getpid()}" in told.value.message
    assert "--kafka-port" in told.value.hint


class Elsewhere:
    """A server that found its port taken when it was started."""

    name = "kafka"

    def __init__(self, port: int) -> None:
        self.port = port
        self.picked = PickedPort(port, 9092, Holder(7, "nginx"))
        self.killed = False

    def kill(self) -> None:
        self.killed = True


def up_with_kafka_at(monkeypatch, tmp_path, said: list[str], *servers: Elsewhere) -> Up:
    monkeypatch.chdir(tmp_path)
    starts = iter(servers)
    monkeypatch.setattr("waterclock.stack.up.launch_kafka", lambda *_, **__: next(starts))
    return Up(load_settings(), said.append, kafka_port=9092)


def test_a_port_that_is_lost_while_starting_gives_way_to_another_and_everybody_is_told_that(monkeypatch, tmp_path):
    said = []
    up = up_with_kafka_at(monkeypatch, tmp_path, said, Elsewhere(19092))
    assert up._launch_kafka().port == 19092
    assert up._where().bootstrap == "127.0.0.1:19092"
    assert "taken by nginx (pid 7), using 19092 instead" in said[-1]


def test_a_port_that_the_roles_were_told_is_never_given_up(monkeypatch, tmp_path):
    moved = Elsewhere(19092)
    up = up_with_kafka_at(monkeypatch, tmp_path, [], moved)
    up._fixed.add("kafka")
    with pytest.raises(StackTrouble, match="in between"):
        up._launch_kafka()
    assert moved.killed
    assert up._where().bootstrap == "127.0.0.1:9092"


def test_no_java_names_the_ways_out(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackTrouble) as told:
        find_java()
    assert "no Java" in told.value.message
    for way in ("openjdk-17", "--java-home", "--bootstrap"):
        assert way in told.value.hint


@pytest.mark.parametrize(
    ("release", "why"), [("11.0.2", "need 17"), ("1.8.0_392", "need 17"), ("24.0.1", "security manager")]
)
def test_a_java_that_does_not_fit_is_named_with_the_reason(tmp_path, release, why):
    with pytest.raises(StackTrouble) as told:
        find_java(java_home(tmp_path, release))
    assert why in told.value.message
    assert str(tmp_path) in told.value.message
    assert "--java-home" in told.value.hint


def test_java_17_needs_no_permission_for_the_security_manager_and_21_does(tmp_path):
    assert find_java(java_home(tmp_path / "a", "17.0.15")).security_manager_options == []
    assert find_java(java_home(tmp_path / "b", "21.0.1")).security_manager_options == ["-Djava.security.manager=allow"]


def test_missing_jars_tell_the_mirror_setting_and_the_folder_for_copies_by_hand(tmp_path):
    with pytest.raises(StackTrouble) as told:
        jars_of(KAFKA, JarSource(tmp_path))
    assert "kafka 4.3.1" in told.value.message
    assert "WATERCLOCK_STACK__MAVEN_URL" in told.value.hint
    assert str(tmp_path / "kafka") in told.value.hint
    assert KAFKA.main_jar in told.value.hint


def test_a_failing_maven_is_quoted_and_leaves_nothing_half_fetched(tmp_path, monkeypatch):
    checkout = tmp_path / "checkout"
    (checkout / "compose" / "cassandra").mkdir(parents=True)
    (checkout / "compose" / "cassandra" / "pom.xml").write_text("<project/>")
    mvn = tmp_path / "bin" / "mvn"
    mvn.parent.mkdir()
    mvn.write_text("#!/bin/sh\necho 'cannot reach the repository' >&2\nexit 1\n")
    mvn.chmod(0o755)
    monkeypatch.setenv("PATH", f"{mvn.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("waterclock.stack.jars._CHECKOUT", checkout)
    with pytest.raises(StackTrouble) as told:
        jars_of(CASSANDRA, JarSource())
    assert "cannot reach the repository" in told.value.message
    assert list((checkout / "compose" / "cassandra" / "target").iterdir()) == []


def checkout_with_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str = "") -> Path:
    """A checkout, and a Maven that brings the main jar; ``meanwhile`` is a line of shell that happens before that."""
    checkout = tmp_path / "checkout"
    (checkout / "compose" / "kafka").mkdir(parents=True)
    (checkout / "compose" / "kafka" / "pom.xml").write_text("<project/>")
    mvn = tmp_path / "bin" / "mvn"
    mvn.parent.mkdir()
    mvn.write_text(
        "#!/bin/sh\n"
        f'cp "$2" {tmp_path}/settings.xml\n{meanwhile}\n'
        'for word in "$@"; do case $word in -DoutputDirectory=*) out=${word#*=};; esac; done\n'
        f'mkdir -p "$out" && touch "$out/{KAFKA.main_jar}"\n'
    )
    mvn.chmod(0o755)
    monkeypatch.setenv("PATH", f"{mvn.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("waterclock.stack.jars._CHECKOUT", checkout)
    return checkout


def test_of_two_starts_that_fetch_at_once_the_slower_leaves_the_jars_from_which_the_other_runs(tmp_path, monkeypatch):
    lib = tmp_path / "checkout" / "compose" / "kafka" / "target" / "lib"
    quicker = f"mkdir -p {lib} && touch {lib}/{KAFKA.main_jar} {lib}/in-use.jar"
    checkout_with_maven(tmp_path, monkeypatch, meanwhile=quicker)
    assert jars_of(KAFKA, JarSource()) == lib
    assert sorted(path.name for path in lib.iterdir()) == ["in-use.jar", KAFKA.main_jar]
    assert list(lib.parent.iterdir()) == [lib]


def test_jars_that_cannot_be_put_anywhere_are_told_with_the_ways_out(tmp_path, monkeypatch):
    checkout = checkout_with_maven(tmp_path, monkeypatch)
    (checkout / "compose" / "kafka" / "target").write_text("where a folder should be")
    with pytest.raises(StackTrouble, match="could not be fetched") as told:
        jars_of(KAFKA, JarSource())
    assert "WATERCLOCK_STACK__MAVEN_URL" in told.value.hint


def test_fetched_jars_appear_all_at_once_and_through_the_mirror(tmp_path, monkeypatch):
    checkout = checkout_with_maven(tmp_path, monkeypatch)
    found = jars_of(KAFKA, JarSource(None, "http://mirror.example/maven?a&b"))
    assert found == checkout / "compose" / "kafka" / "target" / "lib"
    assert (found / KAFKA.main_jar).exists()
    assert "<url>http://mirror.example/maven?a&amp;b</url>" in (tmp_path / "settings.xml").read_text()


def test_little_memory_means_smaller_heaps_and_says_what_is_reduced():
    assert choose_heaps(8_000) == NORMAL
    small = choose_heaps(2_000)
    assert small == SMALL
    told = small.told(2_000)
    for part in ("2000 MB", f"{SMALL.kafka_mb} MB", f"instead of {NORMAL.kafka_mb}", f"{SMALL.memtable_mb}"):
        assert part in told
    assert choose_heaps(2_000, heap_mb=700).cassandra_mb == 700


@pytest.mark.parametrize(
    ("last_words", "step"),
    [
        ("java.net.BindException: Address already in use", "run the same command again"),
        ("java.lang.OutOfMemoryError: Java heap space", "WATERCLOCK_STACK__HEAP_MB"),
        ("No space left on device", "--data-dir"),
        ("something nobody has seen before", "log file"),
    ],
)
def test_last_words_that_are_known_have_their_own_next_step(last_words, step):
    assert step in known_cause(last_words)


def test_the_other_port_is_told_with_the_option_that_chooses_one():
    told = other_port("kafka", PickedPort(19_092, 9_092, Holder(7, "java kafka.Kafka")), "--kafka-port")
    assert told == (
        "kafka: port 9092 is taken by java kafka.Kafka (pid 7), using 19092 instead (or choose one with --kafka-port)"
    )
