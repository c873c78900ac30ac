"""Signed checkpoints: what the log was at some place, vouched for with a key and kept outside the log.

A chain alone does not show a cut tail, nor a history that was rewritten as a whole with all its digests. Whoever holds
the file of checkpoints and the public key can tell: each line names a position and the chain's digest before it, signed
with Ed25519. The private key belongs to the process that writes them and to nobody else; keep the file where who can
change the log cannot change it (docs/guides/audit.md).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from adapters.clock import Clock
from adapters.log.errors import CheckpointError
from events import canonical

EVERY_RECORDS: Final = 1_000
EVERY_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One line: before ``position`` (an offset) of this incarnation the chain's digest was ``chain``."""

    cluster: str
    incarnation: str
    position: int
    chain: str
    time_ms: int
    key: str
    signature: str = ""

    def signed_bytes(self) -> bytes:
        """Return what the signature is made over: everything else, canonical."""
        return canonical.encode({name: value for name, value in asdict(self).items() if name != "signature"})


class Place(Protocol):
    """Where a reader stands: a follower of the log."""

    @property
    def position(self) -> int: ...

    @property
    def chain(self) -> str: ...


def key_name(public: Ed25519PublicKey) -> str:
    """Return the short name of a key: the beginning of its digest."""
    return sha256(public.public_bytes_raw()).hexdigest()[:16]


def make_key(path: Path) -> Ed25519PrivateKey:
    """Make a private key, readable by its owner only, with its public half beside it. Raises CheckpointError."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(private)
        path.with_suffix(".pub").write_bytes(public)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error
    return key


def read_private(path: Path) -> Ed25519PrivateKey:
    """Read a private key in PEM. Raises CheckpointError."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path}: no private key: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise CheckpointError(f"{path}: the key is not an Ed25519 key")
    return key


def read_public(path: Path) -> Ed25519PublicKey:
    """Read a public key in PEM. Raises CheckpointError."""
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: no public key: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise CheckpointError(f"{path}: the key is not an Ed25519 key")
    return key


def read(path: Path, public: Ed25519PublicKey) -> list[Checkpoint]:
    """Return the checkpoints of a file, every signature checked. Raises CheckpointError naming the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    return [_checked(path, number, line, public) for number, line in enumerate(lines, 1) if line.strip()]


def _checked(path: Path, number: int, line: str, public: Ed25519PublicKey) -> Checkpoint:
    try:
        found = Checkpoint(**json.loads(line))
        public.verify(bytes.fromhex(found.signature), found.signed_bytes())
    except InvalidSignature as error:
        raise CheckpointError(f"{path}: line {number}: the signature is not by this key") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: line {number}: no checkpoint: {error}") from error
    return found


class CheckpointWriter:
    """Appends a checkpoint after so many records, or after so much time if there was any record.

    ``identity`` returns the cluster and the incarnation of the log that ``place`` reads.
    """

    def __init__(
        self,
        path: Path,
        key: Ed25519PrivateKey,
        clock: Clock,
        place: Place,
        identity: Callable[[], tuple[str, str]],
        *,
        every_records: int = EVERY_RECORDS,
        every_ms: int = EVERY_MS,
    ) -> None:
        self._path, self._key, self._clock, self._place = path, key, clock, place
        self._identity = identity
        self._every_records, self._every_ms = every_records, every_ms
        self._last_position, self._last_ms = -1, 0

    async def step(self) -> bool:
        """Write a checkpoint if one is due; True if one was written. Raises OSError."""
        position, now = self._place.position, self._clock.now_ms()
        news = position - self._last_position
        if news <= 0 or (news < self._every_records and now - self._last_ms < self._every_ms):
            return False
        self.write()
        return True

    def write(self) -> Checkpoint:
        """Write a checkpoint of the present place, durable when this returns. Raises OSError."""
        cluster, incarnation = self._identity()
        plain = Checkpoint(
            cluster,
            incarnation,
            self._place.position,
            self._place.chain,
            self._clock.now_ms(),
            key_name(self._key.public_key()),
        )
        signed = {**asdict(plain), "signature": self._key.sign(plain.signed_bytes()).hex()}
        with self._path.open("ab+") as file:
            file.write(_line_end(file) + canonical.encode(signed) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._last_position, self._last_ms = plain.position, plain.time_ms
        return Checkpoint(**signed)


def _line_end(file: BinaryIO) -> bytes:
    """Return what ends a last line that a crash cut short, so that it spoils no other."""
    if not file.seek(0, os.SEEK_END):
        return b""
    file.seek(-1, os.SEEK_END)
    return b"" if file.read(1) == b"\n" else b"\n"
