"""OpenAI's client for Python against the service, on its two APIs."""

import json

import openai
import pydantic
from scenarios import PROMPT, TOOL, join, main

MESSAGES = [{"role": "user", "content": PROMPT}]


class Trip(pydantic.BaseModel):
    """A typed output."""

    city: str
    days: int


def connect(url):
    return openai.OpenAI(base_url=url, api_key="any", max_retries=0)


def chat(url, **more):
    return connect(url).chat.completions.create(model="demo", messages=MESSAGES, **more)


def chat_call(url):
    reply = chat(url)
    return {"text": reply.choices[0].message.content, "tokens": reply.usage.prompt_tokens}


def chat_tool(url):
    tools = [{"type": "function", "function": TOOL}]
    first = chat(url, tools=tools).choices[0].message
    (asked,) = first.tool_calls
    result = {"role": "tool", "tool_call_id": asked.id, "content": "sunny"}
    after = connect(url).chat.completions.create(
        model="demo", messages=[*MESSAGES, first, result], tools=tools
    )
    arguments = json.loads(asked.function.arguments)
    text = after.choices[0].message.content
    return {"name": asked.function.name, "arguments": arguments, "text": text}


def chat_schema(url):
    reply = connect(url).chat.completions.parse(
        model="demo", messages=MESSAGES, response_format=Trip
    )
    return {"value": reply.choices[0].message.parsed.model_dump()}


def chat_stream(url):
    with connect(url).chat.completions.stream(
        model="demo", messages=MESSAGES, stream_options={"include_usage": True}
    ) as stream:
        happened = join(event.delta for event in stream if event.type == "content.delta")
        tokens = stream.get_final_completion().usage.total_tokens
    return {**happened, "tokens": tokens}


def chat_sources(url):
    message = chat(url).choices[0].message
    cited = [one.url_citation for one in message.annotations]
    return {"sources": [list_source(one, message.content) for one in cited]}


def list_source(note, text):
    return [note.url, note.title, text[note.start_index : note.end_index]]


def chat_wrong(url):
    return {"text": str(chat(url, n=2))}


def models(url):
    return {"names": [model.id for model in connect(url).models.list()]}


def responses_call(url):
    reply = connect(url).responses.create(model="demo", input=PROMPT)
    return {"text": reply.output_text, "tokens": reply.usage.input_tokens}


def responses_tool(url):
    client, tools = connect(url), [{"type": "function", "strict": False, **TOOL}]
    first = client.responses.create(model="demo", input=MESSAGES, tools=tools)
    asked = next(item for item in first.output if item.type == "function_call")
    result = {"type": "function_call_output", "call_id": asked.call_id, "output": "sunny"}
    after = client.responses.create(
        model="demo", input=[result], previous_response_id=first.id, tools=tools
    )
    arguments = json.loads(asked.arguments)
    return {"name": asked.name, "arguments": arguments, "text": after.output_text}


def responses_schema(url):
    reply = connect(url).responses.parse(model="demo", input=PROMPT, text_format=Trip)
    return {"value": reply.output_parsed.model_dump()}


def responses_stream(url):
    with connect(url).responses.stream(model="demo", input=PROMPT) as stream:
        deltas = (one.delta for one in stream if one.type == "response.output_text.delta")
        happened = join(deltas)
        return {**happened, "same": stream.get_final_response().output_text == happened["text"]}


def responses_sources(url):
    with connect(url).responses.stream(model="demo", input=PROMPT) as stream:
        for _ in stream:
            pass
        message, search = stream.get_final_response().output
    part = message.content[0]
    found = [one.url for one in search.action.sources]
    return {
        "sources": [list_source(one, part.text) for one in part.annotations],
        "search": [search.status, search.action.query, found],
    }


def responses_background(url):
    """Start in the background, leave in the middle of the stream, and come back with the number."""
    client = connect(url)
    begun = client.responses.create(model="demo", input=PROMPT, background=True, stream=True)
    text, number, name = "", 0, ""
    for event in begun:
        number = event.sequence_number
        if event.type == "response.created":
            name = event.response.id
        elif event.type == "response.output_text.delta":
            text += event.delta
            if len(text) > 10:
                break
    begun.close()
    for event in client.responses.retrieve(name, stream=True, starting_after=number):
        if event.type == "response.output_text.delta":
            text += event.delta
    whole = client.responses.retrieve(name)
    cancelled = client.responses.cancel(name)
    return {"text": text, "whole": whole.output_text, "status": cancelled.status}


def responses_session(url):
    """Take two turns, and then another one after the first."""
    client = connect(url)
    first = client.responses.create(model="demo", input="first")
    second = client.responses.create(model="demo", input="second", previous_response_id=first.id)
    other = client.responses.create(model="demo", input="other", previous_response_id=first.id)
    named = client.conversations.create().id
    in_named = client.responses.create(model="demo", input="named", conversation=named)
    return {
        "texts": [one.output_text for one in (first, second, other, in_named)],
        "previous": [second.previous_response_id, other.previous_response_id] == [first.id] * 2,
        "conversation": in_named.conversation.id == named,
    }


main(
    {
        "chat": {
            "call": chat_call,
            "tool": chat_tool,
            "schema": chat_schema,
            "stream": chat_stream,
            "sources": chat_sources,
            "wrong": chat_wrong,
            "models": models,
        },
        "responses": {
            "call": responses_call,
            "tool": responses_tool,
            "schema": responses_schema,
            "stream": responses_stream,
            "sources": responses_sources,
            "background": responses_background,
            "session": responses_session,
        },
    }
)
