"""Simon Willison's `llm` against the service: its models of OpenAI's form, with and without a stream."""

import json

import llm
from llm.default_plugins.openai_models import Chat
from scenarios import PROMPT, SCHEMA, TOOL, join, main


def connect(url):
    return Chat("demo", model_name="demo", api_base=url, supports_schema=True, supports_tools=True)


def ask(url, *, stream=False, **more):
    return connect(url).prompt(PROMPT, stream=stream, key="any", **more)


def call(url):
    response = ask(url)
    return {"text": response.text(), "tokens": response.usage().input}


def stream(url):
    return join(ask(url, stream=True))


def schema(url):
    return {"value": json.loads(ask(url, schema=SCHEMA).text())}


def tool(url):
    seen = []

    def weather(city: str) -> str:
        """The weather of a city."""
        seen.append(city)
        return "sunny"

    chain = connect(url).chain(PROMPT, tools=[llm.Tool.function(weather)], key="any", stream=False)
    return {
        "name": TOOL["name"],
        "arguments": {"city": seen[0] if seen else ""},
        "text": chain.text(),
    }


main({"chat": {"call": call, "stream": stream, "schema": schema, "tool": tool}})
