"""A response's body as a value: JSON where it is JSON, text where it is text, base64 otherwise.

The server chooses all of it, so nothing here may take long, and no codec is used because a header names it: Python has
some that take quadratic time (punycode) or unpack (zlib). Bodies of more than 64 KB are read in a thread. Most of that
work keeps the interpreter to itself, so the bounds of json_limits.py and of the body's size are what limits it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from concurrent.futures import ThreadPoolExecutor

from noetl_activities.errors import ConfigError
from noetl_activities.json_limits import excess
from noetl_activities.tool import Json

__all__ = ["CHARSETS", "data_of"]

_AT_ONCE = 64 * 1024
"""Bytes that are read without a thread, in about a millisecond."""

_THREADS = ThreadPoolExecutor(2, "http-data")
"""Of their own: names are looked up in asyncio's, where those of a slow name server may take all."""

_CHARSET = re.compile(r"""charset\s*=\s*["']?([a-z0-9_.:-]{1,40})""", re.IGNORECASE)
_MAX_TYPE_CHARS = 200
"""Of a Content-Type that are read. ``email.message`` would decode an extended parameter in any codec."""

_DEFAULT = "utf-8"
CHARSETS = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "us-ascii": "ascii",
    "ascii": "ascii",
    "utf-16": "utf-16",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "utf-32": "utf-32",
    "utf-32le": "utf-32-le",
    "utf-32be": "utf-32-be",
    "latin-1": "latin-1",
    "latin1": "latin-1",
    **{f"iso-8859-{part}": f"iso8859-{part}" for part in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16)},
    **{f"windows-{page}": f"cp{page}" for page in range(1250, 1259)},
    **{f"cp{page}": f"cp{page}" for page in range(1250, 1259)},
    "koi8-r": "koi8-r",
    "koi8-u": "koi8-u",
    "shift-jis": "shift_jis",
    "windows-31j": "cp932",
    "euc-jp": "euc_jp",
    "euc-kr": "euc_kr",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "gb18030": "gb18030",
    "big5": "big5",
}
"""The charsets that are read, as they are named (in lower case, with ``-`` for ``_``), and Python's codecs of them, all
in C and linear. Others are read as UTF-8."""


async def data_of(body: bytes | bytearray, content_type: str) -> Json:
    """Raises ConfigError for JSON beyond the limits."""
    if not body:
        return None
    if len(body) <= _AT_ONCE:
        return _data(body, content_type[:_MAX_TYPE_CHARS])
    return await asyncio.get_running_loop().run_in_executor(_THREADS, _data, body, content_type[:_MAX_TYPE_CHARS])


def _data(body: bytes | bytearray, content_type: str) -> Json:
    try:
        text = body.decode(_codec(content_type))
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}
    if "json" in content_type.lower():
        return _json(text, is_declared=True)
    return _json(text, is_declared=False) if text.lstrip()[:1] in ("{", "[") else text


def _codec(content_type: str) -> str:
    found = _CHARSET.search(content_type)
    return _DEFAULT if found is None else CHARSETS.get(found[1].lower().replace("_", "-"), _DEFAULT)


def _json(text: str, *, is_declared: bool) -> Json:
    """The value; the text where it is no JSON, or where nobody said that it is and it has too much to be parsed."""
    problem = excess(text)
    if problem is not None and is_declared:
        raise ConfigError(f"the response is JSON with {problem}: request less at a time")
    try:
        return text if problem is not None else json.loads(text)
    except ValueError:
        return text
