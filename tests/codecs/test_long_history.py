"""An iteration of a long session encodes what is new and nothing else, on every wire."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.wire import Codec
from holdfast.core.messages import (
    Message,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_results,
    user,
)
from holdfast.core.model_request import ModelRequest, ModelSettings
from holdfast.core.transcript import Form, Transcript

CODECS: list[Codec] = [OpenAIChat(), ResponsesCodec(), AnthropicCodec(), Gemini()]
BEGINNINGS: dict[str, list[Message]] = {
    "plain": [],
    "a leading system message": [system("Be brief.")],
    "an answer that said nothing": [user("a"), assistant("")],
}


class Watched(Transcript):
    """Counts the messages that are encoded, and those that are looked at all the same."""

    encodings = 0
    scanned = 0

    def encode_messages(self, form: Form, head: bytes = b"", tail: bytes = b"") -> bytes:
        def counted(message: Message) -> bytes:
            self.encodings += 1
            return form.encode(message)

        return super().encode_messages(replace(form, encode=counted), head, tail)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self.scanned += len(found) if isinstance(index, slice) else 1
        return found


def iteration(number: int) -> list[Message]:
    call = ToolCall(f"call_{number}", "pay", "{}")
    result = ToolResult(call.id, call.name, (Text("paid"),))
    return [user(f"question {number}"), assistant(call), tool_results([result]), assistant("Done.")]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("cache", [False, True])
def test_what_was_sent_before_is_neither_encoded_nor_looked_at_again(
    codec: Codec, beginning: str, cache: bool
) -> None:
    first = [message for number in range(100) for message in iteration(number)]
    history = Watched([*BEGINNINGS[beginning], *first, user("more")])
    settings = ModelSettings(cache=cache)

    def body() -> bytes:
        return codec.encode(ModelRequest(model="m", messages=history, settings=settings)).body

    body()
    for number in range(100, 110):
        history.encodings = history.scanned = 0
        for message in (*iteration(number)[1:], user("more")):
            history.append(message)
        sent = body()
        assert history.encodings <= 5
        assert history.scanned <= 40
    fresh = codec.encode(ModelRequest(model="m", messages=list(history), settings=settings)).body
    assert sent == fresh
