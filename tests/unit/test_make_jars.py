"""``make jars`` with something else in the place of Maven: where jars come from, and where they lie in the end."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

MAVEN = """\
#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" != -s ] || cp "$2" "$SEEN"; shift; done
for server in kafka cassandra; do
  mkdir -p compose/$server/target/fetching && touch compose/$server/target/fetching/new.jar
done
"""


@pytest.mark.parametrize("name", ["plain", "My Projects"])
def test_jars_are_swapped_in_whole_wherever_the_clone_lies(tmp_path, name):
    clone, maven = tmp_path / name, tmp_path / "bin" / "mvn"
    shutil.copytree(ROOT / "compose", clone / "compose", ignore=shutil.ignore_patterns("target"))
    shutil.copy(ROOT / "Makefile", clone)
    old = clone / "compose" / "kafka" / "target" / "lib"
    old.mkdir(parents=True)
    (old / "old.jar").touch()
    maven.parent.mkdir()
    maven.write_text(MAVEN)
    maven.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{maven.parent}:{os.environ['PATH']}",
        "SEEN": str(tmp_path / "settings.xml"),
        "WATERCLOCK_STACK__MAVEN_URL": "http://mirror.example/maven?a&b",
    }
    done = subprocess.run(["make", "jars"], cwd=clone, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for server in ("kafka", "cassandra"):
        target = clone / "compose" / server / "target"
        assert [path.relative_to(target).as_posix() for path in sorted(target.rglob("*"))] == ["lib", "lib/new.jar"]
    assert "<url>http://mirror.example/maven?a&amp;b</url>" in (tmp_path / "settings.xml").read_text()
