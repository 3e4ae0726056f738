"""Makes ``waterclock_compiled`` (``make compiled``): the hand-written codecs of ``waterclock/wire``, compiled by mypyc.

The modules keep their full names, because compiled modules find each other by these; where their files lie is ours to
say (``waterclock/wire/__init__.py`` puts that folder before its own).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
MADE = HERE / "build" / "waterclock_compiled"

sys.path.insert(0, str(ROOT))

from waterclock.wire import COMPILED, digest_of_sources  # noqa: E402 - found by the path above

os.chdir(ROOT)  # mypyc names a module by its path from here
modules = mypycify(
    [f"waterclock/wire/{name}.py" for name in COMPILED],
    group_name="waterclock_compiled",
    target_dir=str(HERE / "build" / "c"),
)
os.chdir(HERE)  # and setuptools reads the pyproject.toml from here
for module in modules:
    module.name = module.name.replace("waterclock.wire.", "waterclock_compiled.wire.")
    module.sources = [os.path.relpath(source, HERE) for source in module.sources]
    module.depends = [os.path.relpath(header, HERE) for header in module.depends]

MADE.mkdir(parents=True, exist_ok=True)
(MADE / "__init__.py").write_text(
    f'"""Made by compiled/setup.py from the sources with this digest, and used with no others."""\n\n'
    f'DIGEST = "{digest_of_sources()}"\n'
)
setup(
    packages=["waterclock_compiled"],
    package_dir={"waterclock_compiled": os.path.relpath(MADE, HERE)},
    ext_modules=modules,
)
