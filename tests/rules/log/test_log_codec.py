"""Design section 3, records: one spelling, strict reading, versions, and nothing hostile gets through or raises."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events import upcasting
from events.canonical import Json
from events.codec import (
    DEPTH_MAX,
    MESSAGE_BYTES_MAX,
    Codec,
    Message,
    NotWritable,
    SetAside,
    format_time,
    from_message,
    parse_time,
    record_id,
    size_of,
    to_message,
)
from events.records import (
    BODIES,
    Batch,
    BindCommand,
    Body,
    Deleted,
    Genesis,
    GroupBook,
    GroupChange,
    ListChunk,
    ListEnd,
    Member,
    Observed,
    Opened,
    Outcome,
    PodBook,
    PodChange,
    Record,
    Ticked,
)

POD: Json = {
    "metadata": {"name": "train-0", "namespace": "team-a", "uid": "0f3d8f0a-1111-2222-3333-444455556666"},
    "spec": {"schedulerName": "gpuledger", "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]},
    "status": {"phase": "Pending"},
}
MEMBER = Member(
    n=0, namespace="a", name="p", uid="u", version="7", node="n1", node_uid="nu", allocation="x:y;", score=9
)
EXAMPLES: list[Body] = [
    Genesis(cluster="prod", incarnation="i1"),
    Opened(role="watcher", term=3, previous=2, writer="w", reads={"a": 1}, writes={}, config={"b": [1]}, time_ms=5),
    Ticked(time_ms=-1),
    Observed(api_version="v1", kind="Pod", object=POD, version="12", listed=True),
    Deleted(api_version="v1", kind="Pod", namespace="a", name="p", uid="u", seen=False),
    ListChunk(api_version="v1", kind="Pod", list_id=1, uids=["u1", "u2"]),
    ListEnd(api_version="v1", kind="Pod", list_id=1, version="9", count=2, digest="d"),
    Batch(
        batch=4, base=10, chain="c", state="s", time_ms=6, engine="e",
        binds=[BindCommand(group="a/g", group_uid="gu", members=[MEMBER])],
        groups=[GroupChange(group="a/g", uid="gu", book=GroupBook(phase="Inqueue", unschedulable=False))],
        pods=[PodChange(uids=["u2"], book=PodBook(reason="Unschedulable", warnings=["w"]))],
        promises=[], search_start=3,
    ),
    Outcome(command="prod/i1/3.4/0", verb="bind", namespace="a", name="p", uid="u", result="applied", time_ms=8),
]  # fmt: skip


def record(body: Body, subject: str = "Pod/team-a/train-0") -> Record:
    return Record(record_id("prod", "i1", "watcher", 3, 17), "watcher", 3, 17, subject, 1_790_000_000_123, body)


def message(body: Body = EXAMPLES[2]) -> Message:
    return to_message(record(body), "prod")


def with_header(base: Message, name: str, value: bytes | None) -> Message:
    kept = tuple(header for header in base.headers if header[0] != name)
    return Message(kept if value is None else (*kept, (name, value)), base.value)


def with_body(text: str) -> Message:
    return Message(message().headers, text.encode("utf-8", "surrogatepass"))


def reason(base: Message) -> str:
    found = from_message(base)
    assert isinstance(found, SetAside), found
    return found.reason


def test_every_type_has_an_example() -> None:
    assert [type(body) for body in EXAMPLES] == list(BODIES)


@pytest.mark.parametrize("body", EXAMPLES, ids=lambda body: body.TYPE)
def test_a_record_comes_back_as_it_was_written(body: Body) -> None:
    assert from_message(message(body)) == record(body)


def test_equal_content_is_equal_bytes_whatever_the_order_of_keys() -> None:
    turned = Observed(api_version="v1", kind="Pod", object=dict(reversed(POD.items())), version="12", listed=True)
    assert message(turned) == message(EXAMPLES[3])


def test_a_message_is_a_cloud_event_in_binary_mode() -> None:
    headers = dict(message().headers)
    assert headers["ce_specversion"] == b"1.0"
    assert headers["ce_id"] == b"prod/i1/w3.17"
    assert headers["ce_source"] == b"gpuledger/prod"
    assert headers["ce_type"] == b"gpuledger.clock.ticked.v1"
    assert headers["ce_subject"] == b"Pod/team-a/train-0"
    assert headers["ce_time"] == b"2026-09-21T14:13:20.123Z"
    assert headers["content-type"] == b"application/json"
    assert all(name.removeprefix("ce_").isalnum() for name in headers if name != "content-type")
    assert "ce_subject" not in dict(to_message(record(EXAMPLES[2], subject=""), "prod").headers)


def test_headers_of_eight_records_leave_room_in_a_pods_budget_of_six_kilobytes() -> None:
    outcome = message(EXAMPLES[8])
    assert 8 * (size_of(outcome) - len(outcome.value)) < 2_500


# --- versions ---


class NewTicked(Body):
    TYPE: ClassVar[str] = "gpuledger.clock.ticked.v3"
    time_ms: int
    source: str


def _second(body: Json) -> Json:
    return {"time_ms": body["time_ms"] + 1}


def _third(body: Json) -> Json:
    return {**body, "source": "system"}


STEPS: dict[tuple[str, int], upcasting.Step] = {
    ("gpuledger.clock.ticked", 1): _second,
    ("gpuledger.clock.ticked", 2): _third,
}


def test_an_older_version_is_upcast_step_by_step_when_read() -> None:
    found = Codec([NewTicked], STEPS).from_message(message(Ticked(time_ms=41)))
    assert isinstance(found, Record)
    assert found.body == NewTicked(time_ms=42, source="system")


def test_an_older_version_without_a_way_up_stops_decisions() -> None:
    found = Codec([NewTicked], {("gpuledger.clock.ticked", 2): _third}).from_message(message())
    assert found == SetAside("version 1 of a known type is not known", "gpuledger.clock.ticked.v1", ignorable=False)


def test_an_old_body_that_its_step_cannot_read_is_set_aside() -> None:
    found = Codec([NewTicked], STEPS).from_message(with_body('{"other":1}'))
    assert isinstance(found, SetAside)
    assert found.ignorable
    assert "version 1" in found.reason


def test_a_future_version_of_a_known_type_stops_decisions_unless_marked_ignorable() -> None:
    future = with_header(message(), "ce_type", b"gpuledger.clock.ticked.v2")
    found = from_message(future)
    assert isinstance(found, SetAside)
    assert not found.ignorable
    marked = from_message(with_header(future, "ce_ignorable", b"true"))
    assert isinstance(marked, SetAside)
    assert marked.ignorable


def test_a_writer_marks_what_older_readers_may_pass_over() -> None:
    marked = to_message(record(EXAMPLES[2]), "prod", ignorable=True)
    assert dict(marked.headers)["ce_ignorable"] == b"true"
    assert from_message(marked) == record(EXAMPLES[2])


@pytest.mark.parametrize(
    "name", [b"", b"other", b"other.v1", b"gpuledger.clock.ticked", b"gpuledger.clock.ticked.v0", b"\xff",
             b"gpuledger.clock.ticked.v01", b"gpuledger.clock.ticked.v\xd9\xa1", b"gpuledger.clock.ticked.v9999999999"],
)  # fmt: skip
def test_an_unknown_type_is_set_aside_and_the_world_goes_on(name: bytes) -> None:
    found = from_message(with_header(message(), "ce_type", name))
    assert isinstance(found, SetAside)
    assert found.ignorable


# --- hostile bytes ---


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ('{"time_ms":1', "delimiter"),
        ("[]", "not a JSON object"),
        ("1", "not a JSON object"),
        ('{"time_ms":1.0}', "is no integer"),
        ('{"time_ms":1e3}', "is no integer"),
        ('{"time_ms":NaN}', "is no integer"),
        ('{"time_ms":-Infinity}', "is no integer"),
        ('{"time_ms":"1"}', "body field time_ms"),
        ('{"time_ms":true}', "body field time_ms"),
        ('{"time_ms":null}', "body field time_ms"),
        ("{}", "body field time_ms: Field required"),
        ('{"more":1,"time_ms":1}', "body field more: Extra inputs"),
        ('{"time_ms":1,"time_ms":1}', "canonical spelling"),
        ('{"time_ms": 1}', "canonical spelling"),
        ('{"time_ms":-0}', "canonical spelling"),
        ('{"time_ms":01}', "delimiter"),
        ('{"é":1}', "ascii"),
        ('{"time_ms":1}\x00', "Extra data"),
        ('{"time_ms":' + "9" * 5000 + "}", "ValueError"),
        ('{"time_ms":' + "[" * 200_000, "RecursionError"),
        ('{"a":' + "[" * DEPTH_MAX + "]" * DEPTH_MAX + "}", "deeper"),
    ],
)
def test_a_body_with_any_other_spelling_is_set_aside_with_the_reason(text: str, why: str) -> None:
    assert why in reason(with_body(text))


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("ce_specversion", b"0.3", "CloudEvent"),
        ("content-type", b"application/cloudevents+json", "CloudEvent"),
        ("content-type", None, "CloudEvent"),
        ("ce_id", b"prod/i1/a3.17", "ce_id"),
        ("ce_id", b"prod/i1/w-1.17", "ce_id"),
        ("ce_id", b"prod/i1/w 3.17", "ce_id"),
        ("ce_id", b"prod/i1/w03.17", "ce_id"),
        ("ce_id", b"prod/i1/w\xd9\xa3.17", "ce_id"),
        ("ce_id", b"prod/i1/w3." + b"9" * 19, "ce_id"),
        ("ce_id", b"prod/i1/w3", "ce_id"),
        ("ce_id", b"w3.17", "ce_id"),
        ("ce_id", None, "ce_id"),
        ("ce_source", b"gpuledger/other", "ce_id"),
        ("ce_id", b"\xff", "UnicodeDecodeError"),
        ("ce_subject", b"\xff", "UnicodeDecodeError"),
        ("ce_time", b"2026-09-21T14:13:20Z", "RFC 3339"),
        ("ce_time", b"2026-09-21T14:13:20.123+", "RFC 3339"),
        ("ce_time", b"2026-99-21T14:13:20.123Z", "month"),
    ],
)
def test_a_header_that_says_something_else_is_set_aside(name: str, value: bytes | None, why: str) -> None:
    assert why in reason(with_header(message(), name, value))


def test_a_header_that_stands_twice_is_set_aside() -> None:
    base = message()
    assert "twice" in reason(Message((*base.headers, ("ce_time", b"4")), base.value))


def test_a_message_above_the_limit_is_set_aside_unread() -> None:
    assert "larger" in reason(with_body("x" * MESSAGE_BYTES_MAX))


def test_lone_surrogates_and_nul_in_strings_come_back() -> None:
    body = Observed(api_version="v1", kind="Pod", object={"a\ud800": "\udfff\x00\u202e"})
    hostile = Record("prod/i1/w3.17", "watcher", 3, 17, "Pod/\ud800/x", 0, body)
    assert from_message(to_message(hostile, "prod")) == hostile


@settings(max_examples=300)
@given(st.lists(st.tuples(st.text(max_size=12), st.binary(max_size=40))), st.binary(max_size=200))
def test_reading_arbitrary_bytes_never_raises(headers: list[tuple[str, bytes]], value: bytes) -> None:
    assert isinstance(from_message(Message(tuple(headers), value)), SetAside)


@settings(max_examples=300)
@given(st.sampled_from(EXAMPLES), st.data())
def test_a_damaged_message_is_set_aside_or_is_a_record_with_one_spelling(body: Body, data: st.DataObject) -> None:
    base = message(body)
    place = data.draw(st.integers(0, len(base.value) - 1))
    value = base.value[:place] + data.draw(st.binary(max_size=3)) + base.value[place + 1 :]
    found = from_message(Message(base.headers, value))
    if isinstance(found, Record):
        text = json.loads(value)
        assert json.dumps(text, sort_keys=True, separators=(",", ":")).encode() == value


LEAVES: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100)
@given(st.dictionaries(st.text(max_size=4), JSON, max_size=4))
def test_any_json_without_floats_comes_back_as_it_was(content: Json) -> None:
    body = Observed(api_version="v1", kind="Pod", object=content)
    assert from_message(message(body)) == record(body)


# --- writing ---


def deep(levels: int) -> Json:
    found: Json = {}
    for _ in range(levels):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"a": [{"b": 1.5}]}, "floats"),
        ({"a": float("nan")}, "floats"),
        (deep(DEPTH_MAX), "deeper"),
        (deep(5_000), "train-0"),
        ({"a": "x" * MESSAGE_BYTES_MAX}, "bytes"),
    ],
    ids=["float", "nan", "deep", "bottomless", "large"],
)
def test_what_could_not_be_read_again_is_not_written(content: Json, why: str) -> None:
    with pytest.raises(NotWritable, match=why):
        to_message(record(Observed(api_version="v1", kind="Pod", object=content)), "prod")


def test_brackets_in_strings_are_no_depth() -> None:
    body = Observed(api_version="v1", kind="Pod", object={"a": '[{\\"' * 5_000})
    assert from_message(message(body)) == record(body)


@pytest.mark.parametrize("time_ms", [0, -1, 999, 1_790_000_000_123, -62_135_596_800_000, 253_402_300_799_999])
def test_times_come_back_to_the_millisecond(time_ms: int) -> None:
    assert parse_time(format_time(time_ms)) == time_ms


@pytest.mark.parametrize("time_ms", [10**15, -(10**15), 10**30])
def test_a_time_that_no_calendar_has_is_not_written(time_ms: int) -> None:
    with pytest.raises(NotWritable, match="time_ms"):
        format_time(time_ms)


def test_the_versions_that_a_term_names() -> None:
    versions = Codec().versions()
    assert versions["gpuledger.clock.ticked"] == 1
    assert len(versions) == len(BODIES)


def test_a_type_without_a_version_cannot_be_registered() -> None:
    class Nameless(Body):
        TYPE: ClassVar[str] = "gpuledger.nameless"

    with pytest.raises(ValueError, match="no version"):
        Codec([Nameless])
