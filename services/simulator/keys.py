"""Key pairs of a simulation: not secret and the same each time, since nothing in a simulation logs in anywhere."""

from __future__ import annotations

from services.controller.jobs.plugins import KeyPair


def derived(uid: str) -> KeyPair:
    """Return the key pair of the job with this uid."""
    return KeyPair(f"simulated private key of {uid}\n", f"ssh-rsa simulated-public-key-of-{uid}\n")
