"""What keeps something waiting, in one word: how reasons are counted."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """The cause of a reason. It stands on the log beside the text, so nobody has to read the text for it."""

    CONFIGURATION = "no-configuration"
    MISSING = "queue-or-group-missing"
    GATED = "gated"
    REQUEST = "request-refused"
    CLOSED = "queue-takes-none"
    QUEUE = "queue-limit"
    CLUSTER = "cluster-overcommitted"
    RELEASED = "reservation-released"
    MEMBERS = "too-few-members"
    LEAVING = "waits-for-leaving"
    GANG = "waits-for-gang"
    NODES = "no-node"
    BINDING = "bind-failed"
