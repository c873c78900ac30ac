"""A real PostgreSQL 15 for tests: Debian's binaries, a cluster of its own in a temporary folder.

PostgreSQL refuses to run as root, so there it runs as the user that Debian's package brings. It listens on 127.0.0.1
and on ``ELSEWHERE``, which is as good as a network for those who take loopback for something else. A ``secure`` one has
a certificate for both and takes no connection over TCP without TLS.
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
ELSEWHERE, UNNAMED = "127.0.0.2", "127.0.0.3"


class Postgres:
    """One server. It can be killed and started again on the same port and data; ``stop`` removes the data."""

    def __init__(self, *, secure: bool = False) -> None:
        self._secure = secure
        if not (_BINARIES / "postgres").exists():
            missing("PostgreSQL", f"needs Debian's postgresql-15 ({_BINARIES})")
        self._owner = self._owner_of_server()
        self._home = Path(tempfile.mkdtemp(prefix="gpuledger-postgres-"))
        if self._owner:
            os.chown(self._home, pwd.getpwnam(self._owner).pw_uid, -1)
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def ca_file(self) -> Path:
        """The certificate that a client of a secure server trusts."""
        return self._home / "server.crt"

    def url(self, database: str = "gpuledger", host: str = "127.0.0.1", **words: str) -> str:
        """Return the URL of a database, with libpq's words in it."""
        query = "&".join(f"{name}={value}" for name, value in words.items())
        return f"postgresql://{_USER}@{host}:{self._port}/{database}" + (f"?{query}" if query else "")

    def start(self) -> None:
        """Start the server and wait until it answers; the first time with an empty database."""
        data = self._home / "data"
        fresh = not data.exists()
        if fresh:
            command = [_BINARIES / "initdb", "-D", data, "-U", _USER, "--auth=trust", "-E", "UTF8", "--no-sync"]
            subprocess.run(command, user=self._owner, capture_output=True, check=True, cwd=self._home)
            if self._secure:
                self._demand_tls(data)
        hosts = f"127.0.0.1,{ELSEWHERE},{UNNAMED}"
        command = [_BINARIES / "postgres", "-D", data, "-p", str(self._port), "-k", self._home, "-h", hosts]
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
        socket = self._home / f".s.PGSQL.{self._port}"
        url = f"postgresql+pg8000://{_USER}@/postgres?unix_sock={socket}"
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

    def _demand_tls(self, data: Path) -> None:
        names = f"subjectAltName=IP:127.0.0.1,IP:{ELSEWHERE}"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=server"]
        files = ["-addext", names, "-keyout", "server.key", "-out", "server.crt"]
        subprocess.run([*command, *files], user=self._owner, capture_output=True, check=True, cwd=self._home)
        (self._home / "server.key").chmod(0o600)
        with (data / "postgresql.conf").open("a") as config:
            config.write(f"ssl = on\nssl_cert_file = '{self.ca_file}'\nssl_key_file = '{self._home / 'server.key'}'\n")
        (data / "pg_hba.conf").write_text("local all all trust\nhostssl all all 0.0.0.0/0 trust\n")

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
