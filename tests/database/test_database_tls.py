"""TLS to a real PostgreSQL that takes nothing else: what is checked, what is refused, what a URL can say about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from parts.postgres import ELSEWHERE, UNNAMED, Postgres
from sqlalchemy import text

from adapters.database.engine import DatabaseError, migrate, open_database


@pytest.fixture(scope="module")
def secure() -> Iterator[Postgres]:
    server = Postgres(secure=True)
    server.start()
    yield server
    server.stop()


def encrypted(url: str) -> bool:
    """Bring the tables about, and tell whether the server says that the connection is encrypted."""
    engine = open_database(url)
    try:
        migrate(engine)
        with engine.connect() as connection:
            return bool(connection.scalar(text("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")))
    finally:
        engine.dispose()


@pytest.mark.parametrize("host", ["127.0.0.1", ELSEWHERE])
def test_the_right_authority_and_name_are_enough(secure: Postgres, host: str) -> None:
    assert encrypted(secure.url(host=host, sslrootcert=str(secure.ca_file)))


def test_another_authority_is_refused(secure: Postgres, tmp_path: Path) -> None:
    other = Postgres(secure=True)
    other.start()
    try:
        with pytest.raises(DatabaseError, match="certificate verify failed"):
            encrypted(secure.url(host=ELSEWHERE, sslrootcert=str(other.ca_file)))
    finally:
        other.stop()


def test_a_server_that_no_authority_of_the_system_knows_is_refused_off_loopback(secure: Postgres) -> None:
    with pytest.raises(DatabaseError, match="certificate verify failed"):
        encrypted(secure.url(host=ELSEWHERE))


def test_a_name_that_is_not_in_the_certificate_is_refused_unless_the_url_leaves_it_out(secure: Postgres) -> None:
    ca_file = str(secure.ca_file)
    with pytest.raises(DatabaseError, match=f"certificate is not valid for '{UNNAMED}'"):
        encrypted(secure.url(host=UNNAMED, sslrootcert=ca_file))
    assert encrypted(secure.url(host=UNNAMED, sslrootcert=ca_file, sslmode="verify-ca"))
    assert encrypted(secure.url(host=UNNAMED, sslmode="require"))


def test_a_server_that_demands_tls_refuses_plain_text(secure: Postgres) -> None:
    for url in (secure.url(), secure.url(host=ELSEWHERE, sslmode="disable")):
        with pytest.raises(DatabaseError, match="no encryption"):
            encrypted(url)


def test_a_server_without_tls_is_refused_off_loopback_unless_the_url_allows_it(postgres: Postgres) -> None:
    postgres.drop()
    with pytest.raises(DatabaseError, match=r"(?i)ssl"):
        encrypted(postgres.url(host=ELSEWHERE))
    assert not encrypted(postgres.url(host=ELSEWHERE, sslmode="disable"))
    assert not encrypted(postgres.url()), "on loopback nothing has to be encrypted"
