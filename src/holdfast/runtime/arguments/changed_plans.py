"""The input of a new turn, and the plans of turns that have a model, an output type or tools of their own.

A changed plan is compiled once for equal keywords. An argument that cannot be saved has a fingerprint,
and a turn continues only with the same. This module must never change the plan of the agent, or start
a run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, cast

import msgspec

from holdfast.core.argument_checks import check_value
from holdfast.core.client_tools import ClientTool
from holdfast.core.errors import ConfigurationError
from holdfast.core.hosted_tools import HostedTool, split_hosted_tools
from holdfast.core.json_schema import JsonSchema
from holdfast.core.model_request import ModelSettings
from holdfast.core.turn_options import (
    NO_OPTIONS,
    Fingerprints,
    TurnOptions,
    copy_metadata,
    merge_settings,
)
from holdfast.middleware.chain import compile_chain, limits_with
from holdfast.models.http_model import Model
from holdfast.models.resolve import ModelAt
from holdfast.runtime.arguments.run_keywords import RUN_NAMES, RunKeywords, check_names
from holdfast.runtime.compile import (
    AgentKeywords,
    add_toolsets,
    at_address,
    check_wires,
    compile_output_type,
    compose_call,
    finish_registry,
    resolve,
)
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.spending import check_cost_limit
from holdfast.runtime.turn_state.turn_input import (
    CHANGED_NAMES,
    NO_CHANGES,
    PlanChanges,
    Prompt,
    TurnInput,
    read_changes,
    to_message,
)
from holdfast.telemetry.observers import read_trace
from holdfast.tools.registry import Registry
from holdfast.tools.tool import Tool
from holdfast.tools.toolset import Toolset, join_tools

_MOST_PLANS = 16
_MARK = "#"  # between a name and the digest of its shape
_encode = msgspec.json.Encoder(order="deterministic").encode


class ChangedPlans:
    """Compiles the plans of turns with changes, and finds them again.

    Args:
        plan: the plan of the agent.
        keywords: its keywords.
    """

    __slots__ = ("_keywords", "_lock", "_plans", "plan")

    def __init__(self, plan: AgentPlan, keywords: AgentKeywords) -> None:
        self.plan = plan
        self._keywords = keywords
        self._plans: dict[object, AgentPlan] = {}
        self._lock = threading.Lock()

    def with_plan(self, plan: AgentPlan) -> ChangedPlans:
        """Return the plans of the same keywords for another plan of the agent."""
        return ChangedPlans(plan, self._keywords)

    def find_plan(self, changes: PlanChanges) -> AgentPlan:
        """Return the plan with these changes. Raises ConfigurationError that names the keyword."""
        if changes == NO_CHANGES:
            return self.plan
        output = changes.output
        chosen = tuple(output) if isinstance(output, list) else output
        key = (changes.model, chosen, changes.tools, changes.toolsets)
        try:
            found = self._plans.get(key)
        except TypeError:  # something in it cannot be hashed
            return _change_plan(self.plan, self._keywords, changes)
        if found is None:
            found = _change_plan(self.plan, self._keywords, changes)
            with self._lock:
                if len(self._plans) >= _MOST_PLANS:
                    del self._plans[next(iter(self._plans))]
                self._plans[key] = found
        return found

    def restore_plan(
        self, saved: TurnOptions | None, given: PlanChanges, *, only_needed: bool = False
    ) -> AgentPlan:
        """Return the plan of a turn that continues.

        Args:
            saved: the options of the turn in the journal.
            given: the changes that the caller passes now.
            only_needed: ignore changes that the turn did not begin with.

        Raises:
            ConfigurationError: the turn began with something else; the error names the keyword.
        """
        saved = saved or NO_OPTIONS
        if given == NO_CHANGES and saved == NO_OPTIONS:
            return self.plan
        if only_needed:
            needed = [name for name in CHANGED_NAMES if name in saved.fingerprints]
            given = PlanChanges(**{name: getattr(given, name) for name in needed})
        before = dict(saved.fingerprints)
        if saved.model:
            before["model"] = (saved.model,)
            if given.model is None:
                given = msgspec.structs.replace(given, model=saved.model)
        now = _take_fingerprints(given)
        for name in CHANGED_NAMES:
            _check_fingerprint(name, before.get(name), now.get(name))
        return with_options(self.find_plan(_add_saved(given, saved)), saved)


def _add_saved(given: PlanChanges, saved: TurnOptions) -> PlanChanges:
    """Return the changes of a turn, with those that the journal has."""
    tools = tuple(one for one in given.tools if not isinstance(one, ClientTool))
    output = given.output if saved.output is None else saved.output
    return msgspec.structs.replace(given, tools=(*tools, *saved.client_tools), output=output)


def with_options(plan: AgentPlan, options: TurnOptions) -> AgentPlan:
    """Return the plan with the model settings and the instructions of one turn."""
    changed = plan
    if options.instructions:
        changed = replace(plan, instructions=plan.instructions.add_text(options.instructions))
    if options.settings is not None:
        changed = replace(changed, settings=merge_settings(plan.settings, options.settings))
        check_wires(changed)
    return changed


def make_options(
    plan: AgentPlan, keywords: Mapping[str, Any], changes: PlanChanges
) -> TurnOptions | None:
    """Return the options that the journal saves of the keywords of a turn; None when there are none.

    Args:
        plan: the plan of the turn.
        keywords: the keywords of the call.
        changes: those of them from which the plan was compiled.

    Raises:
        ConfigurationError: the settings or the metadata cannot be saved.
    """
    settings, metadata = keywords.get("settings"), keywords.get("metadata")
    check_value("settings", settings, ModelSettings | None)
    model, fingerprints = keywords.get("model"), dict(plan.fingerprints)
    if isinstance(model, str):
        del fingerprints["model"]
    instructions, output = keywords.get("instructions"), changes.output
    if instructions is not None:
        check_value("instructions", instructions, str)
    by = keywords.get("by") or ""
    if by:
        check_value("by", by, str)
    trace = keywords.get("trace")
    if trace is not None:
        check_value("trace", trace, str)
    options = TurnOptions(
        model=model if isinstance(model, str) else "",
        settings=settings,
        metadata={} if metadata is None else copy_metadata(metadata),
        fingerprints=fingerprints,
        instructions=instructions or "",
        client_tools=_find_client_tools(changes) if changes.tools else (),
        output=output if isinstance(output, JsonSchema) else None,
        by=by,
        trace=read_trace(trace) if trace else "",
    )
    _check_saveable(settings)
    return None if options == NO_OPTIONS else options


def _find_client_tools(changes: PlanChanges) -> tuple[ClientTool, ...]:
    return tuple(one for one in changes.tools if isinstance(one, ClientTool))


def _check_saveable(settings: ModelSettings | None) -> None:
    try:
        _encode(settings)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            "settings.extra", "has a value that is not JSON", fix="Pass texts, numbers and lists"
        ) from error


def _change_plan(plan: AgentPlan, keywords: AgentKeywords, changes: PlanChanges) -> AgentPlan:
    """Compile the plan of the agent with changes."""
    output, models, limits = plan.output, plan.models, plan.limits
    if changes.output is not None:
        output = compile_output_type(changes.output)
        limits = limits_with(plan.middlewares, keywords["limits"])
        limits = limits if output is None else output.cap_limits(limits)
    if changes.model is not None:
        first = _with_access(keywords, changes.model)
        model = resolve(keywords, first)
        models = (model, *(one for one in plan.models[1:] if one.name != model.name))
        check_cost_limit(limits, plan.prices, models, plan.clock.now())
    if changes.output is not None or changes.model is not None:
        plan = replace(plan, **compose_call(keywords, models, output, plan.clock))
    chain = plan.chain
    of_toolsets = [one for toolset in changes.toolsets for one in toolset.middlewares]
    if of_toolsets:
        chain = compile_chain([*plan.middlewares, *of_toolsets])
    functions, hosted = _split_tools(changes)
    groups = [("the tools of the agent", plan.registry.tools)]
    if functions:
        groups.append(("tools=", tuple(Registry(functions))))
    registry = add_toolsets(Registry(join_tools(groups)), changes.toolsets)
    toolsets = (*plan.toolsets, *(one for one in changes.toolsets if one.fixed_tools is None))
    is_complete = bool(registry.tools) and not toolsets
    registry = finish_registry(registry, output, chain, is_complete=is_complete)
    lifespans = {key: use for one in changes.toolsets for key, use in one.lifespans.items()}
    changed = replace(
        plan,
        models=models,
        hosted_tools=(*plan.hosted_tools, *hosted),
        output=output,
        chain=chain,
        limits=limits,
        registry=registry,
        toolsets=toolsets,
        lifespans={**plan.lifespans, **lifespans},
        fingerprints=_take_fingerprints(changes),
    )
    if changed.hosted_tools or changes.model is not None:
        check_wires(changed)
    return changed


def _with_access(keywords: AgentKeywords, model: str | ModelAt | Model) -> ModelAt | Model:
    """Return the model of a turn, at the agent's address if it is of the same provider."""
    own = keywords["model"]
    if not isinstance(model, str):
        return model
    if isinstance(own, str) and own.partition(":")[0] == model.partition(":")[0]:
        return at_address(keywords, model)
    return ModelAt(model)


