"""`is_complete` on every recorded stream: a complete reply stays the same if its body breaks off."""

import re

import pytest
from tests.corpus import Row, rows

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.assemble import Assembler
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.wire import Codec, Quirks
from holdfast.core.messages import Reply, ReplyKind

CODECS: dict[str, Codec] = {
    "openai_chat": OpenAIChat(),
    "openai_responses": ResponsesCodec(),
    "anthropic_messages": AnthropicCodec(),
    "gemini": Gemini(),
}
_EVENT = re.compile(rb".*?(?:\r\n\r\n|\n\n|\r\r|\Z)", re.DOTALL)


def provider_of(row: Row) -> str:
    return "vertex" if row.provider == "google_vertex" else ""


def said(reply: Reply) -> tuple[object, ...]:
    calls = [(call.name, call.arguments or "{}") for call in reply.calls]
    return reply.text, calls, reply.finish


@pytest.mark.parametrize("dialect", CODECS)
def test_nothing_follows_the_proof_of_a_recorded_stream(dialect: str) -> None:
    codec, proofs, streams = CODECS[dialect], 0, 0
    for row in rows(dialect):
        if row.framing != "sse" or (row.status or 200) >= 300:
            continue
        streams += 1
        decoder = codec.make_decoder(row.content_type, provider_of(row))
        assembler = Assembler(Quirks(), codec.name)
        broken: Reply | None = None
        for event in _EVENT.findall(row.body):
            for delta in decoder.feed(event):
                assembler.feed(delta)
            if assembler.is_complete and broken is None:
                broken = assembler.finish().reply
        for delta in decoder.close():
            assembler.feed(delta)
        whole = assembler.finish().reply
        if broken is not None and broken.kind is ReplyKind.COMPLETE:
            proofs += 1
            assert whole.kind is ReplyKind.COMPLETE, row.id
            assert said(broken) == said(whole), row.id
    assert proofs > streams / 2
    print(f"\n{dialect}: {proofs} of {streams} streams proved that they are whole, and were")
