import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.calls.caught_error import ErrorCatcher
from holdfast.calls.parsed_answers import AnswerType, RawText, parse_answer
from holdfast.core.errors import OutputError

BOTH = AnswerType(routines=True)


def test_the_provider_gets_a_strict_schema() -> None:
    for routines, name, required in (
        (True, "agent_response", ["agent_final_response", "routine_number"]),
        (False, "re_registration_response", ["agent_final_response"]),
    ):
        told = AnswerType(routines=routines).schema
        assert (told.name, told.strict) == (name, True)
        assert told.schema["required"] == required
        assert told.schema["additionalProperties"] is False


@pytest.mark.slow  # takes half a second or more
@given(text=st.text(min_size=1), policy=st.sampled_from(["accept", "prose", "refuse"]))
def test_no_text_raises_anything_else(text: str, policy: RawText) -> None:
    with ErrorCatcher() as caught:
        answer = parse_answer((text,), BOTH, policy)
        assert answer.content
        assert policy != "refuse" or answer.parsed_by != "raw_text"
    if caught.error is not None:
        assert isinstance(caught.error, OutputError)
        assert caught.error.raw == text


def test_hostile_json_is_refused_and_does_no_harm() -> None:
    for text in ("[" * 100_000, '{"a":' * 100_000, '{"agent_final_response": "\\ud800"}'):
        with pytest.raises(OutputError):
            parse_answer((text,), BOTH, "refuse")
