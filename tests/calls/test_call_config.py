import pytest

from holdfast.compat.ai_call import CALL_CONFIGS, get_retry_config

ROWS = [
    ("photo_upload", None, 5, 2.0),
    ("Photo Upload", None, 5, 2.0),
    ("PHOTO-upload", None, 5, 2.0),
    ("payment", None, 2, 0.5),
    ("Registration", None, 3, 1.0),
    ("", None, 3, 1.0),
    ("Registration", 34, 5, 2.0),
    ("payment", 34, 5, 2.0),
    ("Registration Continuation", 33, 3, 1.0),
]


@pytest.mark.parametrize(("call_type", "routine", "retries", "delay"), ROWS)
def test_rows(call_type: str, routine: int | None, retries: int, delay: float) -> None:
    assert get_retry_config(call_type, routine) == {"max_retries": retries, "delay": delay}


def test_a_row_that_was_handed_out_cannot_change_the_table() -> None:
    get_retry_config("payment")["max_retries"] = 99
    assert CALL_CONFIGS["payment"]["max_retries"] == 2
