"""The agents that there are, with their prompts, suites and limits: reads and checks `agents/manifest.yaml`.

Everything that is wrong is found in one pass and told in one line: `file: agents.<name>.<field>: must be ...`.
No agent code runs here; modules and callables are looked up in their source text.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from agents.manifest import check as manifest_check
from agents.manifest.check import EVERYONE
from agents.model.settings import UNSAID, ModelSettings, settings_of
from telemetry.edge.errors import BadInput
from telemetry.edge.files import MANIFEST, Repo
from telemetry.edge.frozen import frozen
from telemetry.edge.records import made
from telemetry.reward import DEFAULT, Weights

__all__ = [
    "EVERYONE", "GUIDELINES", "MANIFEST", "ABTest", "AgentSpec", "BudgetLimits", "Feed", "Manifest", "Retirement",
    "Signal", "load_manifest",
]  # fmt: skip

GUIDELINES = "agents/prompts/agent_guidelines.md"
# Who runs an agent that names no code of its own: a command, or nothing but a prompt.
COMMAND = ("agents.command", "CommandAgent.run")
PROMPTED = ("agents.prompted", "PromptedAgent.run")


@frozen
class Feed:
    """Where inputs come from that are no kind of the domain: one of `file`, `call` and `http`."""

    file: str | None = None  # CSV, JSON lines, JSON, or a folder of JSON objects
    call: str | None = None  # `module:function`, given the day
    http: str | None = None
    json_path: str = ""  # where in the answer of `http` the rows are
    by_day: str | None = None  # the field whose date says to which day a row belongs
    days: str | None = None  # `module:function` that lists the days that `call` knows
    fields: Mapping[str, str] = field(default_factory=dict)  # of a row -> type, with `?` if it may be missing

    @property
    def name(self) -> str:
        """For people, and to tell sources apart: `file:data/tickets.csv`."""
        how = next(how for how in ("file", "call", "http") if getattr(self, how))
        return f"{how}:{getattr(self, how)}"


@frozen
class Signal:
    """What in an agent's output is a signal, and how strong: a field of its items, or what a function says."""

    field: str = ""  # `|field|`: whatever its sign
    full: float = 1.0  # the value that is as strong as a signal gets
    subject: str = ""  # the field that says what an item is about: what outcomes are told of
    call: str | None = None  # `module:function`, given the items: a strength in 0..1


@frozen
class Iterate:
    """How often an agent tries until its answer is good enough; see agents/iterate.py."""

    until: float
    most: int = 3
    by: str | None = None  # `module:function`, given items and inputs: a quality in 0..1


@frozen
class AgentSpec:
    """One agent as the manifest describes it; paths are relative to the repository."""

    name: str
    module: str
    callable: str
    inputs: str  # a kind, or the name of its feed
    eval_suite: str = ""
    feed: Feed | None = None
    command: str | None = None  # instead of module and callable; see agents/command.py
    env: tuple[str, ...] = ()  # variables of our environment that the command is given
    prompt: str | None = None
    shared_prompts: tuple[str, ...] = ()  # stand in front of the agent's own prompt
    output_schema: str | None = None  # JSON Schema of one item of the output list
    eval_adapter: str = ""
    enabled: bool = True
    capabilities: tuple[str, ...] = ()
    task_type: str | None = None  # what kind of task its runs are; None is its first capability
    complexity: Literal["trivial", "standard", "complex"] | None = None  # of its tasks; None is unknown
    model: str | None = None  # its own; None is the one that everyone asks
    model_settings: ModelSettings = UNSAID  # its own `model:`; the rest is as for everyone
    models: tuple[ModelSettings, ...] = ()  # one of which is drawn for every run in the field
    timeout_s: float = 60.0  # of its own work, and of each answer where `model:` says nothing else
    tools: tuple[str, ...] = ()  # `module:function` that it may use while it works
    iterate: Iterate | None = None
    execution_sensitive: bool = False
    sandbox_editable: bool = False
    reward: Weights = DEFAULT
    domain: str | None = None  # the package that knows what its inputs and signals mean
    signal: Signal | None = None  # instead of the domain's

    @property
    def asking(self) -> dict[str, Any]:
        """How it asks: options of `Model.complete`, as far as its own `model:` says them."""
        said = self.model_settings
        given = {"model": self.model, "temperature": said.temperature, "max_tokens": said.max_tokens}
        asked = {name: value for name, value in given.items() if value is not None}
        return asked | {"timeout_s": said.timeout_s or self.timeout_s}

    @property
    def prompt_paths(self) -> tuple[str, ...]:
        """Every prompt file that makes up the system text, in order."""
        return (*self.shared_prompts, self.prompt) if self.prompt else ()


