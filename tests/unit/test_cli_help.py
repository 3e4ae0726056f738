"""What the command line says of itself, beside what it does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from waterclock import cli

MARKUP = re.compile(r"\[[a-z#/@][^\[\]]*\]")
"""What Rich takes for markup, and so prints nothing of."""


def tree(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """A command, and all that are below it."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from tree(below, f"{path} {name}")


COMMANDS = dict(each for name in cli._ENTRIES for each in tree(cli._load(name), name))


def test_no_help_text_loses_a_word_in_brackets() -> None:
    texts: dict[str, str | None] = {name: entry.help for name, entry in cli._ENTRIES.items()}
    for path, command in COMMANDS.items():
        texts[path] = command.help
        texts |= {f"{path} {parameter.name}": getattr(parameter, "help", None) for parameter in command.params}
        texts |= {f"{path} {parameter.name} metavar": parameter.metavar for parameter in command.params}
    assert len(texts) > 300
    assert {place: text for place, text in texts.items() if MARKUP.search(text or "")} == {}


@pytest.mark.parametrize(("path", "option"), [("backfill create", "revision"), ("job rollback", "expect")])
def test_a_number_that_stands_for_something_else_is_not_shown_as_the_default(path: str, option: str) -> None:
    (parameter,) = (each for each in COMMANDS[path].params if each.name == option)
    assert parameter.default == 0
    assert not parameter.show_default
    assert "stands" in parameter.help


def test_a_command_without_commands_is_no_group() -> None:
    assert [path for path, command in COMMANDS.items() if getattr(command, "commands", None) == {}] == []
    assert [each.name for each in COMMANDS["demo"].params if each.name != "help"] == [
        "unattended",
        "kafka_port",
        "cql_port",
        "api_port",
        "began_s",
    ]


def test_the_group_of_dags_says_the_same_in_the_list_and_by_itself() -> None:
    assert cli._ENTRIES["dag"].help == COMMANDS["dag"].help
