"""What a controller wants done: values, carried out by ``execute`` in their order.

A reconciliation returns what is missing between the world and what should be; when it returns nothing the object is at
rest. Each action names the object that it is for, so that a refusal can be told there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from events.canonical import Json
from events.kinds import Kind
from services.controller.objects import Ref

#: So many objects are made or deleted in a row for one, then others have their turn.
WRITES_MAX = 100


@dataclass(frozen=True)
class Create:
    """Create an object. ``refused`` says what to do when the API server refuses it (message in).

    With ``must`` the actions after it are carried out only if it was created or is there already; what asked for the
    list is asked again if not.
    """

    kind: Kind
    item: Json
    refused: Callable[[str], Sequence[Action]] | None = field(default=None, compare=False)
    must: bool = False


@dataclass(frozen=True)
class Patch:
    """Apply a JSON merge patch; with ``uid`` only to that object, with ``version`` only to that version.

    ``refused`` and ``must`` as in ``Create``.
    """

    ref: Ref
    merge: Json
    subresource: str = ""
    uid: str = ""
    version: str = ""
    refused: Callable[[str], Sequence[Action]] | None = field(default=None, compare=False)
    must: bool = False


@dataclass(frozen=True)
class Delete:
    """Delete an object, if it still has this uid. ``refused`` as in ``Create``.

    With ``outlived`` only if the API server says that none of these owners (each with its uid) is there any more.
    """

    ref: Ref
    uid: str
    refused: Callable[[str], Sequence[Action]] | None = field(default=None, compare=False)
    outlived: tuple[tuple[Ref, str], ...] = ()


@dataclass(frozen=True)
class Emit:
    """Record an Event on an object; the same again only raises its count.

    With ``once`` it is recorded only if the last one of this reason on the object said something else.
    """

    ref: Ref
    uid: str
    type: str
    reason: str
    message: str
    once: bool = False


@dataclass(frozen=True)
class Later:
    """Reconcile the object again at ``due_ms``, with this request if there is one; nothing is asked of the API."""

    ref: Ref
    due_ms: int
    request: object | None = None


@dataclass(frozen=True)
class Forget:
    """Drop the delayed requests of the object: another action has been taken."""

    ref: Ref


Action: TypeAlias = Create | Patch | Delete | Emit | Later | Forget
