"""litellm against the service, on its two APIs."""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # without it, importing asks the network

import litellm  # REASON: see above
from scenarios import PROMPT, SCHEMA, TOOL, join, main  # REASON: see above

MESSAGES = [{"role": "user", "content": PROMPT}]
TOOLS = [{"type": "function", "function": TOOL}]


def chat(url, messages=MESSAGES, **more):
    return litellm.completion(
        model="openai/demo", api_base=url, api_key="any", messages=messages, num_retries=0, **more
    )


def call(url):
    reply = chat(url)
    return {"text": reply.choices[0].message.content, "tokens": reply.usage.prompt_tokens}


def tool(url):
    first = chat(url, tools=TOOLS).choices[0].message
    (asked,) = first.tool_calls
    result = {"role": "tool", "tool_call_id": asked.id, "name": TOOL["name"], "content": "sunny"}
    after = chat(url, [*MESSAGES, first.model_dump(), result], tools=TOOLS)
    arguments = json.loads(asked.function.arguments)
    text = after.choices[0].message.content
    return {"name": asked.function.name, "arguments": arguments, "text": text}


def schema(url):
    form = {"type": "json_schema", "json_schema": {"name": "trip", "schema": SCHEMA}}
    return {"value": json.loads(chat(url, response_format=form).choices[0].message.content)}


def stream(url):
    return join(chunk.choices[0].delta.content for chunk in chat(url, stream=True))


def respond(url):
    reply = litellm.responses(model="openai/demo", input=PROMPT, api_base=url, api_key="any")
    texts = [part.text for item in reply.output for part in getattr(item, "content", ())]
    return {"text": "".join(texts), "tokens": reply.usage.input_tokens}


main(
    {
        "chat": {"call": call, "tool": tool, "schema": schema, "stream": stream},
        "responses": {"call": respond},
    }
)
