"""Reads a response's body within bounds, a piece at a time.

A piece of the wire may unpack to a thousand times its size, so a body is unpacked 64 KB at a time, and each piece is
counted before the next is made. At most one content encoding is undone: encodings on top of each other multiply. Other
calls of the process get their turn between pieces, and a timeout its chance.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from typing import Protocol

import httpx

__all__ = ["ACCEPT_ENCODING", "read_body"]

_PIECE = 64 * 1024
"""Bytes of a body that are unpacked at a time."""

_GZIP, _ZLIB, _RAW = zlib.MAX_WBITS | 16, zlib.MAX_WBITS, -zlib.MAX_WBITS
_ENCODINGS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}

ACCEPT_ENCODING = "gzip, deflate"


async def read_body(response: httpx.Response, enough: int) -> bytearray:
    """Read until the body ends or has more than ``enough`` bytes. Raises httpx.HTTPError, also where it has far more
    bytes on the wire than it unpacks to, as it would have without end.
    """
    decoder = _decoder(response)
    body, received = bytearray(), 0
    async for part in response.aiter_raw():
        received += len(part)
        for piece in decoder.pieces(part):
            body += piece
            await asyncio.sleep(0)
            if len(body) > enough:
                return body
        if received > 2 * enough + _PIECE:
            raise httpx.DecodingError(f"{received:,} bytes unpack to {len(body):,}")
    return body


class _Decoder(Protocol):
    def pieces(self, part: bytes) -> Iterator[bytes]:
        """What the part comes to. Raises httpx.DecodingError."""
        ...


class _Identity:
    def pieces(self, part: bytes) -> Iterator[bytes]:
        yield part


class _Unpacked:
    """Undoes gzip or deflate, which some servers send without the header of zlib."""

    def __init__(self, bits: int) -> None:
        self._may_be_raw = bits == _ZLIB
        self._stream = zlib.decompressobj(bits)

    def pieces(self, part: bytes) -> Iterator[bytes]:
        piece = self._first(part)
        while piece or self._stream.unconsumed_tail:
            yield piece
            piece = self._next(self._stream.unconsumed_tail)

    def _first(self, part: bytes) -> bytes:
        try:
            return self._next(part)
        except httpx.DecodingError:
            if not self._may_be_raw:
                raise
            self._stream = zlib.decompressobj(_RAW)
            return self._next(part)
        finally:
            self._may_be_raw = False

    def _next(self, data: bytes) -> bytes:
        if self._stream.eof:
            return b""
        try:
            return self._stream.decompress(data, _PIECE)
        except zlib.error as error:
            raise httpx.DecodingError(str(error)) from error


def _decoder(response: httpx.Response) -> _Decoder:
    """Of the one encoding. One that is not known is left as it is. Raises httpx.DecodingError for several."""
    named = [one.strip().lower() for one in response.headers.get("content-encoding", "").split(",")]
    encodings = [one for one in named if one not in ("", "identity")]
    if len(encodings) > 1:
        raise httpx.DecodingError(f"the response has {len(encodings)} content encodings: at most one is supported")
    bits = _ENCODINGS.get(encodings[0]) if encodings else None
    return _Identity() if bits is None else _Unpacked(bits)
