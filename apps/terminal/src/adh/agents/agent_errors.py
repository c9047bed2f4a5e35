"""What is wrong with a file of agents or models: the file, the line and the fix."""

from __future__ import annotations


class AgentFileError(Exception):
    """A file of an agent, of aliases or of project instructions cannot be used.

    Args:
        file: the file.
        problem: what is wrong.
        fix: what to do.
        line: the line, from 1; 0 if the whole file is meant.

    >>> str(AgentFileError("agents/a/agent.md", "has no description", "Add one", 2))
    'agents/a/agent.md:2: has no description. Add one.'
    """

    def __init__(self, file: str, problem: str, fix: str, line: int = 0) -> None:
        place = f"{file}:{line}" if line else file
        super().__init__(f"{place}: {problem}. {fix}.")
        self.file = file
        self.problem = problem
        self.fix = fix
        self.line = line
