"""The keys of the chat and the commands of its palette, as tables."""

from __future__ import annotations

KEYS: tuple[tuple[str, str], ...] = (
    ("Enter", "send"),
    ("Shift+Enter, Ctrl+J", "new line"),
    ("Esc, Ctrl+C", "stop the turn; once more: leave"),
    ("Up, Down", "in an empty input: earlier messages"),
    ("PageUp, PageDown", "scroll the chat"),
    ("Tab", "go to the chat: Enter folds, c copies a block"),
    ("Ctrl+U", "in an empty input, or /undo: undo the last turn"),
    ("Ctrl+L", "begin another session; this one stays"),
    ("Ctrl+Y", "copy the chat"),
    ("Ctrl+E", "export the chat as Markdown and JSON lines"),
    ("Ctrl+/ or F3", "show the rules"),
    ("Ctrl+S or F4", "safety on and off"),
    ("Ctrl+, or F2", "settings"),
    ("Ctrl+P", "commands"),
    ("Ctrl+Z", "suspend; fg brings it back"),
    ("Ctrl+Q", "leave"),
    ("F1 or /help", "these keys"),
    ("y, n, b", "at a question: yes, no, no with a reason"),
    ("d, m, r", "at a question: details, change, for how long"),
    ("/word", "/clear /copy /export /model /quit /rules /safety"),
    ("", "/settings /trust /undo do the same as their keys"),
)
"""Each key and its action."""

PALETTE: tuple[tuple[str, str, str], ...] = (
    ("Settings", "Model, agent, theme and limits", "edit_settings"),
    ("Show Policies", "The rules that hold, in the order of decision", "show_rules"),
    ("Toggle Safety", "Ask before calls that the rules confirm, or not", "toggle_safety"),
    ("Clear Chat", "Close this session and begin another", "clear"),
    ("Configure API Key", "Save a key in the system's keychain", "configure_key"),
    ("Select Model", "Choose the model of the next turns", "select_model"),
    ("Change Orchestrator Agent", "Choose the agent that you talk to", "select_agent"),
    ("Adjust Temperature", "How freely the model chooses its words", "adjust_temperature"),
    ("Configure Max Tokens", "The longest reply", "configure_max_tokens"),
    ("Trust This Folder", "Use its instructions, agents, skills and keys", "ask_for_trust"),
)
"""Each command of the palette: its title, a line about it, and its name in `ChatSession.perform`."""

SLASH_COMMANDS: dict[str, str] = {
    "/clear": "clear",
    "/copy": "copy_chat",
    "/export": "export",
    "/help": "show_keys",
    "/model": "select_model",
    "/quit": "ask_to_leave",
    "/rules": "show_rules",
    "/safety": "toggle_safety",
    "/settings": "edit_settings",
    "/trust": "ask_for_trust",
    "/undo": "undo",
}
"""The action of a message that is nothing but such a word, by its name in `ChatSession.perform`."""
