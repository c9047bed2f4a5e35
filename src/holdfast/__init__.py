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
    pass

__version__ = "0.1.0"

_HOME: dict[str, str] = {}
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
