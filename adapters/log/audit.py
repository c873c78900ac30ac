"""The audit: fold the whole log, and decide every batch again at the place that it is based on (design section 5).

Two readings. The first only notes where batches say they were decided. The second folds, and at each such place decides
again with the batch's own time and number; where the batch then stands, its bytes must be those. The chain needs no
reading of its own: a batch names the digests of chain and state at its base, and one that names others than those that
everything before it folds to is found by the fold. So what was changed, dropped, moved or added lies before the first
such batch, and after the last one that was right.

Of a log whose front was cut no batch can be decided again until a new genesis comes. Its chain is taken from the first
signed checkpoint of what is still there, and compared from there on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

from adapters.log.checkpoints import Checkpoint
from adapters.log.drift import DriftReport
from adapters.log.follower import Follower
from adapters.log.port import Log
from events import canonical
from events.codec import Message, format_time, from_message
from events.records import Batch, Record, dump
from scheduling.decide import ENGINE, decide
from scheduling.state.fold import APPLIED, Fold

_CHUNK: Final = 1_000
_LISTED_MAX: Final = 20

#: Where a batch says that it was decided: incarnation of the log and place counted from its genesis.
Base: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be, at a position of the log."""

    position: int
    record: str
    problem: str


@dataclass
class AuditReport:
    """What an audit found. It passed if there are no ``findings``; they are in the order of the log.

    ``decisions`` were decided again and are equal, ``void`` are batches without effect by their reason, ``set_aside``
    are messages that are no records (the first few of ``set_aside_count``). ``checkpoints`` agree, the last of them
    stands at ``vouched_to`` and is of ``vouched_ms``: what comes after it nobody outside the log vouches for.
    ``unreachable`` checkpoints are of places before the log's front.
    """

    first: int = 0
    end: int = 0
    chain: str = ""
    state: str = ""
    decisions: int = 0
    void: Counter[str] = field(default_factory=Counter)
    set_aside: list[Finding] = field(default_factory=list)
    set_aside_count: int = 0
    findings: list[Finding] = field(default_factory=list)
    equal_at: int = 0
    checkpoints: int = 0
    vouched_to: int = -1
    vouched_ms: int = 0
    unreachable: int = 0
    drift: DriftReport | None = None

    def add_drift(self, drift: DriftReport) -> None:
        """Take what was found in comparing the log with its cluster into the report."""
        self.drift = drift
        self.findings += [Finding(found.position, found.record, found.problem) for found in drift.differences]
        self.findings.sort(key=lambda finding: finding.position)

    @property
    def passed(self) -> bool:
        return not self.findings


class _Asked(NamedTuple):
    """What it takes to decide a batch again."""

    time_ms: int
    batch: int
    stuck: tuple[str, ...]


async def verify(log: Log, checkpoints: Sequence[Checkpoint] = ()) -> AuditReport:
    """Audit everything that is on a log now, against checkpoints too. Raises LogError if it cannot be read."""
    first, end = await log.bounds()
    asked: dict[Base, list[_Asked]] = defaultdict(list)
    written: dict[int, bytes] = {}
    async for position, message in _messages(log, first, end):
        record = from_message(message)
        if isinstance(record, Record) and isinstance(batch := record.body, Batch):
            written[position] = sha256(message.value).digest()
            if batch.engine == ENGINE:
                again = _Asked(batch.time_ms, batch.batch, tuple(batch.stuck))
                asked[_incarnation(record), batch.base].append(again)
    auditor = _Auditor(asked, written, checkpoints, first)
    follower = Follower(log, auditor)
    auditor.adopt = follower.adopt
    if first:
        await follower.begin_at_front()
    while follower.position < end:
        await follower.advance(min(_CHUNK, end - follower.position))
    auditor.at_end(end, follower.chain)
    report = auditor.report
    if follower.blocked is not None:
        reason = f"{follower.blocked.why.reason} ({follower.blocked.why.type}): what follows cannot be judged"
        report.findings.append(Finding(follower.blocked.position, "", reason))
    report.findings.sort(key=lambda finding: finding.position)
    report.first, report.end = first, end
    report.chain, report.state = follower.chain, auditor.fold.digest()
    return report


async def _messages(log: Log, position: int, end: int) -> AsyncIterator[tuple[int, Message]]:
    while position < end:
        for found in await log.read(position, min(_CHUNK, end - position)):
            position = found[0] + 1
            yield found


def _incarnation(record: Record) -> str:
    return record.id.rsplit("/", 2)[-2]


