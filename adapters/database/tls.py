"""TLS to PostgreSQL, asked for in the URL with libpq's words: ``sslmode`` and ``sslrootcert``.

Off loopback a connection is encrypted and the server's certificate and name are checked, unless the URL says otherwise:
``verify-ca`` leaves the name out, ``require`` checks nothing, and ``disable`` says that the network is ours alone. On
loopback and on a socket of the same machine nothing is encrypted unless the URL asks for it.
"""

from __future__ import annotations

import ssl
from typing import Any, Final

from sqlalchemy import URL

from adapters.database.errors import DatabaseError

MODES: Final = ("disable", "require", "verify-ca", "verify-full")
_LOOPBACK: Final = ("", "localhost", "127.0.0.1", "::1")


def secured(url: URL) -> tuple[URL, dict[str, Any]]:
    """Return the URL without libpq's words, and what the driver is given for them. Raises DatabaseError."""
    mode, root = _word(url, "sslmode"), _word(url, "sslrootcert")
    if mode and mode not in MODES:
        raise DatabaseError(f"database URL: sslmode {mode!r}: must be one of {', '.join(MODES)}")
    plain = url.difference_update_query(("sslmode", "sslrootcert"))
    local = (url.host or "") in _LOOPBACK or "unix_sock" in url.query
    mode = mode or ("disable" if local and not root else "verify-full")
    # Left to itself the driver tries TLS without any check, and goes on without it if the server has none.
    return plain, {"ssl_context": False if mode == "disable" else _context(mode, root)}


def _word(url: URL, name: str) -> str:
    found = url.query.get(name, "")
    return found if isinstance(found, str) else found[-1]


def _context(mode: str, root: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=root or None)
    except (OSError, ssl.SSLError) as error:
        raise DatabaseError(f"database URL: sslrootcert {root}: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if mode != "verify-full":
        context.check_hostname = False
    if mode == "require":
        context.verify_mode = ssl.CERT_NONE
    return context
