"""Converts the body of a response to a value: parsed JSON, text, or base64 if the body is not text.

The server controls the input, so all work is bounded, and codecs are allow-listed: some of Python's codecs take
quadratic time (punycode) or decompress (zlib). Bodies of more than 64 KB are converted in a thread. Most of that work
holds the GIL, so json_limits.py and the maximum size of a body limit its time.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from concurrent.futures import ThreadPoolExecutor

from noetl_activities.errors import ConfigError
from noetl_activities.json_limits import exceeded_limit
from noetl_activities.tool import Json

__all__ = ["CHARSETS", "parse_body"]

_INLINE_BYTES = 64 * 1024
"""Maximum size of a body that is converted without a thread, in about a millisecond."""

_THREADS = ThreadPoolExecutor(2, "http-data")
"""Separate from asyncio's default executor, whose threads a slow name server may occupy."""

_CHARSET = re.compile(r"""charset\s*=\s*["']?([a-z0-9_.:-]{1,40})""", re.IGNORECASE)
_MAX_TYPE_CHARS = 200
"""Characters of a Content-Type that are parsed. ``email.message`` is not used, as it decodes parameters with any codec.
"""

_DEFAULT_CODEC = "utf-8"
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
"""Charset, in lower case with ``-`` instead of ``_`` -> Python codec that is implemented in C and takes linear time.
Other charsets are decoded as UTF-8.
"""


async def parse_body(body: bytes | bytearray, content_type: str, *, as_text: bool = False) -> Json:
    """Return the value of a body; ``as_text``: do not parse JSON. Raises ConfigError for JSON beyond the limits."""
    if not body:
        return None
    if len(body) <= _INLINE_BYTES:
        return _parse_body(body, content_type[:_MAX_TYPE_CHARS], as_text)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_THREADS, _parse_body, body, content_type[:_MAX_TYPE_CHARS], as_text)


def _parse_body(body: bytes | bytearray, content_type: str, as_text: bool) -> Json:
    try:
        text = body.decode(_codec(content_type))
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}
    if as_text:
        return text
    if "json" in content_type.lower():
        return _parse_json(text, is_declared=True)
    return _parse_json(text, is_declared=False) if text.lstrip()[:1] in ("{", "[") else text


def _codec(content_type: str) -> str:
    match = _CHARSET.search(content_type)
    return _DEFAULT_CODEC if match is None else CHARSETS.get(match[1].lower().replace("_", "-"), _DEFAULT_CODEC)


def _parse_json(text: str, *, is_declared: bool) -> Json:
    """Parse JSON; return the text if it is not JSON, or if it exceeds the limits and was not declared as JSON."""
    limit = exceeded_limit(text)
    if limit is not None and is_declared:
        raise ConfigError(f"the response is JSON with {limit}: request less at a time")
    try:
        return text if limit is not None else json.loads(text)
    except ValueError:
        return text
