"""Read the body of a response in pieces, with limits.

Compressed data may expand a thousandfold, so a body is decompressed 64 KB at a time, and its size is checked after each
piece. At most one content encoding is decoded, as the expansions of nested encodings multiply. Between pieces, control
returns to the event loop, for other calls and the timeout.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from typing import Protocol

import httpx

__all__ = ["ACCEPT_ENCODING", "read_body"]

_PIECE_BYTES = 64 * 1024
"""Bytes of a body that are decompressed at a time."""

_GZIP, _ZLIB, _RAW_DEFLATE = zlib.MAX_WBITS | 16, zlib.MAX_WBITS, -zlib.MAX_WBITS
_ENCODINGS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}

ACCEPT_ENCODING = "gzip, deflate"


async def read_body(response: httpx.Response, limit: int) -> bytearray:
    """Read until the body ends or has more than ``limit`` bytes.

    Raises httpx.HTTPError, also if the server sends far more bytes than they decompress to, possibly without an end.
    """
    decoder = _decoder(response)
    body, received_bytes = bytearray(), 0
    async for chunk in response.aiter_raw():
        received_bytes += len(chunk)
        for piece in decoder.pieces(chunk):
            body += piece
            await asyncio.sleep(0)
            if len(body) > limit:
                return body
        if received_bytes > 2 * limit + _PIECE_BYTES:
            raise httpx.DecodingError(f"{received_bytes:,} bytes unpack to {len(body):,}")
    return body


class _Decoder(Protocol):
    def pieces(self, part: bytes) -> Iterator[bytes]:
        """Yield the decompressed pieces of a part. Raises httpx.DecodingError."""
        ...


class _Identity:
    """Passes on a body without a content encoding."""

    def pieces(self, part: bytes) -> Iterator[bytes]:
        yield part


class _Inflate:
    """Decompresses gzip or deflate. Some servers send deflate without the zlib header."""

    def __init__(self, bits: int) -> None:
        self._may_be_raw = bits == _ZLIB
        self._stream = zlib.decompressobj(bits)

    def pieces(self, part: bytes) -> Iterator[bytes]:
        piece = self._first_piece(part)
        while piece or self._stream.unconsumed_tail:
            yield piece
            piece = self._next_piece(self._stream.unconsumed_tail)

    def _first_piece(self, part: bytes) -> bytes:
        try:
            return self._next_piece(part)
        except httpx.DecodingError:
            if not self._may_be_raw:
                raise
            self._stream = zlib.decompressobj(_RAW_DEFLATE)
            return self._next_piece(part)
        finally:
            self._may_be_raw = False

    def _next_piece(self, data: bytes) -> bytes:
        if self._stream.eof:
            return b""
        try:
            return self._stream.decompress(data, _PIECE_BYTES)
        except zlib.error as error:
            raise httpx.DecodingError(str(error)) from error


def _decoder(response: httpx.Response) -> _Decoder:
    """Return the decoder for the content encoding; a body of an unknown encoding is not decoded. Raises
    httpx.DecodingError for several encodings.
    """
    names = [name.strip().lower() for name in response.headers.get("content-encoding", "").split(",")]
    encodings = [name for name in names if name not in ("", "identity")]
    if len(encodings) > 1:
        raise httpx.DecodingError(f"the response has {len(encodings)} content encodings: at most one is supported")
    bits = _ENCODINGS.get(encodings[0]) if encodings else None
    return _Identity() if bits is None else _Inflate(bits)
