"""The words for a failure of a tool, as the model reads them: its type and the fix, redacted.

This module must never put the value of an argument into a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from adh.storage.storage_errors import (
    ChangedContentError,
    ProjectFileError,
    StorageError,
    explain_os_error,
)
from holdfast.errors import redact
from holdfast.tools import ToolError


def describe_failure(error: Exception, argument: str) -> str:
    """Return the text for the model.

    Args:
        error: the failure.
        argument: the name of the argument that it is about, such as "file_path".

    >>> describe_failure(FileNotFoundError(2, "No such file", "/secret"), "file_path")
    'FileNotFoundError: file_path does not exist. Check the path.'
    """
    kind = type(error).__name__
    if isinstance(error, StorageError) and not isinstance(error, ProjectFileError):
        reason = f"a file of the program {error.problem}. {error.fix}."
        return redact(f"{kind}: nothing was done, because {reason}")
    if isinstance(error, ProjectFileError):
        problem, fix = error.problem, error.fix
    elif isinstance(error, OSError):
        problem, fix = explain_os_error(error)
    else:
        problem, fix = "cannot be used", "Check the path"
    return redact(f"{kind}: {argument} {problem}. {fix}.")


@contextmanager
def raise_as_tool_error(argument: str) -> Iterator[None]:
    """Turn errors of files into texts for the model.

    Args:
        argument: the name of the argument that they are about.

    Raises:
        ToolError: the block raised an error of a file.
    """
    try:
        yield
    except ChangedContentError as error:
        text = describe_failure(error, argument)
        raise ToolError(f"{text} Nothing was changed.") from error
    except (StorageError, OSError, ValueError) as error:
        raise ToolError(describe_failure(error, argument)) from error
