"""A crontab file, as cron(8) reads it: five fields or a macro, the user where the file has one, a line of shell.

A command of plain words with an absolute program becomes its argv; anything else goes to ``sh -c`` as it stands. What
follows an unescaped ``%`` is standard input, so it becomes the payload. Files are those of Vixie's family (Debian,
cronie, the BSDs); where they differ, a remark says what was assumed.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from typing import Any, NamedTuple

from .day_fields import vixie_days_differ
from .gathering import Gathering
from .naming import name_of_command

TIMEOUT = "1d"
"""cron waits for ever; this is the longest that a program may run here."""

_SHELL = "/bin/sh"
_ENV = re.compile(r"""(?:"(?P<d>[^"]*)"|'(?P<s>[^']*)'|(?P<n>[A-Za-z_][A-Za-z0-9_]*))\s*=\s*(?P<value>.*)\Z""")
_SPREAD = re.compile(r"(?<![^\s,])(?:(\d+)~(\d+)|~)(?=[\s,/]|\Z)")
_PLAIN = re.compile(r"/[A-Za-z0-9_./-]+(?:[ \t]+[A-Za-z0-9_./:@%+,=-]+)*[ \t]*\Z")
_FLAGS = re.compile(r"\A(?:-[nqs]\s+)+")
_PERCENT = re.compile(r"(?<!\\)%")


class _Line(NamedTuple):
    """One entry, taken apart."""

    number: int
    text: str
    cron: str
    user: str
    command: str
    is_unlogged: bool


def looks_like_system(path: str) -> bool:
    """Whether a file of this path has a user column: ``/etc/crontab``, and what lies in a folder ``cron.d``."""
    parts = path.split("/")
    return path.endswith("/etc/crontab") or "cron.d" in parts[:-1]


def read_crontab(text: str, gathering: Gathering, *, zone: str | None, has_user: bool) -> None:
    """All lines of a crontab. ``zone``: what cron's machine has; None: taken as UTC, and said."""
    _Reader(gathering, zone, has_user=has_user).read(text)


