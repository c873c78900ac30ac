"""Times and durations as scenario files write them: RFC 3339, and ``1h30m``."""

from __future__ import annotations

import re
from datetime import UTC, datetime

#: 2026-01-01T00:00:00Z, where every scenario's clock stands at the start.
START_MS = 1_767_225_600_000

_DURATION = re.compile(r"(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)")


def duration_ms(text: object) -> int | None:
    """Return a duration (``s``, ``m``, ``h``, combined in falling order) in milliseconds, None if it is none."""
    found = _DURATION.fullmatch(text) if isinstance(text, str) and text else None
    if not found:
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000


def time_ms(text: object) -> int | None:
    """Return an RFC 3339 time as Unix milliseconds, None if it is none."""
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.upper().replace("Z", "+00:00"))
    except ValueError:
        return None
    return int(moment.timestamp() * 1000)


def time_text(moment_ms: int) -> str:
    """Return the RFC 3339 text of a time, whole seconds."""
    return datetime.fromtimestamp(moment_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
