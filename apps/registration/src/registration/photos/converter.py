"""Runs the program that decodes pictures: few at a time, without the secrets of this process.

This module must never decode a picture itself.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from typing import BinaryIO, Final

import msgspec
from msgspec import Struct

PROGRAM: Final = "registration.photos.conversion"
SECONDS: Final = 60.0

UNREADABLE: Final = "the photo could not be opened; please take it again with the normal camera"


class ConvertedPicture(Struct, frozen=True):
    """A picture as JPEG."""

    picture: bytes

    def __repr__(self) -> str:
        return f"ConvertedPicture(<{len(self.picture)} bytes>)"


class RefusedPicture(Struct, frozen=True):
    """A picture that cannot be used.

    Args:
        reason: why, as a part of a sentence for the parent.
    """

    reason: str


class ConversionFailed(Exception):
    """Nobody knows whether the picture can be used: the program did not run to its end."""


class _Head(Struct):
    refused: str | None = None
    size: int = 0


class Converter:
    """Converts pictures.

    Args:
        at_once: how many at the same time.
        seconds: the longest time for one.
    """

    def __init__(self, at_once: int = 1, seconds: float = SECONDS) -> None:
        self._turn = asyncio.Semaphore(at_once)
        self._seconds = seconds

    async def convert(self, file: BinaryIO) -> ConvertedPicture | RefusedPicture:
        """Return a picture as JPEG, or why it cannot be used.

        Args:
            file: a file of the system.

        Raises:
            ConversionFailed: it may succeed another time.
        """
        async with self._turn:
            status, output = await self._run(file)
        if status == -signal.SIGXCPU:
            return RefusedPicture(UNREADABLE)
        head, _, picture = output.partition(b"\n")
        try:
            answer = msgspec.json.decode(head, type=_Head)
        except msgspec.MsgspecError:
            answer = None
        if answer is not None and answer.refused is not None:
            return RefusedPicture(answer.refused)
        if status == 0 and answer is not None and picture and answer.size == len(picture):
            return ConvertedPicture(picture)
        if status in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGFPE):
            return RefusedPicture(
                UNREADABLE
            )  # a decoder that breaks over these bytes will do so again
        raise ConversionFailed(f"the program that opens pictures ended with {status}")

    async def _run(self, file: BinaryIO) -> tuple[int, bytes]:
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-m", PROGRAM),
                stdin=file,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={"LC_ALL": "C.UTF-8"},
                start_new_session=True,  # a signal for the terminal of the service is not for it
            )
        except OSError as error:
            raise ConversionFailed(f"no program could be started ({error.errno})") from None
        try:
            async with asyncio.timeout(self._seconds):
                output, _ = await process.communicate()
        except TimeoutError:
            raise ConversionFailed("it took too long") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        assert process.returncode is not None  # noqa: S101  # REASON: it has ended
        return process.returncode, output
