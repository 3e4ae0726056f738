"""Names of imported jobs: from what they do, unique, and the same at every import.

A name follows from its own entry and never from its place in the file, so that an entry that is added, moved or
removed renames no other. Where the text is not a name by itself, a short hash of all of it is part of the name.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from waterclock.model.ids import NAME_MAX

_NAME = re.compile(rf"[a-z0-9][a-z0-9._-]{{0,{NAME_MAX - 1}}}\Z")
_STRANGE = re.compile(r"[^a-z0-9._-]+")
_LEADING_CD = re.compile(r"\s*cd\s+\S+\s*(?:&&|;)\s*")
_COMMAND_ENDS = re.compile(r"[|;&<>]")
_SLUG_MAX = 60
_WORDS_MAX = 3


def name_of(text: str) -> str:
    """``text`` where it is a name; else what a person recognises of it, and a hash of it."""
    return text if _NAME.match(text) else _marked(_slug(text), text)


def name_of_command(command: str, user: str = "") -> str:
    """The name of a shell command: its first words without folders and options, and a hash of it and of its user."""
    first = _COMMAND_ENDS.split(_LEADING_CD.sub("", command, count=1), maxsplit=1)[0]
    telling = [word for word in first.split() if not word.startswith("-") and "=" not in word]
    words = [word.strip("\"'()").rstrip("/").rpartition("/")[2] for word in telling[:_WORDS_MAX]]
    return _marked(_slug("-".join(word for word in words if word)), f"{user}\n{command}")


def _slug(text: str) -> str:
    return _STRANGE.sub("-", text.lower()).strip("._-")[:_SLUG_MAX].strip("._-")


def _marked(slug: str, whole: str) -> str:
    mark = blake2b(whole.encode(errors="surrogatepass"), digest_size=3).hexdigest()  # JSON may hold halves of pairs
    return f"{slug}-{mark}" if slug else f"job-{mark}"
