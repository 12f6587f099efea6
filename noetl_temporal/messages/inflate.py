"""Decompresses data up to a limit: a few KB of deflate can expand to gigabytes."""

from __future__ import annotations

import zlib

from noetl_temporal.limits import UNPACKED_BYTES

__all__ = ["InflateError", "decompress"]


class InflateError(ValueError):
    """The data is incomplete, or too large after decompression."""


def decompress(data: bytes, bits: int = zlib.MAX_WBITS, dictionary: bytes = b"") -> bytes:
    """Return the decompressed data. ``bits`` is zlib's ``wbits``: negative for raw deflate.

    Raises InflateError, zlib.error.
    """
    stream = zlib.decompressobj(bits, dictionary) if dictionary else zlib.decompressobj(bits)
    content = stream.decompress(data, UNPACKED_BYTES + 1)
    if len(content) > UNPACKED_BYTES:
        raise InflateError(f"{len(data):,} bytes decompress to over {UNPACKED_BYTES:,}")
    if not stream.eof:
        raise InflateError(f"{len(data):,} bytes of compressed data are incomplete")
    return content