def _take_fingerprints(changes: PlanChanges) -> Fingerprints:
    """Return the names of the changes that cannot be saved, with digests of their shapes."""
    found: dict[str, tuple[str, ...]] = {}
    if changes.model is not None:
        found["model"] = (_name_model(changes.model),)
    if changes.output is not None and not isinstance(changes.output, JsonSchema):
        output = compile_output_type(changes.output)
        schema = None if output is None else output.schema
        found["output"] = ("str",) if schema is None else (_mark(schema.name, schema.schema),)
    functions, hosted = _split_tools(changes)
    own = [one for one in functions if not isinstance(one, ClientTool)]
    if own or hosted:
        marks = [_mark_tool(one) for one in Registry(own)]
        found["tools"] = (*marks, *(one.name for one in hosted))
    if changes.toolsets:
        found["toolsets"] = tuple(map(_mark_toolset, changes.toolsets))
    return found


def _name_model(model: str | ModelAt | Model) -> str:
    if isinstance(model, str):
        return model
    return str(model.name) or str(model.model)


def _split_tools(
    changes: PlanChanges,
) -> tuple[tuple[Callable[..., object] | Tool | ClientTool, ...], tuple[HostedTool, ...]]:
    functions, hosted = split_hosted_tools(changes.tools)
    # The registry checks that the others are functions.
    return cast("tuple[Callable[..., object] | Tool | ClientTool, ...]", functions), hosted


