"""The public names of Holdfast, a runtime for LLM agents that keep working when things fail.

This module must not import anything until a name is asked for: `import holdfast` costs a dictionary.
A public name has one row in `_HOME` and one import under TYPE_CHECKING; the tests compare the two.

>>> import holdfast
>>> holdfast.__version__
'0.1.0'
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.errors import ConfigurationError as ConfigurationError
    from holdfast.core.errors import ConflictError as ConflictError
    from holdfast.core.errors import ErrorCategory as ErrorCategory
    from holdfast.core.errors import ErrorInfo as ErrorInfo
    from holdfast.core.errors import HoldfastBug as HoldfastBug
    from holdfast.core.errors import HoldfastError as HoldfastError
    from holdfast.core.errors import Landed as Landed
    from holdfast.core.errors import LimitError as LimitError
    from holdfast.core.errors import OutputError as OutputError
    from holdfast.core.errors import ProviderError as ProviderError
    from holdfast.core.errors import ResponseError as ResponseError
    from holdfast.core.errors import TransportError as TransportError
    from holdfast.core.limits import Limits as Limits
    from holdfast.core.messages import FinishReason as FinishReason
    from holdfast.core.messages import Message as Message
    from holdfast.core.messages import Reply as Reply
    from holdfast.core.messages import Usage as Usage

__version__ = "0.1.0"

_HOME: dict[str, str] = {
    "ConfigurationError": "holdfast.core.errors",
    "ConflictError": "holdfast.core.errors",
    "ErrorCategory": "holdfast.core.errors",
    "ErrorInfo": "holdfast.core.errors",
    "FinishReason": "holdfast.core.messages",
    "HoldfastBug": "holdfast.core.errors",
    "HoldfastError": "holdfast.core.errors",
    "Landed": "holdfast.core.errors",
    "LimitError": "holdfast.core.errors",
    "Limits": "holdfast.core.limits",
    "Message": "holdfast.core.messages",
    "OutputError": "holdfast.core.errors",
    "ProviderError": "holdfast.core.errors",
    "Reply": "holdfast.core.messages",
    "ResponseError": "holdfast.core.errors",
    "TransportError": "holdfast.core.errors",
    "Usage": "holdfast.core.messages",
}
"""Public name -> the module that defines it. Sorted."""

__all__ = sorted(["__version__", *_HOME])


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
