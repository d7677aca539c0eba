"""Which refusals are worth another try, under which name they end a run, and how long the server asks us to wait."""

import time
from email.utils import formatdate

import pytest

from app.domain.usage import Usage
from app.llm.refusal import code_of, is_transient, refusal
from app.llm.retry_after import retry_after_s


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_these_statuses_are_transient(status: int) -> None:
    assert is_transient(status, None, None, None)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 412, 413, 422, 431, 499])
def test_other_4xx_are_terminal_whatever_their_type(status: int) -> None:
    assert not is_transient(status, "api_error", None, None)


@pytest.mark.parametrize("code", ["enforced_spend_limit_reached", "contract_spend_limit_reached"])
@pytest.mark.parametrize("should_retry", [None, "true"])
def test_a_spend_limit_is_terminal_though_it_comes_as_429(code: str, should_retry: str | None) -> None:
    assert not is_transient(429, "rate_limit_error", code, should_retry)
    assert code_of(429, "rate_limit_error", code) == code


def test_a_ramp_limit_is_transient() -> None:
    assert is_transient(429, "rate_limit_error", "ramp_limit_exceeded", None)


@pytest.mark.parametrize(
    ("status", "should_retry", "expected"),
    [(400, "true", True), (500, "false", False), (429, "false", False), (429, "perhaps", True), (400, "1", False)],
)
def test_x_should_retry_overrides_the_status(status: int, should_retry: str, expected: bool) -> None:
    assert is_transient(status, None, None, should_retry) is expected


@pytest.mark.parametrize(
    ("error_type", "expected"),
    [
        ("overloaded_error", True),
        ("api_error", True),
        ("rate_limit_error", True),
        ("timeout_error", True),
        (None, True),
        ("invalid_request_error", False),
        ("authentication_error", False),
        ("billing_error", False),
        ("permission_error", False),
        ("not_found_error", False),
    ],
)
def test_an_error_event_of_a_stream_is_judged_by_its_type(error_type: str | None, expected: bool) -> None:
    assert is_transient(200, error_type, None, None) is expected


@pytest.mark.parametrize(
    ("status", "error_type", "expected"),
    [(400, "invalid_request_error", "invalid_request_error"), (502, None, "http_502"), (200, None, "stream_cut")],
)
def test_the_code_is_the_bodys_type_or_says_what_there_was_instead(
    status: int, error_type: str | None, expected: str
) -> None:
    assert code_of(status, error_type, None) == expected


NOW_S = 1_800_000_000.0


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": " 7 "}, 7.0),
        ({"retry-after": "172800"}, 172_800.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": formatdate(NOW_S + 90, usegmt=True)}, 90.0),
        ({"retry-after": formatdate(NOW_S + 90)}, 90.0),
        ({"retry-after": formatdate(NOW_S - 90, usegmt=True)}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e300"}, None),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, None),
        ({"retry-after": "Fri, 99 Foo 99999 99:99:99 GMT"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_seconds_or_nothing_usable(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers, NOW_S) == expected


def test_a_date_without_a_zone_is_gmt_wherever_this_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        naive = formatdate(NOW_S + 90).removesuffix(" -0000")
        assert retry_after_s({"retry-after": naive}, NOW_S) == 90.0
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_refusal_keeps_what_the_caller_acts_on_and_not_the_whole_page() -> None:
    headers = {"retry-after": "7", "request-id": "req_1"}
    error = refusal(
        429, headers, "x" * 9000, error_type="rate_limit_error", error_code=None, now_s=NOW_S, usage=Usage(1, 2)
    )
    assert (error.status, error.retry_after_s, error.request_id, error.usage) == (429, 7.0, "req_1", Usage(1, 2))
    assert str(error).startswith("rate_limit_error (HTTP 429): xxx")
    assert len(str(error)) < 600
