"""A dress of the emulator answers as the endpoint that it plays, as far as its refusals are on record."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import msgspec
import pytest
from tests.wire.refusal_table import IGNORED, REFUSALS, IgnoredRow, RefusalRow

from holdfast.core.errors import ConfigurationError
from holdfast.testing import Emulator
from holdfast.testing.emulator import DRESSES, Dress, EmulatedRequest, ErrorForm, thinking

PLAIN = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
OF_DRESSES = [row for row in REFUSALS if row.dress]


CLIENT = httpx.Client()  # one for all, because a client reads the certificates of the system


@pytest.fixture(scope="module", autouse=True)
def _close_client() -> Iterator[None]:
    yield
    CLIENT.close()


def post(emulator: Emulator, **fields: object) -> httpx.Response:
    return CLIENT.post(f"{emulator.base_url}/chat/completions", json={**PLAIN, **fields})


@pytest.mark.parametrize("row", OF_DRESSES, ids=lambda row: f"{row.dress}-{'+'.join(row.sent)}")
def test_a_dress_refuses_as_the_endpoint_did(row: RefusalRow) -> None:
    with Emulator(["Hi."], dress=row.dress) as emulator:
        refused = post(emulator, **row.sent)
        assert (refused.status_code, refused.json()) == (row.status, row.body)
        assert post(emulator).status_code == 200


def test_a_row_has_its_source_and_each_endpoint_a_row() -> None:
    endpoints = {row.endpoint for row in (*REFUSALS, *IGNORED)}
    assert endpoints >= {
        *("vLLM", "SGLang", "llama.cpp", "Ollama", "LM Studio", "LiteLLM", "Azure", "Together"),
        *("Groq", "Mistral", "DeepSeek", "OpenRouter", "Databricks", "Snowflake", "Bedrock"),
    }
    assert all(
        "https://" in row.source or row.source.startswith(("corpus:", "ollama/"))
        for row in REFUSALS
    )


@pytest.mark.parametrize("row", IGNORED, ids=lambda row: f"{row.dress}-{row.field}")
def test_what_a_dress_ignores_has_no_effect(row: IgnoredRow) -> None:
    seen: list[EmulatedRequest] = []

    def reply(request: EmulatedRequest) -> str:
        seen.append(request)
        return "Hi."

    with Emulator(reply, dress=row.dress) as emulator:
        value = 5 if "tokens" in row.field else "required"
        assert post(emulator, **{row.field: value}).status_code in (200, 400)
        assert post(emulator, **{row.field: None}).status_code == 200
        assert all(row.field not in request.body for request in seen)
        assert all(request.max_tokens is None for request in seen)


def test_a_limit_is_what_the_endpoint_understood() -> None:
    limits: list[int | None] = []

    def reply(request: EmulatedRequest) -> str:
        limits.append(request.max_tokens)
        return "Hi."

    for dress in ("openai", "snowflake", "ollama"):
        with Emulator(reply, dress=dress) as emulator:
            post(emulator, max_tokens=5)
            post(emulator, max_completion_tokens=7)
            post(emulator)
    assert limits == [5, 7, None, None, 7, None, 5, None, None]


def test_a_stream_has_the_form_of_the_dress() -> None:
    def read(dress: Dress, **fields: object) -> str:
        with Emulator([[thinking("Hm."), "Hi."]] * 2, dress=dress, chunking="whole") as emulator:
            return post(emulator, stream=True, **fields).text

    asked = {"stream_options": {"include_usage": True}}
    assert '"reasoning_content":"Hm."' in read(Dress())
    assert '"reasoning":"Hm."' in read(DRESSES["ollama"])
    assert '"content":"<think>Hm.</think>"' in read(Dress(reasoning_field="<think>"))
    assert '"content":"[THINK]Hm.[/THINK]"' in read(Dress(reasoning_field="[THINK]"))
    assert "prompt_tokens" not in read(Dress())
    assert "prompt_tokens" in read(Dress(), **asked)
    assert "prompt_tokens" in read(Dress(usage="always"))
    assert "prompt_tokens" not in read(Dress(usage="never"), **asked)
    assert "prompt_tokens" not in read(Dress(ignores=("stream_options",)), **asked)
    assert '"finish_reason":"stop"' not in read(Dress(finish_field=""))
    native = read(Dress(finish_field="native_finish_reason"))
    assert '"finish_reason":null,"native_finish_reason":"stop"' in native
    assert "[DONE]" not in read(Dress(end_marker=False))
    assert read(Dress()).endswith("data: [DONE]\n\n")


def test_a_whole_reply_has_the_form_of_the_dress() -> None:
    for field, said in (("reasoning", None), ("<think>", "<think>Hm.</think>Hi.")):
        with Emulator([[thinking("Hm."), "Hi."]], dress=Dress(reasoning_field=field)) as emulator:
            message = post(emulator).json()["choices"][0]["message"]
        assert message["content"] == (said or "Hi.")
        assert message.get("reasoning") == (None if said else "Hm.")


def test_a_dress_of_ones_own_refuses_what_it_says() -> None:
    form = ErrorForm(
        unknown="no {field}, please", body={"oops": "{text}", "at": "{status}"}, status=418
    )
    own = msgspec.structs.replace(DRESSES["vllm"], refuses=("top_k",), images=False, words=form)
    with Emulator(["Hi."] * 3, dress=own) as emulator:
        refused = post(emulator, top_k=5)
        assert (refused.status_code, refused.json()) == (
            418,
            {"oops": "no top_k, please", "at": 418},
        )
        assert emulator.requests[-1].problem.startswith(
            "no top_k, please (by the rules of 'your dress'"
        )
        assert post(emulator).status_code == 200
    with pytest.raises(ConfigurationError, match=r"dress: 'vlm' is not known. Use one of openai, "):
        Emulator(dress="vlm")


def test_a_dress_that_refuses_strict_tools_takes_others() -> None:
    tool = {"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}}
    strict = {"type": "function", "function": {**tool["function"], "strict": True}}  # type: ignore[dict-item]
    with Emulator(["Hi."] * 2, dress=Dress(refuses=("strict",))) as emulator:
        assert post(emulator, tools=[tool]).status_code == 200
        refused = post(emulator, tools=[strict])
    assert refused.json()["error"]["message"] == "Unknown parameter: 'tools[0].function.strict'."
