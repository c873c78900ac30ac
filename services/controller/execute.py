"""Carries actions out on the API server, one by one, and says what became of them.

Answers are put into the mirror at once, so that the next reconciliation sees them. A refusal is told where the action
says and is tried again later; a conflict, or no answer, stops the list, because what follows was meant for another
state of the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from adapters.cluster.mirror import Change, Mirror
from adapters.cluster.port import ApiError, ApiUnknown, ClusterApi
from events.canonical import Json
from events.reading import meta, name_of, namespace_of, uid_of
from services.controller.actions import WRITES_MAX, Action, Create, Delete, Emit, Forget, Later, Patch
from services.controller.objects import Ref
from services.controller.recorder import Recorder


@dataclass
class Outcome:
    """What became of a list of actions: what changed, whether the API refused something, whether to come again."""

    changes: list[Change] = field(default_factory=list)
    acted: bool = False
    refused: bool = False
    #: What the others depended on was refused: nothing that was asked for has happened.
    undone: bool = False
    why: str = ""
    #: What was to be outlived is there still. Its end need not be told, if it comes before its kind is listed anew.
    early: bool = False
    again: bool = False
    #: There is more to write for the object than it may at once.
    more: bool = False
    laters: list[Later] = field(default_factory=list)
    forget: list[Ref] = field(default_factory=list)


class Executor:
    """The only place of the controllers that writes."""

    def __init__(self, api: ClusterApi, mirror: Mirror, recorder: Recorder, grace_s: int | None) -> None:
        self._api, self._mirror, self._recorder, self._grace_s = api, mirror, recorder, grace_s
        #: uids of the objects whose deletion was ours.
        self.deleted: set[str] = set()

    async def run(self, actions: Sequence[Action], now_ms: int) -> Outcome:
        """Carry out the actions in their order."""
        outcome, writes = Outcome(), 0
        for action in actions:
            counts = isinstance(action, Create | Delete)
            if counts and writes == WRITES_MAX:
                outcome.more = True
                break
            try:
                await self._one(action, now_ms, outcome)
                writes += counts
            except ApiUnknown:
                outcome.again = True
                break
            except ApiError as error:
                if error.status == 404 and isinstance(action, Patch | Delete):
                    continue  # it is gone; the watch will say so
                if error.status == 409 and error.reason != "AlreadyExists":
                    outcome.again = True
                    break
                if await self._refused(action, error, now_ms, outcome):
                    break
        return outcome

    async def _one(self, action: Action, now_ms: int, outcome: Outcome) -> None:
        if isinstance(action, Later):
            outcome.laters.append(action)
        elif isinstance(action, Forget):
            outcome.forget.append(action.ref)
        elif isinstance(action, Emit):
            await self._recorder.record(action, now_ms)
        else:
            await self._write(action, outcome)
            outcome.acted = True

    async def _write(self, action: Create | Patch | Delete, outcome: Outcome) -> None:
        if isinstance(action, Create):
            outcome.changes += self._mirror.learn(action.kind, await self._create(action))
        elif isinstance(action, Patch):
            merge = _with_preconditions(action)
            kind, namespace, name = action.ref
            item = await self._api.patch(kind, namespace, name, merge, action.subresource)
            outcome.changes += self._mirror.learn(kind, item)
        else:
            outcome.changes += await self._delete(action, outcome)

    async def _delete(self, action: Delete, outcome: Outcome) -> list[Change]:
        kind, namespace, name = action.ref
        for owner, uid in action.outlived:
            if await self._is_there(owner, uid):
                outcome.early = True
                return []
        asked_before = action.uid in self.deleted
        self.deleted.add(action.uid)
        try:
            await self._api.delete(kind, namespace, name, uid=action.uid, grace_s=self._grace_s)
        except ApiError as error:
            if not asked_before:  # an earlier request, whose answer was lost, may have been the one
                self.deleted.discard(action.uid)
            if error.status != 404:
                raise
        return self._mirror.expect_end(kind, namespace, name, action.uid)

    async def _is_there(self, ref: Ref, uid: str) -> bool:
        try:
            return uid_of(await self._api.get(*ref)) == uid
        except ApiError as error:
            if error.status != 404:
                raise
            return False

    async def _create(self, action: Create) -> Json:
        try:
            return await self._api.create(action.kind, action.item)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return await self._api.get(action.kind, namespace_of(action.item), name_of(action.item))

    async def _refused(self, action: Action, error: ApiError, now_ms: int, outcome: Outcome) -> bool:
        """Tell of a refusal; True if the rest of the list must wait."""
        outcome.refused, outcome.why = True, error.message
        if isinstance(action, Create | Patch | Delete) and action.refused is not None:
            told = await self.run(action.refused(error.message), now_ms)
            outcome.changes += told.changes
        outcome.undone = isinstance(action, Create | Patch) and action.must
        return outcome.undone


def _with_preconditions(action: Patch) -> Json:
    conditions = {"uid": action.uid, "resourceVersion": action.version}
    given = {key: value for key, value in conditions.items() if value}
    if not given:
        return action.merge
    return {**action.merge, "metadata": {**meta(action.merge), **given}}
