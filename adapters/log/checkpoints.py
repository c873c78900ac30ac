"""Signed checkpoints: what the log was at some place, vouched for with a key and kept outside the log.

A chain alone does not show a cut tail, nor a history that was rewritten as a whole with all its digests. Whoever holds
the file of checkpoints and the public key can tell: each line names a position and the chain's digest before it, signed
with Ed25519. The private key belongs to the process that writes them and to nobody else; keep the file where who can
change the log cannot change it (docs/guides/audit.md).
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from adapters.clock import Clock
from adapters.log.errors import CheckpointError
from events import canonical

EVERY_RECORDS: Final = 1_000
EVERY_MS: Final = 60_000
#: No line of a file of checkpoints is longer.
_LINE_BYTES_MAX: Final = 10_000
_OTHERS: Final = stat.S_IRWXO | stat.S_IWGRP


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


#: The fields of a line and the types of their values.
_TYPES: Final = {"cluster": str, "incarnation": str, "position": int, "chain": str, "time_ms": int, "key": str,
                 "signature": str}  # fmt: skip


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
    """Make a private key, readable by its owner only, with its public half beside it. Raises CheckpointError.

    Neither file may be there: a key that was lost or mixed up cannot vouch for anything any more.
    """
    beside = path.with_suffix(".pub")
    if beside == path:
        raise CheckpointError(f"{path}: a private key is not named .pub, its public half is")
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    try:
        _write_new(path, private, 0o600)
        try:
            _write_new(beside, public, 0o644)
        except OSError:
            path.unlink()
            raise
    except OSError as error:
        raise CheckpointError(f"{error.filename}: {error.strerror}; no key was made") from error
    return key


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that must not be there yet, durable when this returns."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_private(path: Path) -> Ed25519PrivateKey:
    """Read a private key in PEM. Raises CheckpointError, also if others than owner and group could have it."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & _OTHERS:
            raise CheckpointError(f"{path}: mode {mode:04o} lets others at the private key; chmod 0600 (or 0440)")
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CheckpointError(f"{path}: no private key: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise CheckpointError(f"{path}: the key is not an Ed25519 key")
    return key


def read_public(path: Path) -> Ed25519PublicKey:
    """Read a public key in PEM. Raises CheckpointError."""
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise CheckpointError(f"{path}: no public key: {error}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise CheckpointError(f"{path}: the key is not an Ed25519 key")
    return key


def read(path: Path, *keys: Ed25519PublicKey, note: Callable[[str], None] = lambda _: None) -> list[Checkpoint]:
    """Return the checkpoints of a file, every signature checked. Raises CheckpointError naming the line.

    A crash can leave a line that is cut short. It vouches for nothing; ``note`` is told that it was passed over.
    """
    by_name = {key_name(key): key for key in keys}
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            content = json.loads(line[:_LINE_BYTES_MAX]) if line.strip() else None
        except (ValueError, RecursionError):
            note(f"{path}: line {number} is no JSON and was passed over")
            continue
        if content is not None:
            found.append(_checked(f"{path}: line {number}", content, by_name))
    if not found:
        raise CheckpointError(f"{path}: holds no checkpoint")
    return found


def _checked(where: str, content: object, keys: Mapping[str, Ed25519PublicKey]) -> Checkpoint:
    """Return one checkpoint, its signature checked."""
    if not isinstance(content, dict) or {name: type(value) for name, value in content.items()} != _TYPES:
        raise CheckpointError(f"{where}: no checkpoint, which has {', '.join(sorted(_TYPES))}")
    found = Checkpoint(**content)
    key = keys.get(found.key)
    if key is None:
        raise CheckpointError(f"{where}: the signature is by key {found.key[:16]!r}, not by {' or '.join(keys)}")
    try:
        key.verify(bytes.fromhex(found.signature), found.signed_bytes())
    except (InvalidSignature, ValueError) as error:
        raise CheckpointError(f"{where}: the signature is not by key {found.key}") from error
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
        news, now = self._place.position - self._last_position, self._clock.now_ms()
        if news < self._every_records and now - self._last_ms < self._every_ms:
            return False
        return self.finish()

    def finish(self) -> bool:
        """Write a checkpoint of what none speaks of yet, as at an orderly end. Raises OSError.

        There is nothing to vouch for before a log has begun: it is of no cluster yet.
        """
        _, incarnation = self._identity()
        if not incarnation or self._place.position <= self._last_position:
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
