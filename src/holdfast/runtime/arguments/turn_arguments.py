"""Builds the input of a new turn from the arguments of `Agent.run`.

This module must not start a run.
"""

from __future__ import annotations

from typing import Any

from holdfast.runtime.arguments.changed_plans import ChangedPlans, make_options, with_options
from holdfast.runtime.arguments.run_keywords import RUN_NAMES, RunKeywords, check_names
from holdfast.runtime.turn_state.plan_changes import read_changes
from holdfast.runtime.turn_state.turn_input import Prompt, TurnInput, to_message


def make_turn(
    plans: ChangedPlans, prompt: Prompt, output: object, keywords: RunKeywords[Any]
) -> TurnInput:
    """Build the input of a turn. Raises ConfigurationError that names the argument.

    Args:
        plans: the plans of the agent.
        prompt: the message of the user.
        output: the type of the output; None for that of the agent.
        keywords: the other keywords.
    """
    message = to_message(prompt)
    if output is None and not keywords:
        plans.plan.check_deps(None)
        return TurnInput(message=message)
    given: dict[str, Any] = {"output": output, **keywords}
    check_names("Agent.run", given, RUN_NAMES)
    plans.plan.check_deps(given.get("deps"))
    changes = read_changes(given)
    plan = plans.find_plan(changes)
    options = make_options(plan, given, changes)
    return TurnInput(
        message=message,
        session=given.get("session"),
        history=given.get("history", ()),
        limits=given.get("limits"),
        deps=given.get("deps"),
        request=given.get("request"),
        plan=plan if options is None else with_options(plan, options),
        changes=changes,
        options=options,
    )
