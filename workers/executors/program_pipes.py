"""The three pipes between a worker and one program.

What must hold: they are pipes. What the loop makes for a subprocess are sockets, and then no program can open
``/dev/stdin``, ``/dev/stdout`` or ``/dev/stderr`` (ENXIO: a script ends at its ``> /dev/stderr``), and ``bash -c``
takes its caller for a remote shell and reads the ``.bashrc`` of the worker's user. Every descriptor is given back by
``close``, also while something that has left the program's group holds the other ends.

How it fails: OSError where there are no more descriptors.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial


class Pipes:
    """``theirs``: the ends that the program gets, its input, output and errors. Made by ``opened``."""

    stdin: asyncio.StreamWriter

    def __init__(self, limit: int) -> None:
        self.stdout = asyncio.StreamReader(limit)
        self.stderr = asyncio.StreamReader(limit)
        self.theirs: list[int] = []
        self._writing: asyncio.WriteTransport | None = None
        self._reading: list[asyncio.ReadTransport] = []

    @classmethod
    async def opened(cls, limit: int) -> Pipes:
        """Ready for a program; ``limit``: of what is read ahead of it. Raises OSError."""
        pipes = cls(limit)
        try:
            await pipes._open()
        except BaseException:
            pipes.give_theirs_up()
            pipes.close()
            raise
        return pipes

    def give_theirs_up(self) -> None:
        """The program has its own copies by now, or there is none."""
        while self.theirs:
            os.close(self.theirs.pop())

    def close(self) -> None:
        """Give our ends up, whatever is still in them."""
        if self._writing is not None:
            self._writing.abort()  # a close would wait until somebody has read what was not taken
        for transport in self._reading:
            transport.close()

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        theirs, ours = os.pipe()
        self.theirs.append(theirs)
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())  # of a writer: what makes ``drain`` wait
        self._writing, _ = await loop.connect_write_pipe(lambda: protocol, os.fdopen(ours, "wb", 0))
        self.stdin = asyncio.StreamWriter(self._writing, protocol, None, loop)
        for reader in (self.stdout, self.stderr):
            ours, theirs = os.pipe()
            self.theirs.append(theirs)
            made = partial(asyncio.StreamReaderProtocol, reader)
            reading, _ = await loop.connect_read_pipe(made, os.fdopen(ours, "rb", 0))
            self._reading.append(reading)