@frozen
class BudgetLimits:
    """What one night, or one script by itself, may use; None is no limit."""

    max_usd: float | None = None
    max_calls: int | None = None
    max_seconds: float | None = None
    month: float | None = None  # USD, over all that the log and the data branch know of a calendar month

    def share(self, share: float) -> BudgetLimits:
        """A part of it; no limit stays none."""
        calls = None if self.max_calls is None else max(1, round(share * self.max_calls))
        usd, seconds = (None if one is None else share * one for one in (self.max_usd, self.max_seconds))
        return replace(self, max_usd=usd, max_calls=calls, max_seconds=seconds)


@frozen
class Retirement:
    """When an agent is a candidate for retirement."""

    window: int = 200  # days
    min_n: int = 100  # days
    reward_floor: float = 0.05
    shadow_share: float = 0.1  # of the budget, for running those that are switched off beside the others
    exempt: tuple[str, ...] = ()  # agents whose worth reward does not measure


@frozen
class ABTest:
    """When a challenger is promoted."""

    alpha: float = 0.02
    min_effect: float = 0.01
    trials: int = 3  # rounds in one night: trials per case and arm
    rounds: int = 15  # in all, over as many nights as it takes
    min_cases: int = 30
    max_cost_increase: float = 0.20
    max_p95_increase: float = 0.50
    wear_limit: int = 60  # verdicts that a holdout may give before it wants fresh cases
    wear: Literal["warn", "block"] = "warn"  # what happens beyond that
    goal: Literal["better", "cheaper"] = "better"  # of another model; a text always has to be better
    margin: float = 0.05  # points of score that a cheaper model may cost at most


@frozen
class Manifest:
    """The checked manifest."""

    agents: tuple[AgentSpec, ...]
    prompts: Mapping[str, tuple[str, ...]]  # prompt file -> the agents it affects
    protected_paths: tuple[str, ...] = ()
    budget: BudgetLimits = BudgetLimits()
    model: ModelSettings = UNSAID  # what everyone asks who names no other
    retirement: Retirement = Retirement()
    ab_test: ABTest = ABTest()
    critique_pairs: tuple[tuple[str, str], ...] = ()  # (critic, target)
    domain: str | None = None  # a package that offers DOMAIN; see agents/domain.py
    challenger_models: tuple[ModelSettings, ...] = ()  # compared with those that the agents ask now
    outcomes: Feed | None = None  # what came true of what agents said: a file or a function
    proposer: str = "ratchet"  # whose search finds challengers where a model is asked: ratchet | gepa

    def agent(self, name: str) -> AgentSpec:
        """The agent of that name; an unknown one is bad input."""
        for spec in self.agents:
            if spec.name == name:
                return spec
        known = ", ".join(spec.name for spec in self.agents)
        raise BadInput(f"{MANIFEST}: no agent {name!r} (there are: {known})")

    @property
    def models(self) -> tuple[ModelSettings, ...]:
        """Every `model:` that the manifest has."""
        routed = (one for spec in self.agents for one in spec.models)
        return (self.model, *(spec.model_settings for spec in self.agents), *routed, *self.challenger_models)

    def asked_by(self, specs: Iterable[AgentSpec]) -> list[str | None]:
        """Every model that these agents may ask, by name; None is the one that everyone asks."""
        return [name for spec in specs for name in (spec.model, *(one.name for one in spec.models))]

    def data_files(self) -> tuple[str, ...]:
        """The files and folders that inputs and outcomes are read from."""
        feeds = (self.outcomes, *(spec.feed for spec in self.agents))
        return tuple(feed.file for feed in feeds if feed is not None and feed.file)

    def enabled(self) -> tuple[AgentSpec, ...]:
        """The agents that run."""
        return tuple(spec for spec in self.agents if spec.enabled)


