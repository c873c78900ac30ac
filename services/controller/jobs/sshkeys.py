"""RSA key pairs for the ``ssh`` plugin (scheduling/J-8), as OpenSSH reads them: PKCS#1 PEM and an ``ssh-rsa`` line.

The keys join the pods of one job to each other; they are made once per job, and nothing is signed here.
"""

from __future__ import annotations

from services.controller.jobs.plugins import KeyPair

_BITS = 2048
_EXPONENT = 65537


def system(job_uid: str) -> KeyPair:
    """Return a new key pair made with the operating system's randomness."""
    # Only a job with the plugin needs it, and it takes a while to load.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(_EXPONENT, _BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(private.decode(), f"{public.decode()}\n")
