"""Show and manage the texts that compete for each prompt: list, ensure, diff, add; rules: what they may say."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from agents.texts.variants import Variant, Variants, name_of, sha256
from telemetry.edge import cli
from telemetry.edge.errors import BadInput
from telemetry.edge.files import PROMPTS, Repo, here
from telemetry.edge.records import plain


def ensure_variants(prompt_path: str | Path) -> dict[str, str]:
    """Make sure `A`, `B` and `champion` exist, each starting as the live text; gives name -> sha256."""
    return Variants(here(), prompt_path).ensure()


def load_variant(prompt_path: str | Path, variant: str) -> str:
    """The text of a variant, checked."""
    return Variants(here(), prompt_path).text(variant)


def save_champion(prompt_path: str | Path, text: str) -> None:
    """Replace champion and live prompt."""
    Variants(here(), prompt_path).save_champion(text)


class _Command(argparse.ArgumentParser):
    """A command's own arguments, refused in one line like all others."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(cli.BAD_INPUT, f"{self.prog}: {message} (see --help)\n")


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Command)
    commands.add_parser("list", help="champion, challengers, hashes, lineage, last verdict")
    ensure = commands.add_parser("ensure", help="make A, B and champion exist")
    ensure.add_argument("prompt", nargs="*", help="prompt file (default: all)")
    ensure.add_argument("--take", choices=("live", "champion"), help="which text stays where the two differ")
    diff = commands.add_parser("diff", help="a challenger against the champion")
    diff.add_argument("prompt", help="prompt file")
    diff.add_argument("--variant", help="which one (default: every challenger)")
    add = commands.add_parser("add", help="keep FILE as a new challenger")
    add.add_argument("file", type=Path, metavar="FILE")
    add.add_argument("--prompt", required=True, help="prompt file it competes for")
    add.add_argument("--name", help="its name (default: the next letter)")
    made_from = "the variant it was made from (champion)"
    add.add_argument("--from", dest="made_from", metavar="NAME", help=made_from)
    add.add_argument("--author", default="", help="a person, or the model that wrote it")
    add.add_argument("--reason", default="", help="why it may be better")
    rules = commands.add_parser("rules", help="the keys that a `rules` block may set, by analyst")
    rules.add_argument("analyst", nargs="?", help="only this one (default: all)")
    for command in commands.choices.values():  # the common flags, also after the command
        command.add_argument("--root", type=Path, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        for flag in ("--json", "--quiet"):
            command.add_argument(flag, action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


@cli.entry(parser)
def main(args: argparse.Namespace, repo: Repo) -> int:
    run = {"list": _list, "ensure": _ensure, "diff": _diff, "add": _add, "rules": _rules}[args.command]
    cli.tell(args, *run(repo, args))
    return cli.OK


def prompts(repo: Repo) -> list[str]:
    return sorted(str(PROMPTS / file.name) for file in (repo / PROMPTS).glob("*.md"))


def _list(repo: Repo, args: argparse.Namespace) -> tuple[Any, str]:
    from eval.ab.memory import Memory

    verdicts = Memory(repo).verdicts
    entries = [_entry(Variants(repo, prompt), verdicts) for prompt in prompts(repo)]
    lines = []
    for entry in entries:
        lines.append(f"{entry['prompt']}  {name_of('champion', entry['champion_sha256'])}")
        for one in entry["challengers"]:
            source = one["lineage"] or {}
            about = ", ".join(str(source[key]) for key in ("source", "author", "date") if source.get(key))
            verdict = f"  {one['last_verdict']}" if one["last_verdict"] else ""
            called = name_of(one["variant"], one["sha256"])
            lines.append(f"  {called:<10}  {about or 'origin unknown'}{verdict}")
        lines += [f"  {name:<10}  {problem}" for name, problem in entry["problems"].items()]
    return {"prompts": entries}, "\n".join(lines) or "no prompts"


def _entry(texts: Variants, verdicts: dict[tuple[str, str], str]) -> dict[str, Any]:
    challengers, problems = texts.challengers()
    rows = [
        {
            "variant": one.name,
            "sha256": one.sha256,
            "lineage": plain(texts.origin(one.sha256)),
            "last_verdict": verdicts.get((texts.prompt, one.sha256)),
        }
        for one in challengers
    ]
    champion = texts.champion().sha256
    return {"prompt": texts.prompt, "champion_sha256": champion, "challengers": rows, "problems": problems}


def _ensure(repo: Repo, args: argparse.Namespace) -> tuple[Any, str]:
    done = {}
    for texts in [Variants(repo, prompt) for prompt in args.prompt or prompts(repo)]:
        if args.take:
            texts.reconcile(args.take)
        done[texts.prompt] = texts.ensure()
    return done, "\n".join(f"{prompt}: {', '.join(sorted(found))}" for prompt, found in done.items())


def _diff(repo: Repo, args: argparse.Namespace) -> tuple[Any, str]:
    from meta.proposals.edits import unified

    texts = Variants(repo, args.prompt)
    champion = texts.champion()
    others = texts.challengers()[0]
    if args.variant:
        others = [Variant(champion.prompt, args.variant, texts.text(args.variant))]
    diffs = {one.name: unified(champion.text, one.text, one.called, context=2) for one in others}
    return diffs, "\n".join(diffs.values()) or f"{champion.prompt}: no challenger differs from the champion"


def _add(repo: Repo, args: argparse.Namespace) -> tuple[Any, str]:
    try:
        text = args.file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as problem:
        raise BadInput(f"{args.file}: cannot be read ({problem})") from None
    texts = Variants(repo, args.prompt)
    texts.ensure()
    parent = sha256(texts.text(args.made_from)) if args.made_from else None
    about = {"source": "hand", "author": args.author, "reason": args.reason}
    variant = texts.add(text, **about, name=args.name, parent=parent)
    value = {"prompt": variant.prompt, "variant": variant.name, "sha256": variant.sha256}
    return value, f"{variant.prompt}: added as challenger {variant.called}"


def _rules(repo: Repo, args: argparse.Namespace) -> tuple[Any, str]:
    from agents.manifest import load_manifest
    from agents.offline.rules import told
    from meta.offline import analysts

    known = analysts(load_manifest(repo))
    if args.analyst and args.analyst not in known:
        raise BadInput(f"{args.analyst}: no such analyst; there are {', '.join(sorted(known))}")
    shown = {name: one for name, one in known.items() if args.analyst in (None, name)}
    lines = "\n\n".join(told(name, one) for name, one in shown.items())
    return {name: plain(one.keys) for name, one in shown.items()}, lines


if __name__ == "__main__":
    raise SystemExit(main())
