"""An empty reply that was rebuilt from the journal said "Empty response: Empty response: ..."."""

from __future__ import annotations

from holdfast.core.errors import EmptyResponseError, exception_for


def test_the_prefix_is_there_once() -> None:
    error = EmptyResponseError("no text in response")
    assert str(exception_for(error.info)) == "Empty response: no text in response"
