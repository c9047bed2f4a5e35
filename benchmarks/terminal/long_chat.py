"""A chat with many messages, without a model: `python -m benchmarks.terminal.long_chat MESSAGES`."""

from __future__ import annotations

import sys

from apps.terminal.tests.screen.scripted_chat import ScriptedChat

LAST = "the newest answer"


def main() -> None:
    """Open the chat."""
    chat = ScriptedChat()
    turns = int(sys.argv[1]) // 2
    for number in range(turns):
        answer = f"answer {number}\n\n" + "More words of it. " * (number * 7 % 40)
        chat.conversation.say(f"message {number}", LAST if number == turns - 1 else answer)
    chat.app.run()


if __name__ == "__main__":
    main()
