from typing import Any

import pytest

from tasks.names import is_step
from tasks.step import step

RUN = "6f1c0a52-0000-4000-8000-000000000000"


def test_an_id_and_a_number_name_a_step() -> None:
    assert is_step(RUN, 1)


@pytest.mark.parametrize(
    ("run_id", "seq"),
    [
        ("not a uuid", 1),
        (RUN.upper(), 1),
        (RUN.replace("-", ""), 1),
        (None, 1),
        (17, 1),
        ({"$ne": 1}, 1),
        (RUN, "x"),
        (RUN, "1"),
        (RUN, None),
        (RUN, 1.5),
        (RUN, True),
        (RUN, 0),
        (RUN, -1),
        (RUN, 2**31),
    ],
)
def test_anything_else_names_none(run_id: Any, seq: Any) -> None:
    assert not is_step(run_id, seq)


@pytest.mark.parametrize(
    "kwargs", [{}, {"run_id": "x"}, {"run_id": RUN, "seq": "x"}, {"run_id": "x", "seq": 1, "extra": 1}]
)
def test_a_message_that_names_no_step_is_dropped_before_anything_is_built(kwargs: dict[str, Any]) -> None:
    # Without DATABASE_URL no runtime could be built here.
    step.apply(kwargs=kwargs).get()
