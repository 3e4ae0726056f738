"""The environment as a source of settings: ``WATERCLOCK_A__B``, and ``..._FILE`` for what must not stand in it.

A variable that ends in ``_FILE`` names a file, whose text (without its last newline) is the value: passwords then stand
in a mounted secret instead of in the environment, which every child and every crash report sees. Only a name that leads
to a setting counts; ``WATERCLOCK_READY_FILE`` and settings whose own name ends in ``_file`` stay what they are.

How it fails: a file that cannot be read, or a setting that is given twice, raises RequestError at start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, get_origin

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource
from pydantic_settings.exceptions import SettingsError

from waterclock.model.errors import RequestError

_SUFFIX = "_file"
_SECRET_MAX = 65_536


TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
"""A topic's name, as the brokers take it."""


class EnvAndFiles(EnvSettingsSource):
    """pydantic's source of the environment, with every ``..._FILE`` read first."""

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return with_files(super()._load_env_vars(), self.env_prefix, self.settings_cls)


def with_files(variables: Mapping[str, str | None], prefix: str, settings: type[BaseModel]) -> Mapping[str, str | None]:
    """``variables`` (lower case), those that name a file replaced by what is in it. Raises RequestError."""
    start = prefix.lower()
    found = dict(variables)
    for name, value in variables.items():
        bare = name.removesuffix(_SUFFIX)
        if bare == name or not name.startswith(start) or not value:
            continue
        if _is_setting(settings, name[len(start) :]) or not _is_setting(settings, bare[len(start) :]):
            continue
        if bare in variables:
            raise RequestError(
                f"{bare.upper()} and {name.upper()} are both set", hint="Leave one of them out: they may differ"
            )
        del found[name]
        found[bare] = _text_of(name, Path(value))
    return found


def _is_setting(model: type[BaseModel], path: str) -> bool:
    """Whether ``a__b`` leads to a setting. Below a table of free keys (``kafka.client``) every one word does."""
    word, _, rest = path.partition("__")
    field = model.model_fields.get(word)
    if field is None:
        return False
    inner = field.annotation
    if not rest:
        return True
    if get_origin(inner) is dict:
        return not rest.endswith(_SUFFIX)
    return isinstance(inner, type) and issubclass(inner, BaseModel) and _is_setting(inner, rest)


def _text_of(name: str, path: Path) -> str:
    try:
        if path.stat().st_size > _SECRET_MAX:
            raise RequestError(f"{name.upper()}: {path} has over {_SECRET_MAX} bytes", hint="Name the secret's file")
        return path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{name.upper()}: {path} cannot be read: {error}", hint="Check path and rights") from None


def unreadable(error: SettingsError, fields: Mapping[str, FieldInfo]) -> RequestError:
    """A variable that is no JSON where only JSON would do. ``fields``: of the settings, by name."""
    found = re.search(r'field "(\w+)"', str(error))
    if found is None or found[1] not in fields:
        return RequestError(f"A setting in the environment cannot be read: {error}", hint="Write JSON")
    name, group = f"WATERCLOCK_{found[1].upper()}", fields[found[1]].annotation
    if isinstance(group, type) and issubclass(group, BaseModel):
        first = f"{name}__{next(iter(group.model_fields)).upper()}"
        return RequestError(f"{name} is a group of settings, and its value is none", pointer=f"/{found[1]}",
                            hint=f"Set one of them, as {first}, or give all of them as a JSON object")  # fmt: skip
    return RequestError(f"The value of {name} cannot be read", pointer=f"/{found[1]}", hint="Write JSON")