def load_manifest(repo: Repo) -> Manifest:
    """Read and check the manifest of a checkout; every problem in one `BadInput`."""
    raw = manifest_check.checked(repo.root)
    given = {**raw.get("defaults", {}), "domain": raw.get("domain")}
    usual = made(ModelSettings, settings_of(raw.get("model")))
    specs = [_agent(given | _complete(entry), usual) for entry in raw["agents"]]
    shared = {
        path: [spec.name for spec in specs if spec.prompt] if affected == EVERYONE else affected
        for path, affected in raw.get("prompts", {}).items()
    }
    for at, spec in enumerate(specs):
        before = tuple(path for path in shared if spec.name in shared[path] and path != spec.prompt)
        specs[at] = replace(spec, shared_prompts=before)
    affects: dict[str, tuple[str, ...]] = {}
    for spec in specs:
        for path in spec.prompt_paths:
            affects[path] = (*affects.get(path, ()), spec.name)
    pairs = tuple(_pairs(raw.get("critique_pairs", ()), [spec.name for spec in specs]))
    tried = [settings_of(one) for one in raw.get("challenger_models", ())]
    about = {"agents": tuple(specs), "prompts": affects, "critique_pairs": pairs, "model": None}
    return replace(made(Manifest, {**raw, **about, "challenger_models": tried}), model=usual)


def _agent(entry: Mapping[str, Any], usual: ModelSettings) -> AgentSpec:
    """The agent of an entry: its `model:` as a name, and as settings."""
    own = made(ModelSettings, settings_of(entry.get("model")))
    settings = replace(own, timeout_s=own.timeout_s or usual.timeout_s)
    routed = tuple(made(ModelSettings, settings_of(one)) for one in entry.get("models", ()))
    told = {**entry, "model": own.name, "models": None}
    return replace(made(AgentSpec, told), model_settings=settings, models=routed)


def _complete(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with what it leaves open: whose code runs, and a name for inputs that are described."""
    module, method = COMMAND if "command" in entry else PROMPTED
    whole = {"module": module, "callable": method, **entry}
    if "models" in entry:  # where none is drawn, as in evals, the first one is asked
        whole = {"model": entry["models"][0], **whole}
    if isinstance(entry["inputs"], str):
        return whole
    return {**whole, "feed": entry["inputs"], "inputs": made(Feed, entry["inputs"]).name}


def _pairs(raw: Iterable[Sequence[str]], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each pair once; `[critic, "*"]` is the critic over everyone else."""
    seen: set[tuple[str, str]] = set()
    for critic, target in raw:
        for name in names if target == EVERYONE else (target,):
            if (name != critic or target != EVERYONE) and (critic, name) not in seen:
                seen.add((critic, name))
                yield critic, name


OUTSIDE = "outside the repository"

_PATH = re.compile(
    r"(?<![\w/.-])(?:\.{0,2}/)?[\w.-]+(?:/[\w.*-]+)+|\.github\b|\b[\w-]+\.(?:py|ya?ml|toml|jsonl?|cfg|sh)\b"
)
_WILD = re.compile(r"(\*\*/|\*\*|\*)")
_MEANS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}


def matches(path: str, glob: str) -> bool:
    """Does the glob match the path, letter by letter?"""
    return _pattern(glob).fullmatch(path) is not None


def protecting(path: str, globs: Sequence[str]) -> str | None:
    """The glob that protects the path, or `OUTSIDE`; None when it may be touched."""
    plain = normal(path)
    if plain == "." or plain.startswith(("/", "~/", "../")) or plain in ("..", "~"):
        return OUTSIDE
    spellings = {path.casefold(), plain}  # as given, too: a detour through a protected folder gains nothing
    return next((glob for glob in globs if any(_covers(glob, one) for one in spellings)), None)


def normal(path: str) -> str:
    """One spelling for all spellings of a path."""
    return posixpath.normpath(path.strip()).casefold()


def mentions(row: Mapping[str, Any], globs: Sequence[str]) -> list[str]:
    """The protected paths that a finding, a proposal or a recommendation would touch."""
    return list(dict.fromkeys(path for path in _paths(row) if protecting(path, globs)))


def _paths(row: Mapping[str, Any]) -> Iterator[str]:
    """The paths it would touch: named outright, or mentioned in the change."""
    for key in ("path", "target"):
        if isinstance(row.get(key), str) and row[key].strip():
            yield row[key]
    change = row.get("change")
    if isinstance(change, str):
        yield from (match.group().rstrip(".") for match in _PATH.finditer(change))


def _covers(glob: str, path: str) -> bool:
    """Does the glob match the path or a folder above it? `a/**` is about the folder `a` as well."""
    whole = normal(glob)
    folder = whole.removesuffix("/**")
    return any(matches(path, one) for one in (glob.casefold(), whole, folder, f"{folder}/**"))


@functools.lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile("".join(_MEANS.get(part, re.escape(part)) for part in _WILD.split(glob)), re.DOTALL)
