"""Tell an error about the server's machine (disk full, no memory left) from an error about the call.

A server on a full disk answers every call with an error, and MCP has no field for whose fault that is. Scored
as the model's mistake, a full disk would teach the model not to use the tool.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_SIGNS = re.compile(
    r"\bENOSPC\b|no space left on device"
    r"|\bEDQUOT\b|disk quota exceeded"
    r"|database or disk is full"
    r"|\bENOMEM\b|cannot allocate memory"
    r"|\bE[MN]FILE\b|too many open files",
    re.IGNORECASE,
)
_PLAIN_ERROR = re.compile(r"\s*(?:\w+ ){0,3}(?:error|failed)\b", re.IGNORECASE)
_MAX_PLAIN_CHARS = 300


def is_exhausted(text: str, arguments: Mapping[str, Any], *, is_error: bool, is_read_only: bool) -> bool:
    """Return whether an answer says that the server ran out of disk, memory or open files.

    Some servers report errors as plain results. Those count only if they are short, begin like an error, and
    come from a tool that may write: what a tool reads may be a log of some other full disk. A message that
    also occurs in the call's own arguments is an echo of the model's words.
    """
    if not is_error and (is_read_only or len(text) > _MAX_PLAIN_CHARS or not _PLAIN_ERROR.match(text)):
        return False
    sign = _SIGNS.search(text)
    return sign is not None and sign[0].lower() not in json.dumps(arguments, ensure_ascii=False).lower()