def _mark_tool(tool: Tool) -> str:
    return _mark(tool.name, {"effect": tool.effect, "schema": tool.spec.schema})


def _mark_toolset(toolset: Toolset) -> str:
    if toolset.fixed_tools is None:
        return toolset.name
    return _mark(toolset.name, {"tools": [_mark_tool(one) for one in toolset.fixed_tools]})


def _mark(name: str, shape: object) -> str:
    """Return the name with a digest of a schema without its words, which may change."""
    digest = blake2b(_encode(_drop_words(shape)), digest_size=4).hexdigest()
    return f"{name}{_MARK}{digest}"


def _drop_words(shape: object) -> object:
    if isinstance(shape, Mapping):
        words = [key for key in ("description", "title") if isinstance(shape.get(key), str)]
        return {key: _drop_words(value) for key, value in shape.items() if key not in words}
    if isinstance(shape, list | tuple):
        return [_drop_words(one) for one in shape]
    return shape


def _check_fingerprint(name: str, saved: Sequence[str] | None, now: Sequence[str] | None) -> None:
    """Raise ConfigurationError unless a turn continues with the values that it began with."""
    if (saved and tuple(saved)) == now:
        return
    if saved is None:
        raise ConfigurationError(
            name,
            f"was not passed when this turn began, and now is {_show(now)}",
            fix="Leave it out",
        )
    shown = _show(saved)
    fix = f"Pass the same {name}= as when the turn began"
    if now is None:
        raise ConfigurationError(
            name, f"is missing: this turn began with {shown}, which a journal cannot save", fix=fix
        )
    also = " with another schema" if _show(now) == shown else f" {_show(now)}"
    raise ConfigurationError(name, f"this turn began with {shown}, and now it is{also}", fix=fix)


def _show(names: Sequence[str] | None) -> str:
    return ", ".join(one.partition(_MARK)[0] for one in names or ())


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
