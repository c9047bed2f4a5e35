"""Tools of an HTTP API that an OpenAPI file describes: `OpenAPIToolset`.

This package must never fetch what a file refers to, must never call another host than that of the base URL, and must
never show a credential: not to a model, and not in an event, an error or a repr.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.openapi.api_operations import OpenAPIOperation as OpenAPIOperation
    from holdfast.openapi.openapi_toolset import OpenAPIOptions as OpenAPIOptions
    from holdfast.openapi.openapi_toolset import OpenAPIToolset as OpenAPIToolset

_HOME: dict[str, str] = {
    "OpenAPIOperation": "holdfast.openapi.api_operations",
    "OpenAPIOptions": "holdfast.openapi.openapi_toolset",
    "OpenAPIToolset": "holdfast.openapi.openapi_toolset",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
