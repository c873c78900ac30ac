"""Records to messages and back: CloudEvents in Kafka's binary mode (headers ``ce_*``, JSON body).

Writing is exact: one record has one spelling (``events.canonical``), and what could not be read again is refused before
it is written. Reading never raises: a message is a record, or it is *set aside* with the reason. Two cases differ:

- bytes that cannot be read and types that nobody here knows are set aside and counted; the world goes on.
- an unknown version of a known type comes from a newer writer whose meaning we lack. Nothing may be decided over it,
  unless its writer marked it as ignorable (header ``ce_ignorable``).

Reading is strict (no coercion, one spelling, no float, no key twice), so that two readers can never see two contents
in the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, Final, NoReturn, cast

from pydantic import ValidationError

from events import canonical, upcasting
from events.canonical import Json
from events.records import BODIES, Body, Record, Role

#: The largest message, headers included (the topic's ``max.message.bytes`` is 8 MiB, with Kafka's own frame in it).
MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024 - 16 * 1024
#: How deep a body may be nested.
DEPTH_MAX: Final = 100

_EPOCH: Final = datetime(1970, 1, 1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_ROLES: Final[dict[str, Role]] = {"w": "watcher", "s": "scheduler", "b": "binder"}
#: The end of a record's id: role, term and number, each in its one spelling and below 10^18.
_PLACE: Final = re.compile(r"/([wsb])(0|[1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,17})")
_REASON_CHARACTERS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Message:
    """What a home of the log stores: headers and value, opaque to it."""

    headers: tuple[tuple[str, bytes], ...]
    value: bytes


@dataclass(frozen=True, slots=True)
class SetAside:
    """A message that is no record for us: why, its type as far as it is known, and whether one may pass over it."""

    reason: str
    type: str = ""
    ignorable: bool = True


class NotWritable(ValueError):
    """A record that may not go on the log: too large, too deep, or with a time that no calendar has."""


class _Unreadable(Exception):
    """Why a message is set aside."""


def to_message(record: Record, cluster: str, *, ignorable: bool = False) -> Message:
    """Return the one message that a record is written as. Raises NotWritable."""
    return CODEC.to_message(record, cluster, ignorable=ignorable)


def from_message(message: Message) -> Record | SetAside:
    """Return the record that a message holds, in its type's newest version. Never raises."""
    return CODEC.from_message(message)


def record_id(cluster: str, incarnation: str, role: Role, term: int, number: int) -> str:
    """Return the deterministic id of a record: ``<cluster>/<incarnation>/<role initial><term>.<number>``."""
    return f"{cluster}/{incarnation}/{role[0]}{term}.{number}"


def format_time(time_ms: int) -> str:
    """Return Unix milliseconds as RFC 3339 in UTC with three decimals. Raises NotWritable outside years 1 to 9999."""
    try:
        return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds") + "Z"
    except OverflowError:
        raise NotWritable(f"time_ms {time_ms}: no such time in the calendar") from None


def parse_time(text: str) -> int:
    """Return what ``format_time`` was given. Raises ValueError for any other spelling."""
    if len(text) != 24 or text[-1] != "Z":
        raise ValueError(f"time {text[:40]!r}: not RFC 3339 in UTC with milliseconds")
    return (datetime.fromisoformat(text[:-1]) - _EPOCH) // _MILLISECOND