class _Auditor:
    """Folds, decides again at every place that a batch is based on, and compares."""

    def __init__(
        self,
        asked: dict[Base, list[_Asked]],
        written: dict[int, bytes],
        checkpoints: Sequence[Checkpoint],
        first: int,
    ) -> None:
        self.fold = Fold()
        self.report = AuditReport()
        self.adopt: Callable[[str], None] = lambda _: None
        self._asked = asked
        self._written = written
        self._checkpoints: dict[int, list[Checkpoint]] = defaultdict(list)
        for checkpoint in checkpoints:
            self._checkpoints[checkpoint.position].append(checkpoint)
        self._first = first
        self._chain_known = not first
        self._unanchored: list[int] = []
        self._decided: dict[tuple[str, int, int, int], bytes] = {}

    def apply(self, position: int, record: Record, chain_before: str) -> str:
        """Fold one record; a batch with effect must be what is decided at its base."""
        self._vouch(position, chain_before)
        self._decide_again(chain_before)
        verdict = self.fold.apply(position, record, chain_before)
        self._chain_known |= self.fold.anchored
        if isinstance(record.body, Batch):
            self._judge(position, record, record.body, verdict)
        return verdict

    def set_aside(self, position: int, reason: str, chain_before: str = "") -> None:
        """Note a message that is no record."""
        self._vouch(position, chain_before)
        self._decide_again(chain_before)
        self.fold.set_aside(position, reason, chain_before)
        self.report.set_aside_count += 1
        if len(self.report.set_aside) < _LISTED_MAX:
            self.report.set_aside.append(Finding(position, "", reason))

    def at_end(self, end: int, chain: str) -> None:
        """Compare the end of the log, and find checkpoints of what is not on it any more: a cut tail."""
        self._vouch(end, chain)
        for position, found in sorted(self._checkpoints.items()):
            if position > end:
                when = format_time(found[0].time_ms)
                self._find(end, f"a checkpoint of {when} has {position} messages: the tail is cut")
            else:
                self.report.unreachable += len(found)
        if self._unanchored:
            count = len(self._unanchored)
            problem = f"{count} decisions from here on cannot be decided again: the beginning of the log is gone"
            self._find(self._unanchored[0], problem)
        if self._first == end:
            self._find(end, "the log is empty: there is nothing to vouch for")

    def _find(self, position: int, problem: str, record: str = "") -> None:
        self.report.findings.append(Finding(position, record, problem))

    def _vouch(self, position: int, chain: str) -> None:
        found = self._checkpoints.pop(position, ())
        for checkpoint in found:
            if not self._chain_known:
                self._chain_known, chain = True, checkpoint.chain
                self.adopt(chain)
            elif problem := self._contradiction(checkpoint, chain):
                self._find(position, problem)
            else:
                self.report.checkpoints += 1
                self.report.vouched_to, self.report.vouched_ms = position, checkpoint.time_ms

    def _contradiction(self, checkpoint: Checkpoint, chain: str) -> str:
        """Say how a checkpoint differs from what stands before its position; empty if it does not."""
        here = (self.fold.model.cluster, self.fold.model.incarnation)
        there = (checkpoint.cluster, checkpoint.incarnation)
        if self.fold.anchored and here != there:
            return f"the log is {'/'.join(here)} here, a checkpoint is of {'/'.join(there)}"
        if checkpoint.chain == chain:
            return ""
        since = max(self.report.vouched_to, self._first)
        return (
            f"the chain before it is {chain[:16]}..., a checkpoint of {format_time(checkpoint.time_ms)} has "
            f"{checkpoint.chain[:16]}...: the log was changed between positions {since} and {checkpoint.position}"
        )

    def _decide_again(self, chain: str) -> None:
        incarnation, place = self.fold.model.incarnation, self.fold.sequence
        for batch in self._asked.pop((incarnation, place), ()):
            again = decide(self.fold, batch.time_ms, chain, batch.batch, batch.stuck)
            key = (incarnation, place, batch.batch, batch.time_ms)
            self._decided[key] = canonical.encode(dump(again)) if again else b""

    def _judge(self, position: int, record: Record, batch: Batch, verdict: str) -> None:
        key = (_incarnation(record), batch.base, batch.batch, batch.time_ms)
        again = self._decided.pop(key, None)
        if not verdict.startswith(APPLIED):
            self._void(position, record, verdict)
            return
        problem = _difference(batch, again, self._written.get(position))
        if problem:
            self._find(position, problem, record.id)
        else:
            self.report.decisions += 1
            self.report.equal_at = position

    def _void(self, position: int, record: Record, verdict: str) -> None:
        """A batch of a superseded term or a repeated one is as it should be; one that saw another history is not."""
        reason = verdict.removeprefix("void: ")
        if reason.startswith(("diverged", "based on")):
            between = f"{self.report.equal_at} and {position}"
            self._find(position, f"{reason}; the log was changed between positions {between}", record.id)
            return
        if not self.fold.anchored:
            self._unanchored.append(position)
        self.report.void[reason.split(",")[0]] += 1


def _difference(batch: Batch, again: bytes | None, written: bytes | None) -> str:
    """Return how a batch differs from what is decided again; empty if it does not."""
    if batch.engine != ENGINE:
        return f"decided by engine {batch.engine}, which is not this one ({ENGINE})"
    if written is None:
        return "another record stood here when the audit began: the log was changed meanwhile"
    if again is None:
        return f"its base, place {batch.base}, was never reached"
    if not again:
        return "decided again, nothing new is found"
    if sha256(again).digest() == written:
        return ""
    mine = canonical.encode(dump(batch))
    if mine == again:
        return "decided again it is equal, but it is spelled in another way"
    place = next(
        (at for at, (one, two) in enumerate(zip(mine, again, strict=False)) if one != two), min(len(mine), len(again))
    )
    return f"decided again it differs from byte {place} on: it has {_near(mine, place)}, again {_near(again, place)}"


def _near(text: bytes, place: int) -> str:
    return text[max(0, place - 30) : place + 50].decode("ascii", "replace")
