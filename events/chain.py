"""The hash chain: one digest for everything up to a place on the log (design section 3).

Every reader computes it over every record that stands there, the void ones and those set aside included, so two readers
with equal digests have read the same history. Positions are not in it: a log that is exported and restored elsewhere
keeps its chain. A batch and an ``opened`` record name the digest of everything before the place that they rest on.
"""

from __future__ import annotations

import hashlib

from events.codec import Message

#: The digest of an empty log.
GENESIS: bytes = hashlib.sha256(b"gpuledger.chain.v1").digest()


def extend(previous: bytes, message: Message) -> bytes:
    """Return the digest of everything up to and with a message, given the digest of everything before it.

    Each part is preceded by its length, so no byte can move from one part to another unseen. The order of the headers
    is not content.
    """
    parts = [previous]
    for name, value in sorted((name.encode("utf-8", "surrogatepass"), value) for name, value in message.headers):
        parts += (len(name).to_bytes(4, "big"), name, len(value).to_bytes(4, "big"), value)
    parts += (b"\xff\xff\xff\xff", message.value)
    return hashlib.sha256(b"".join(parts)).digest()
