"""OpenAI's protocols below `/v1`."""

from __future__ import annotations

from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.server.api.native_api import NativeApi
from holdfast.server.protocols.chat import chat_routes
from holdfast.server.protocols.responses import response_routes


def make_openai_api(service: ServiceTenants) -> NativeApi:
    """Return the application that answers below `/v1`."""
    return NativeApi(service, (*response_routes.OPERATIONS, *chat_routes.OPERATIONS))
