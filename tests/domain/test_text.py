"""Text that every store and every wire can carry, and JSON text that says the same again."""

import json

from hypothesis import given
from hypothesis import strategies as st

from app.domain.text import clean, dumps, is_valid, sha256, shorten

any_text = st.text(st.characters(exclude_categories=[]))  # lone surrogates and NUL included
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_json_text_is_storable_and_means_the_same(value: object) -> None:
    text = dumps(value)
    assert is_valid(text)
    assert "\x00" not in text
    assert json.loads(text) == value
    assert dumps(json.loads(text)) == text


def test_json_text_is_compact_keeps_key_order_and_writes_letters_as_they_are() -> None:
    assert dumps({"z": 1, "a": ["é", 1.5]}) == '{"z":1,"a":["é",1.5]}'


@given(any_text)
def test_clean_text_is_storable_and_as_long_as_before(text: str) -> None:
    cleaned = clean(text)
    assert is_valid(cleaned)
    assert "\x00" not in cleaned
    assert len(cleaned) == len(text)
    assert clean(cleaned) == cleaned
    assert all(a == b or a == "\x00" or "\ud800" <= a <= "\udfff" for a, b in zip(text, cleaned, strict=True))


@given(st.text(), st.integers(1, 50))
def test_a_short_text_stays_and_a_long_one_says_how_much_was_cut(text: str, limit: int) -> None:
    short = shorten(text, limit)
    if len(text) <= limit:
        assert short == text
    else:
        assert short == f"{text[:limit]}\n[{len(text) - limit} of {len(text)} characters cut]"


def test_the_hash_is_that_of_the_utf8_text() -> None:
    assert sha256("é") == "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"
