"""A real PostgreSQL 15 for tests: Debian's binaries, a cluster of its own in a temporary folder.

PostgreSQL refuses to run as root, so there it runs as the user that Debian's package brings.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from parts.cache import free_port, missing
from sqlalchemy import create_engine, text

_BINARIES = Path("/usr/lib/postgresql/15/bin")
_START_S = 60.0
_USER = "gpuledger"


class Postgres:
    """One server. It can be killed and started again on the same port and data; ``stop`` removes the data."""

    def __init__(self) -> None:
        if not (_BINARIES / "postgres").exists():
            missing("PostgreSQL", f"needs Debian's postgresql-15 ({_BINARIES})")
        self._owner = self._owner_of_server()
        self._home = Path(tempfile.mkdtemp(prefix="gpuledger-postgres-"))
        if self._owner:
            os.chown(self._home, pwd.getpwnam(self._owner).pw_uid, -1)
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "gpuledger") -> str:
        """Return the URL of a database."""
        return f"postgresql://{_USER}@127.0.0.1:{self._port}/{database}"

    def start(self) -> None:
        """Start the server and wait until it answers; the first time with an empty database."""
        data = self._home / "data"
        fresh = not data.exists()
        if fresh:
            command = [_BINARIES / "initdb", "-D", data, "-U", _USER, "--auth=trust", "-E", "UTF8", "--no-sync"]
            subprocess.run(command, user=self._owner, capture_output=True, check=True, cwd=self._home)
        command = [_BINARIES / "postgres", "-D", data, "-p", str(self._port), "-k", self._home, "-h", "127.0.0.1"]
        with (self._home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, user=self._owner, stdout=log, stderr=log, cwd=self._home)
        deadline = time.monotonic() + _START_S
        while subprocess.run(self._ready(), capture_output=True, check=False).returncode:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start: {(self._home / 'server.log').read_text()[-2000:]}")
            time.sleep(0.1)
        if fresh:
            self.execute("CREATE DATABASE gpuledger")

    def drop(self, database: str = "gpuledger") -> None:
        """Drop a database under its users, and make an empty one in its place."""
        self.execute(f"DROP DATABASE {database} WITH (FORCE)")
        self.execute(f"CREATE DATABASE {database}")

    def execute(self, statement: str) -> None:
        """Run a statement in the maintenance database, outside of a transaction."""
        url = self.url("postgres").replace("postgresql:", "postgresql+pg8000:")
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()

    def kill(self) -> None:
        """End the server at once, without a last checkpoint, as a crash does."""
        if self._process is not None:
            subprocess.run([_BINARIES / "pg_ctl", "stop", "-D", self._home / "data", "-m", "immediate"],
                           user=self._owner, capture_output=True, check=False, cwd=self._home)  # fmt: skip
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End the server and remove its data."""
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    def _ready(self) -> list[str]:
        return [str(_BINARIES / "pg_isready"), "-h", "127.0.0.1", "-p", str(self._port), "-q"]

    @staticmethod
    def _owner_of_server() -> str | None:
        """Return who runs the server: ourselves unless we are root, who may not."""
        if os.getuid() != 0:
            return None
        try:
            return pwd.getpwnam("postgres").pw_name
        except KeyError:
            missing("PostgreSQL", "needs the user postgres, since root may not run it")
            return None
