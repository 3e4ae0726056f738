"""Avro's primitives, for the two records that every run passes through several times (run events, work records).

All other kinds go through fastavro, which is also the judge of this file: property tests demand equal bytes. Readers
take the whole record and a place in it, and return the value and the place after it. They refuse what fastavro lets
pass: negative lengths, varints that are too long. Reading past the end raises IndexError, or shows at the end of the
record, where the last place must be its length; ``codec.py`` turns all of that into UndecodableRecord.
"""

from __future__ import annotations

from functools import lru_cache

_VARINT_BYTES_MAX = 10


def _varint(number: int) -> bytes:
    zigzag = number << 1 ^ number >> 63
    out = bytearray()
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


_SMALL = [_varint(n) for n in range(8_192)]

put_instant = lru_cache(maxsize=8_192)(_varint)
"""As ``put_long``, for numbers that come again soon: the instants of a herd."""


def put_long(number: int) -> bytes:
    """An int or long (zigzag varint)."""
    return _SMALL[number] if 0 <= number < 8_192 else _varint(number)


def put_bytes(value: bytes) -> bytes:
    """Bytes, or a string that is encoded already."""
    return put_long(len(value)) + value


def put_text(text: str) -> bytes:
    """A string."""
    value = text.encode()
    return put_long(len(value)) + value


def get_long(data: bytes, at: int) -> tuple[int, int]:
    """An int or long."""
    byte = data[at]
    at += 1
    if byte < 128:
        return byte >> 1 ^ -(byte & 1), at
    zigzag = byte & 127
    for shift in range(7, 7 * _VARINT_BYTES_MAX, 7):
        byte = data[at]
        at += 1
        zigzag |= (byte & 127) << shift
        if byte < 128:
            break
    else:
        raise ValueError("a number of more than 10 bytes")
    if zigzag >> 64:
        raise ValueError("a number of more than 64 bits")
    return zigzag >> 1 ^ -(zigzag & 1), at


@lru_cache(maxsize=8_192)
def _leading_long(start: bytes) -> tuple[int, int]:
    return get_long(start, 0)


def get_instant(data: bytes, at: int) -> tuple[int, int]:
    """As ``get_long``, for numbers that come again soon: instants of this age take 8 bytes, and a herd shares them."""
    try:
        number, size = _leading_long(data[at : at + 8])
    except IndexError:
        return get_long(data, at)
    return number, at + size


def get_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes."""
    size, at = get_long(data, at)
    if size < 0:
        raise ValueError("a negative length")
    end = at + size
    return data[at:end], end


def get_text(data: bytes, at: int) -> tuple[str, int]:
    """A string."""
    size = data[at]
    at += 1
    if size & 129:  # more than one byte long, or negative
        value, end = get_bytes(data, at - 1)
        return value.decode(), end
    end = at + (size >> 1)
    return data[at:end].decode(), end
