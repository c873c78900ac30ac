"""Design section 3, the chain: a digest over the canonical content of every record, wherever the log lives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from events.chain import GENESIS, extend
from events.codec import Message

HEADERS = st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=4)
MESSAGES = st.builds(Message, HEADERS.map(tuple), st.binary(max_size=10))


def digest(messages: list[Message]) -> bytes:
    found = GENESIS
    for message in messages:
        found = extend(found, message)
    return found


@given(st.lists(MESSAGES, max_size=5), st.lists(MESSAGES, max_size=5))
def test_equal_digests_are_equal_histories(one: list[Message], other: list[Message]) -> None:
    def content(messages: list[Message]) -> list[tuple[object, bytes]]:
        return [(sorted(message.headers), message.value) for message in messages]

    assert (digest(one) == digest(other)) == (content(one) == content(other))


def test_no_byte_moves_between_parts_unseen() -> None:
    variants = [
        Message((("a", b"bc"),), b"d"),
        Message((("ab", b"c"),), b"d"),
        Message((("a", b"b"),), b"cd"),
        Message((("a", b"b"), ("c", b"d")), b""),
        Message((), b"abcd"),
    ]
    assert len({extend(GENESIS, variant) for variant in variants}) == len(variants)


def test_a_dropped_moved_or_added_record_changes_everything_after_it() -> None:
    first, second, third = (Message((), text) for text in (b"1", b"2", b"3"))
    whole = digest([first, second, third])
    assert whole not in {
        digest(other)
        for other in ([first, third], [second, first, third], [first, second, second, third], [first, second])
    }


def test_the_order_of_headers_is_no_content() -> None:
    assert extend(GENESIS, Message((("a", b"1"), ("b", b"2")), b"")) == extend(
        GENESIS, Message((("b", b"2"), ("a", b"1")), b"")
    )


def test_the_digest_is_pinned() -> None:
    assert digest([Message((("ce_id", b"c/i/w1.0"),), b"{}")]).hex() == (
        "a6d452677e72ba76d0cb85e0428e0ae61ba88050d493759de75ab68392ba7948"
    )
