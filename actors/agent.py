"""An agent: a model, its instructions and its tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Any, Unpack, cast

from ..events.errors import InvalidAgent, Unstorable
from ..events.frozen import frozen
from ..events.identifiers import JOURNAL
from ..events.values import plain
from .adapters import named_model
from .backing_off import RetryWait, backoff
from .choosing import (
    AgentContext,
    ChoosesInstructions,
    ChoosesModel,
    ChoosesTools,
    chooses,
)
from .context import ContextPolicy
from .handoff import Handoff
from .hooks import Hooks
from .models import AnyModel, model_id
from .outputs import Output
from .sub_agents import SubAgent, SubAgentOptions
from .tools import Tool, is_seconds

_WHOLE_LIMITS = (
    "max_steps",
    "tool_concurrency",
    "token_budget",
    "tool_call_budget",
    "session_token_budget",
)


@dataclass(frozen=True, eq=False)
class Agent:
    """What runs in a session. Immutable: any number of sessions may share one.

    ``max_steps`` bounds the model calls of a turn, ``token_budget`` its tokens,
    ``tool_call_budget`` its tool calls, ``time_budget`` the seconds it is active, and
    ``session_token_budget`` the tokens of all turns (None: no bound). They are looked at before
    the model is asked, count on over crashes and pauses, and end the turn with every call
    answered.
    ``model_timeout`` bounds a model call, in seconds; a turn whose model takes longer fails.
    ``model_retries`` is how often one model call is repeated that came to nothing because the
    provider could not answer (``ModelUnavailable``) or its stream broke off (0: not at all), and
    ``retry_wait`` how long to wait before that, in seconds, of the number of failures so far and
    of what the provider asked for (None where it did not).
    ``settings`` go along with each model call, as ``ModelRequest.settings``.
    ``tool_concurrency`` is how many calls of one model turn run at once; with 1 they run
    strictly in order.

    ``context_policy`` makes what the model sees of the conversation, where that is not all of it:
    a function of a ``Context``, such as ``last_turns(20)``.
    ``output_type`` is the type of the final answer: anything msgspec can validate. The model is
    told its JSON schema, and asked again up to ``output_retries`` times where the answer does not
    fit; then the turn fails. ``TurnResult.output`` is the answer as that type.

    ``handoffs`` are the agents that may go on with the conversation in its place: each one, or its
    name, or a ``Handoff``. ``aliases`` are names it had before: sessions that know it by one of
    these go on with it.

    ``model`` may be named: ``"openai:NAME"``. See ``named_model``.
    ``model``, ``instructions`` and ``tools`` may be quick functions that choose them when a turn
    begins, of an ``AgentContext``; for a model, which may be a function itself, its parameter is
    annotated so. What they chose is recorded. ``hooks`` are called around model and tool calls;
    they are no part of what the agent is. Raises ``InvalidAgent`` where these can't work.
    """

    name: str
    model: AnyModel | ChoosesModel | str = field(kw_only=True)
    instructions: str | ChoosesInstructions = field(default="", kw_only=True)
    tools: Iterable[Tool] | ChoosesTools = field(default=(), kw_only=True)
    max_steps: int = field(default=32, kw_only=True)
    tool_concurrency: int = field(default=8, kw_only=True)
    token_budget: int | None = field(default=None, kw_only=True)
    tool_call_budget: int | None = field(default=None, kw_only=True)
    time_budget: float | None = field(default=None, kw_only=True)
    session_token_budget: int | None = field(default=None, kw_only=True)
    model_timeout: float | None = field(default=None, kw_only=True)
    hooks: Iterable[Hooks] = field(default=(), kw_only=True)
    context_policy: ContextPolicy | None = field(default=None, kw_only=True)
    output_type: Any = field(default=None, kw_only=True)
    output_retries: int = field(default=2, kw_only=True)
    handoffs: Iterable[Agent | str | Handoff] = field(default=(), kw_only=True)
    aliases: Iterable[str] = field(default=(), kw_only=True)
    model_retries: int = field(default=2, kw_only=True)
    retry_wait: RetryWait = field(default=backoff, kw_only=True)
    settings: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidAgent("an agent needs a name")
        if self.name == JOURNAL:
            raise InvalidAgent(f"{JOURNAL!r} is no name for an agent: the runs of journals have it")
        for several in ("tools", "hooks", "handoffs", "aliases"):
            object.__setattr__(self, several, self._several(several))
        self._check_others()
        if not isinstance(self.instructions, str) and not callable(self.instructions):
            raise InvalidAgent(f"agent {self.name!r}: instructions must be a str")
        self._check_limits()
        self._check_hooks()
        if self.context_policy is not None and not callable(self.context_policy):
            raise InvalidAgent(f"agent {self.name!r}: context_policy must be a function")
        if not callable(self.retry_wait):
            raise InvalidAgent(f"agent {self.name!r}: retry_wait must be a function")
        if self.output_type is not None:
            Output(self.name, self.output_type)
        object.__setattr__(self, "settings", self._checked_settings())
        if isinstance(self.model, str):
            object.__setattr__(self, "model", named_model(self.model))
        if not chooses(self.model):
            model_id(cast(AnyModel, self.model))
        if not callable(self.tools):
            self._check_tools(self.tools)

    def _check_limits(self) -> None:
        for limit in _WHOLE_LIMITS:
            value = getattr(self, limit)
            if value is not None and (type(value) is not int or value < 1):
                raise InvalidAgent(f"agent {self.name!r}: {limit} must be 1 or more, not {value!r}")
        for limit in ("model_timeout", "time_budget"):
            value = getattr(self, limit)
            if value is not None and not is_seconds(value):
                raise InvalidAgent(
                    f"agent {self.name!r}: {limit} must be more than 0 seconds and at most ten "
                    f"years, not {value!r}"
                )
        for limit in ("output_retries", "model_retries"):
            value = getattr(self, limit)
            if type(value) is not int or value < 0:
                raise InvalidAgent(f"agent {self.name!r}: {limit} must be 0 or more, not {value!r}")

    def as_tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[SubAgentOptions],
    ) -> Tool:
        """This agent as a tool of others, with one argument, ``input``: a call of it is a turn
        in a session of its own, whose last text is the call's result.

        By default it is called like the agent. ``needs_approval``, ``approval_timeout`` and
        ``on_expiry`` are those of ``tool``. A call that was interrupted goes on where that
        session was. Raises ``InvalidAgent`` where the name is none for a tool.
        """
        return SubAgent(self, name, description, **options)

    def _check_hooks(self) -> None:
        if strangers := [each for each in self.hooks if not isinstance(each, Hooks)]:
            raise InvalidAgent(
                f"agent {self.name!r}: {type(strangers[0]).__name__} is no hook; derive it from "
                "Hooks, and give an object of it"
            )

    @property
    def targets(self) -> tuple[Handoff, ...]:
        """Its hand-offs, each as it was declared or as it is by default."""
        return cast(tuple[Handoff, ...], self.handoffs)

    @property
    def is_dynamic(self) -> bool:
        """Whether something of it is chosen anew for each turn."""
        return chooses(self.model) or callable(self.instructions) or callable(self.tools)

    def chosen(self, context: AgentContext) -> Agent:
        """The agent that it is in one turn. A turn that goes on keeps the instructions it began
        with. Raises ``InvalidAgent`` where what is chosen can't work."""
        model, instructions, tools = self.model, self.instructions, self.tools
        if chooses(model):
            model = self._choice("model", model, context)
        if callable(instructions):
            recorded = context.recorded
            if recorded is not None:
                instructions = recorded.instructions
            else:
                instructions = self._choice("instructions", instructions, context)
        if callable(tools):
            tools = tuple(self._choice("tools", tools, context))
        return replace(self, model=model, instructions=instructions, tools=tools)

    def _choice(self, what: str, choose: Callable[[AgentContext], Any], context: Any) -> Any:
        try:
            chosen = choose(context)
        except Exception as error:
            raise InvalidAgent(
                f"agent {self.name!r}: the function that chooses its {what} raised "
                f"{type(error).__name__}"
            ) from error
        if isawaitable(chosen) or chosen is None:
            raise InvalidAgent(
                f"agent {self.name!r}: the function that chooses its {what} must return it at "
                f"once, not {type(chosen).__name__}"
            )
        return chosen

    def _several(self, what: str) -> Any:
        """What was given of it, as a tuple; a function that chooses tools as it is."""
        given = getattr(self, what)
        if what == "tools" and callable(given):
            return given
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InvalidAgent(
                f"agent {self.name!r}: {what} are several, in a list, not {type(given).__name__}"
            )
        return tuple(given)

    def _check_others(self) -> None:
        aliases = tuple(dict.fromkeys(self.aliases))
        if not all(isinstance(each, str) and each and each != self.name for each in aliases):
            raise InvalidAgent(f"agent {self.name!r}: its aliases are other names, of type str")
        targets = tuple([e if isinstance(e, Handoff) else Handoff(e) for e in self.handoffs])
        if any(each.target == self.name for each in targets):
            raise InvalidAgent(f"agent {self.name!r} can't hand off to itself")
        object.__setattr__(self, "handoffs", targets)
        object.__setattr__(self, "aliases", aliases)

    def _checked_settings(self) -> Mapping[str, Any]:
        if not isinstance(self.settings, Mapping) or not all(
            isinstance(each, str) for each in self.settings
        ):
            raise InvalidAgent(f"agent {self.name!r}: settings must be a dict with names as keys")
        try:
            return cast(Mapping[str, Any], frozen(plain(dict(self.settings), "settings")))
        except Unstorable as error:
            raise InvalidAgent(f"agent {self.name!r}: {error}") from error

    def _check_tools(self, tools: Iterable[Tool]) -> None:
        names: set[str] = set()
        for each in tools:
            if not isinstance(each, Tool):
                raise InvalidAgent(
                    f"agent {self.name!r}: {getattr(each, '__name__', each)!r} is no tool; "
                    "decorate the function with @tool"
                )
            if each.name in names:
                raise InvalidAgent(f"agent {self.name!r}: two tools are named {each.name!r}")
            names.add(each.name)
        for handoff in self.targets:
            if handoff.tool.name in names:
                raise InvalidAgent(
                    f"agent {self.name!r}: the hand-off to {handoff.target!r} would be another "
                    f"tool named {handoff.tool.name!r}: give it a name with Handoff(..., name=)"
                )
            names.add(handoff.tool.name)
