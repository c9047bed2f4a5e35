"""LangChain's ChatOpenAI against the service, on its two APIs."""

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from scenarios import PROMPT, SCHEMA, TOOL, join, main

TOOLS = [{"type": "function", "function": TOOL}]


def connect(url, **more):
    return ChatOpenAI(model="demo", base_url=url, api_key="any", max_retries=0, **more)


def make_scenarios(**more):
    def call(url):
        reply = connect(url, **more).invoke(PROMPT)
        return {"text": reply.text, "tokens": reply.usage_metadata["input_tokens"]}

    def tool(url):
        model, messages = connect(url, **more).bind_tools(TOOLS), [HumanMessage(PROMPT)]
        first = model.invoke(messages)
        (asked,) = first.tool_calls
        result = ToolMessage("sunny", tool_call_id=asked["id"])
        after = model.invoke([*messages, first, result])
        return {"name": asked["name"], "arguments": asked["args"], "text": after.text}

    def schema(url):
        wanted = {"title": "trip", **SCHEMA}
        model = connect(url, **more).with_structured_output(wanted, method="json_schema")
        return {"value": model.invoke(PROMPT)}

    def stream(url):
        return join(chunk.text for chunk in connect(url, **more).stream(PROMPT))

    return {"call": call, "tool": tool, "schema": schema, "stream": stream}


main(
    {
        "chat": make_scenarios(),
        "responses": make_scenarios(use_responses_api=True),
    }
)
