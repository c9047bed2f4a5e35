"""The applications of others that are measured beside the service: `python -m benchmarks.service.peers KIND MODEL_URL PORT`.

They run in an environment of their own, `benchmarks/peers`; each serves the scenarios "turn" and "deltas"
until it is ended. This module must import nothing of Holdfast.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

KEY = "benchmark"
SCENARIOS = {"turn": "text", "deltas": "stream-2000"}


def serve(app: Any, port: int) -> None:
    """Serve an application as the others are served."""
    import uvicorn  # noqa: PLC0415

    uvicorn.run(app, port=port, log_level="warning", loop="asyncio", access_log=False)


def serve_pydantic_ai(adapter: Any, url: str, port: int) -> None:
    """Serve agents of pydantic-ai by one of its adapters, one path for each scenario."""
    from pydantic_ai import Agent  # noqa: PLC0415
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415
    from starlette.applications import Starlette  # noqa: PLC0415
    from starlette.requests import Request  # noqa: PLC0415
    from starlette.responses import Response  # noqa: PLC0415
    from starlette.routing import Route  # noqa: PLC0415

    provider = OpenAIProvider(base_url=url, api_key=KEY)
    agents = {
        name: Agent(OpenAIChatModel(model, provider=provider)) for name, model in SCENARIOS.items()
    }

    async def dispatch(request: Request) -> Response:
        response: Response = await adapter.dispatch_request(
            request, agent=agents[request.path_params["name"]]
        )
        return response

    serve(Starlette(routes=[Route("/{name}", dispatch, methods=["POST"])]), port)


def serve_vercel(url: str, port: int) -> None:
    """Serve pydantic-ai's Vercel adapter."""
    from pydantic_ai.ui.vercel_ai import VercelAIAdapter  # noqa: PLC0415

    serve_pydantic_ai(VercelAIAdapter, url, port)


def serve_agui(url: str, port: int) -> None:
    """Serve pydantic-ai's AG-UI adapter."""
    from pydantic_ai.ui.ag_ui import AGUIAdapter  # noqa: PLC0415

    serve_pydantic_ai(AGUIAdapter, url, port)


def serve_adk(url: str, port: int) -> None:
    """Serve what `adk api_server` serves, with the sessions in memory and models by litellm."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices
    from google.adk.agents import LlmAgent  # noqa: PLC0415
    from google.adk.cli.fast_api import get_fast_api_app  # noqa: PLC0415
    from google.adk.cli.utils.base_agent_loader import BaseAgentLoader  # noqa: PLC0415
    from google.adk.models.lite_llm import LiteLlm  # noqa: PLC0415

    agents = {
        name: LlmAgent(name=name, model=LiteLlm(f"openai/{model}", api_base=url, api_key=KEY))
        for name, model in SCENARIOS.items()
    }

    class Loader(BaseAgentLoader):  # type: ignore[misc]
        def load_agent(self, agent_name: str) -> Any:
            return agents[agent_name]

        def list_agents(self) -> list[str]:
            return list(agents)

    app = get_fast_api_app(
        agents_dir=tempfile.mkdtemp(),
        agent_loader=Loader(),
        session_service_uri="memory://",
        artifact_service_uri="memory://",
        memory_service_uri="memory://",
        use_local_storage=False,
        auto_create_session=True,
        web=False,
    )
    serve(app, port)


SERVED = {
    "pydantic-ai's Vercel adapter": serve_vercel,
    "pydantic-ai's AG-UI adapter": serve_agui,
    "ADK's api_server": serve_adk,
}

if __name__ == "__main__":
    SERVED[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