class _Reader:
    def __init__(self, gathering: Gathering, zone: str | None, *, has_user: bool) -> None:
        self._to = gathering
        self._zone_is_known = zone is not None
        self._has_guessed_zone = False
        self._zone = zone or "UTC"
        self._has_user = has_user
        self._shell = _SHELL
        self._names: Counter[str] = Counter()

    def read(self, text: str) -> None:
        for number, raw in enumerate(text.split("\n"), 1):  # cron knows no other end of a line: form feeds are text
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            if (setting := _ENV.match(line)) is not None:
                self._setting(number, setting)
            elif (entry := self._taken_apart(number, line)) is not None:
                self._entry(entry)
        self._about_the_file()

    def _setting(self, number: int, match: re.Match[str]) -> None:
        """A line ``NAME = value``: for the lines below it. Values are not repeated: they may be secret."""
        name = match["d"] or match["s"] or match["n"] or ""
        value = match["value"].strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        if name == "CRON_TZ":
            self._zone, self._zone_is_known = value, True
            self._to.note(number, f"CRON_TZ={value}", "it is the zone of the jobs below, as cronie reads it",
                          "Debian's cron ignores it: remove the line if yours does, and give --tz")  # fmt: skip
        elif name == "SHELL" and value.startswith("/"):
            self._shell = value
        elif name == "MAILTO":
            self._to.lost(number, "MAILTO", "output is not mailed, it is kept with the run",
                          "Read it by `waterclock run logs`; watch failures by `waterclock dlq list`")  # fmt: skip
        elif name == "PATH":
            self._to.lost(number, "PATH", "a program's PATH is a setting of the worker",
                          "Set shell.search_path where the workers of its pool run")  # fmt: skip
        else:
            self._to.lost(number, name, "a program has the environment that its worker gives it, and none of the job's",
                          "Set it in the command itself, or in a script that the command calls")  # fmt: skip

    def _taken_apart(self, number: int, line: str) -> _Line | None:
        entry = line.removeprefix("-")  # of the BSDs and SUSE
        schedule_words = 1 if entry.startswith("@") else 5
        words = entry.split(maxsplit=schedule_words + self._has_user)
        if len(words) <= schedule_words + self._has_user:
            form = "a schedule, a user and a command" if self._has_user else "a schedule and a command"
            self._to.left_out(number, line, f"it is no entry: cron wants {form}",
                              "Correct it; --form says whether lines have a user column")  # fmt: skip
            return None
        user = words[schedule_words] if self._has_user else ""
        return _Line(number, line, " ".join(words[:schedule_words]), user, words[-1], is_unlogged=entry != line)

    def _entry(self, line: _Line) -> None:
        cron = _SPREAD.sub(lambda m: f"H({m[1]}-{m[2]})" if m[1] else "H", line.cron)
        if (differs := vixie_days_differ(cron)) is not None:
            self._to.left_out(line.number, line.text, *differs)
            return
        command, stdin = _input_of(_FLAGS.sub("", line.command))
        argv = command.split() if _PLAIN.match(command) else [self._shell, "-c", command]
        document: dict[str, Any] = {"cron": cron, "zone": self._zone}
        document |= {"shell": {"argv": argv, "timeout": TIMEOUT}, "retry": False}
        if stdin is not None:
            document["payload_base64"] = base64.b64encode(stdin.encode()).decode()
        name = name_of_command(line.command, line.user)
        self._names[name] += 1
        if self._names[name] > 1:
            name = f"{name}-{self._names[name]}"  # one command at several times: numbered in the file's order
        if self._to.job(line.number, line.text, name, document):
            self._has_guessed_zone |= not self._zone_is_known
            self._tell(line, cron, has_stdin=stdin is not None)

    def _tell(self, line: _Line, cron: str, *, has_stdin: bool) -> None:
        """What became of the odder parts of an entry."""
        if cron != line.cron:
            # cronie's a~b is drawn when cron starts, H once for ever.
            self._to.note(line.number, line.cron, f"the random value is drawn from the job's id: {cron}",
                          "`waterclock job show` says which it is")  # fmt: skip
        if line.is_unlogged:
            self._to.lost(
                line.number, "- before the minute", "it keeps cron from logging the job", "Nothing: runs are kept"
            )
        if flags := _FLAGS.match(line.command):
            self._to.lost(line.number, flags[0].strip(), "a flag of the BSDs' cron for mail and logging",
                          "Nothing: runs and their output are kept")  # fmt: skip
        if has_stdin:
            self._to.note(line.number, "%", "what follows it is the program's standard input, as cron has it",
                          "It is the job's payload")  # fmt: skip
        if not line.user and line.command.split()[0] == "root":
            self._to.note(line.number, "root", "it is taken for the command, and in a system crontab it is the user",
                          "Give --form system if this is one")  # fmt: skip
        if line.user:
            self._to.lost(line.number, f"user {line.user}", "programs run as the user of their worker",
                          f"Run workers of a pool of its own as {line.user}, and give --pool")  # fmt: skip

    def _about_the_file(self) -> None:
        found = sorted({draft.document["shell"]["argv"][0] for draft in self._to.found().drafts})
        if not found:
            return
        programs = ", ".join(f'"{program}"' for program in found)
        self._to.note(0, "programs", "the jobs run programs by the shell executor, which is off by default",
                      f"Where their workers run: shell.enabled = true and shell.allow = [{programs}]")  # fmt: skip
        if self._shell in found or _SHELL in found:
            self._to.note(0, "sh -c", "a worker that may run a shell runs whatever a job says",
                          "Give these jobs a pool of their own (--pool), or put each command into a script and allow "
                          "that")  # fmt: skip
        self._to.note(0, "working folder", "cron starts a command in its user's home, a worker in shell.working_dir",
                      "Name files by their whole path")  # fmt: skip
        if self._has_guessed_zone:
            self._to.note(0, "time zone", "times are taken as UTC: a crontab does not say its machine's zone",
                          "Give --tz if that has another one")  # fmt: skip


def _input_of(command: str) -> tuple[str, str | None]:
    """(command, standard input) as cron splits them: at the first bare ``%``; the others are newlines."""
    first, *rest = _PERCENT.split(command)
    if not rest:
        return first.replace("\\%", "%"), None
    text = "\n".join(part.replace("\\%", "%") for part in rest)
    return first.replace("\\%", "%").rstrip(), text if text.endswith("\n") else f"{text}\n"
