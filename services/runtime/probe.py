"""A health check for containers that bring no other client: ``python -m services.runtime.probe URL`` ends 0 or 1."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from typing import Final

_TIMEOUT_S: Final = 4


def healthy(url: str) -> bool:
    """Tell whether a URL answers with 200."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


if __name__ == "__main__":
    sys.exit(0 if len(sys.argv) == 2 and healthy(sys.argv[1]) else 1)
