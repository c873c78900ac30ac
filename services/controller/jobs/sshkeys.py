"""RSA key pairs for the ``ssh`` plugin (scheduling/J-8), as OpenSSH reads them: PKCS#1 PEM and an ``ssh-rsa`` line.

Plain arithmetic on Python integers: two random primes (trial division, then Miller-Rabin), the usual exponent, DER by
hand. The randomness comes from outside: ``system`` takes the operating system's, a test may give its own. The keys
join the pods of one job to each other; they are made once per job, and nothing is signed here.
"""

from __future__ import annotations

import base64
import math
import secrets
import struct
from collections.abc import Callable

from services.controller.jobs.plugins import KeyPair

#: Returns a whole number of this many random bits.
RandomBits = Callable[[int], int]

_BITS = 2048
_EXPONENT = 65537
_ROUNDS = 24  # of Miller-Rabin; a random number of this size that passes is composite with chance below 2**-128
_SMALL = [n for n in range(3, 2000, 2) if all(n % d for d in range(3, math.isqrt(n) + 1, 2))]


def system(job_uid: str) -> KeyPair:
    """Return a new key pair made with the operating system's randomness."""
    return generate(secrets.randbits)


def generate(random_bits: RandomBits, bits: int = _BITS) -> KeyPair:
    """Return a new key pair of ``bits`` (an even number)."""
    while True:
        p, q = _prime(random_bits, bits // 2), _prime(random_bits, bits // 2)
        order = math.lcm(p - 1, q - 1)
        if p != q and math.gcd(_EXPONENT, order) == 1:
            return KeyPair(_private(max(p, q), min(p, q), order), _public(p * q))


def _prime(random_bits: RandomBits, bits: int) -> int:
    """A random prime whose two highest bits are set, so that the product of two has its full length."""
    while True:
        candidate = random_bits(bits) | 3 << (bits - 2) | 1
        if all(candidate % small for small in _SMALL) and _passes(candidate, random_bits, bits):
            return candidate


def _passes(candidate: int, random_bits: RandomBits, bits: int) -> bool:
    odd, twos = candidate - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(_witness(2 + random_bits(bits - 2), candidate, odd, twos) for _ in range(_ROUNDS))


def _witness(base: int, candidate: int, odd: int, twos: int) -> bool:
    value = pow(base, odd, candidate)
    if value in (1, candidate - 1):
        return True
    for _ in range(twos - 1):
        value = value * value % candidate
        if value == candidate - 1:
            return True
    return False


def _private(p: int, q: int, order: int) -> str:
    secret = pow(_EXPONENT, -1, order)
    numbers = (0, p * q, _EXPONENT, secret, p, q, secret % (p - 1), secret % (q - 1), pow(q, -1, p))
    body = b"".join(_der(0x02, _unsigned(number)) for number in numbers)
    text = base64.b64encode(_der(0x30, body)).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----", ""])


def _public(modulus: int) -> str:
    parts = (b"ssh-rsa", _unsigned(_EXPONENT), _unsigned(modulus))
    blob = b"".join(struct.pack(">I", len(part)) + part for part in parts)
    return f"ssh-rsa {base64.b64encode(blob).decode()}\n"


def _unsigned(number: int) -> bytes:
    """A positive integer, big end first, with room for the sign bit."""
    return number.to_bytes(number.bit_length() // 8 + 1, "big")


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content