class Codec:
    """The record types that one reader knows, and the steps from their older versions."""

    def __init__(
        self,
        bodies: Iterable[type[Body]] = BODIES,
        steps: Mapping[tuple[str, int], upcasting.Step] = upcasting.STEPS,
    ) -> None:
        self._steps = steps
        self._exact: dict[str, type[Body]] = {}
        self._newest: dict[str, tuple[int, type[Body]]] = {}
        for body in bodies:
            parts = upcasting.split(body.TYPE)
            if parts is None:
                raise ValueError(f"{body.__name__}.TYPE {body.TYPE!r}: no version at its end")
            self._exact[body.TYPE] = body
            self._newest[parts[0]] = (parts[1], body)

    def versions(self) -> dict[str, int]:
        """Return the newest version of every known type: what a term's ``reads`` and ``writes`` say."""
        return {name: version for name, (version, _) in sorted(self._newest.items())}

    def to_message(self, record: Record, cluster: str, *, ignorable: bool = False) -> Message:
        """As the function of this name."""
        try:
            value = canonical.encode(record.body.model_dump(exclude_defaults=True))
        except (ValueError, TypeError, RecursionError) as error:
            raise NotWritable(f"{record.subject or record.id}: {error}") from None
        if _depth_above(value, DEPTH_MAX):
            raise NotWritable(f"{record.subject or record.id}: body is nested deeper than {DEPTH_MAX}")
        headers = [
            ("ce_specversion", b"1.0"),
            ("ce_id", _utf8(record.id)),
            ("ce_source", _utf8("gpuledger/" + cluster)),
            ("ce_type", record.body.TYPE.encode()),
            ("ce_time", format_time(record.time_ms).encode()),
            ("content-type", b"application/json"),
        ]
        if record.subject:
            headers.append(("ce_subject", _utf8(record.subject)))
        if ignorable:
            headers.append(("ce_ignorable", b"true"))
        message = Message(tuple(headers), value)
        if (size := size_of(message)) > MESSAGE_BYTES_MAX:
            raise NotWritable(
                f"{record.subject or record.id}: {size} bytes, above the {MESSAGE_BYTES_MAX} of a message"
            )
        return message

    def from_message(self, message: Message) -> Record | SetAside:
        """As the function of this name."""
        headers = dict(message.headers)
        type_name = headers.get("ce_type", b"").decode("utf-8", "replace")[:200]
        try:
            body_type, version = self._known(type_name)
        except _Unreadable as refusal:
            return SetAside(str(refusal), type_name)
        if body_type is None:
            ignorable = headers.get("ce_ignorable") == b"true"
            return SetAside(f"version {version} of a known type is not known", type_name, ignorable)
        try:
            return self._record(message, headers, body_type, type_name, version)
        except _Unreadable as refusal:
            return SetAside(_short(str(refusal)), type_name)
        except ValidationError as error:
            return SetAside(_short(_first_error(error)), type_name)
        except (ValueError, OverflowError, RecursionError, MemoryError) as error:
            return SetAside(_short(f"{type(error).__name__}: {error}"), type_name)

    def _known(self, type_name: str) -> tuple[type[Body] | None, int]:
        """Return the newest body of a type and the version asked for; no body if that version cannot be read."""
        exact = self._exact.get(type_name)
        parts = upcasting.split(type_name)
        if parts is None or parts[0] not in self._newest:
            raise _Unreadable("type is not known" if type_name else "no header ce_type")
        name, version = parts
        newest, body_type = self._newest[name]
        if exact is not None:
            return exact, version
        readable = version < newest and all((name, number) in self._steps for number in range(version, newest))
        return (body_type if readable else None), version

    def _record(
        self, message: Message, headers: dict[str, bytes], body_type: type[Body], type_name: str, version: int
    ) -> Record:
        if len(headers) != len(message.headers):
            raise _Unreadable("a header stands there twice")
        if size_of(message) > MESSAGE_BYTES_MAX:
            raise _Unreadable(f"larger than {MESSAGE_BYTES_MAX} bytes")
        if headers.get("ce_specversion") != b"1.0" or headers.get("content-type") != b"application/json":
            raise _Unreadable("not a CloudEvent 1.0 in binary mode with a JSON body")
        record_id_, role, term, number = _identity(headers)
        content = _parse(message.value)
        if type_name != body_type.TYPE:
            content = self._upcast(content, body_type, version)
        return Record(
            id=record_id_,
            role=role,
            term=term,
            number=number,
            subject=headers.get("ce_subject", b"").decode("utf-8", "surrogatepass"),
            time_ms=parse_time(headers.get("ce_time", b"").decode("ascii")),
            body=body_type.model_validate(content, strict=True),
        )

    def _upcast(self, content: Json, body_type: type[Body], version: int) -> Json:
        name, newest = cast(tuple[str, int], upcasting.split(body_type.TYPE))
        try:
            newer = upcasting.upcast(self._steps, name, version, newest, content)
        except (LookupError, TypeError, AttributeError) as error:
            raise _Unreadable(f"body is not what version {version} says: {type(error).__name__}: {error}") from None
        return cast(Json, newer)


def size_of(message: Message) -> int:
    """Return the bytes of a message, headers included."""
    return len(message.value) + sum(len(name) + len(value) for name, value in message.headers)


def _identity(headers: dict[str, bytes]) -> tuple[str, Role, int, int]:
    """Return a record's id, and the role, term and number that it says."""
    name = headers.get("ce_id", b"").decode("utf-8", "surrogatepass")
    cluster = headers.get("ce_source", b"").decode("utf-8", "surrogatepass").removeprefix("gpuledger/")
    place = _PLACE.fullmatch(name, name.rfind("/")) if "/" in name else None
    if place is None or not name.startswith(cluster + "/"):
        raise _Unreadable(f"header ce_id {name[:100]!r}: not source, incarnation, role, term and number")
    return name, _ROLES[place[1]], int(place[2]), int(place[3])


def _refuse_number(text: str) -> NoReturn:
    raise _Unreadable(f"body: {text[:40]} is no integer, and a record holds no others")


_DECODER: Final = json.JSONDecoder(parse_float=_refuse_number, parse_constant=_refuse_number)
_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"{}[]")
_DEPTH_STEPS: Final = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}


def _parse(value: bytes) -> Json:
    """Return the JSON object that the bytes spell, provided that they are its one canonical spelling."""
    text = value.decode("ascii")
    content: Any = _DECODER.decode(text)
    if not isinstance(content, dict):
        raise _Unreadable("body is not a JSON object")
    if _depth_above(value, DEPTH_MAX):
        raise _Unreadable(f"body is nested deeper than {DEPTH_MAX}")
    if canonical.trusted(content) != value:
        raise _Unreadable("body is not in its canonical spelling (keys sorted and once, no blanks, ASCII)")
    return content


def _depth_above(value: bytes, limit: int) -> bool:
    """Tell whether canonical JSON is nested deeper than a limit; few brackets settle it without a look at each."""
    if value.count(b"{") + value.count(b"[") <= limit:
        return False
    brackets = _STRINGS.sub(b"", value).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_DEPTH_STEPS.__getitem__, brackets)), default=0) > limit


def _first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"body field {'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _short(text: str) -> str:
    return text[:_REASON_CHARACTERS_MAX]


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


CODEC: Final = Codec()
