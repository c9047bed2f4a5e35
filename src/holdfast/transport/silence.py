"""Notes on a cancellation which server was silent, so that the error of a turn can name it."""

from __future__ import annotations


class SilenceNote(str):
    """A note of the transport. Notes of others are not shown to users."""

    __slots__ = ()


def read_silence_notes(stopped: BaseException | None) -> str:
    """Return what the transport noted on an exception, as one text.

    >>> cancelled = ValueError()
    >>> cancelled.add_note("written by a tool")
    >>> cancelled.add_note(SilenceNote("api.example had sent nothing for 60 s."))
    >>> read_silence_notes(cancelled)
    'api.example had sent nothing for 60 s.'
    """
    notes = getattr(stopped, "__notes__", ())
    return " ".join(note for note in notes if isinstance(note, SilenceNote))
