"""Trains on exported batches for real: three steps each of SFT, DPO and GRPO with our reward, on a tiny model.

`make train` installs what it takes (TRL and torch, too heavy for `make test`) and runs it. The world is the toy's: its
suite is run by the offline model with noise, exported with `telemetry.rl_export`, and read by TRL as anyone would.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from eval import harness, rl_env
from telemetry import rl_export
from telemetry.edge.files import EXPORTS, working_in
from tests.worlds import world

STEPS = 3
AGENTS = ("gauge_echo", "flood_watch")


def batches(root: Path) -> dict[str, Path]:
    """The suite answered twice, differently, and exported: file name -> file."""
    for seed in ("1", "2", "3"):
        agents = [part for name in AGENTS for part in ("--agent", name)]
        harness.main(["--quiet", "--offline-noise", "0.4", "--seed", seed, *agents])
    for kind in ("sft", "grpo"):
        flags = ["--type", kind, "--partial", "--include-offline", "--min-quality", "0.5", "--quiet"]
        assert rl_export.main(flags) == 0, kind
    return {file.stem: file for file in (root / EXPORTS).glob("*/*.jsonl")}


def rows(file: Path, *columns: str, most: int = 24) -> Any:
    """The columns of a file that a trainer reads, as a dataset."""
    from datasets import Dataset

    lines = file.read_text("utf-8").splitlines()[:most]
    assert lines, f"{file.name} is empty"
    return Dataset.from_list([{name: row[name] for name in columns} for row in map(json.loads, lines)])


def tiny(text: str, folder: str) -> tuple[Any, Any]:
    """A model of two layers with random weights, and a tokenizer made from the texts that it is trained on."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    made = ByteLevelBPETokenizer()
    made.train_from_iterator([text], vocab_size=600, special_tokens=["<pad>", "<eos>"])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made._tokenizer, pad_token="<pad>", eos_token="<eos>"
    )
    tokenizer.chat_template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=4096, **shape)
    config.pad_token_id, config.eos_token_id = tokenizer.pad_token_id, tokenizer.eos_token_id
    LlamaForCausalLM(config).save_pretrained(folder)  # trainers want a name to load things by
    tokenizer.save_pretrained(folder)
    return LlamaForCausalLM.from_pretrained(folder), tokenizer


def main() -> int:
    from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

    with tempfile.TemporaryDirectory(prefix="ratchet-train-") as folder, working_in(Path(folder) / "world"):
        root = Path(folder) / "world"
        root.mkdir()
        world.toy(root)
        files = batches(root)
        text = files["prompt_completion"].read_text("utf-8")[:200_000]
        usual: dict[str, Any] = {
            "output_dir": f"{folder}/out", "max_steps": STEPS, "report_to": "none", "bf16": False, "use_cpu": True,
            "save_strategy": "no", "logging_steps": 1, "gradient_checkpointing": False, "disable_tqdm": True,
            "per_device_train_batch_size": 4,
        }  # fmt: skip
        told = {}
        model, tokenizer = tiny(text, f"{folder}/tiny")
        data = rows(files["prompt_completion"], "prompt", "completion")
        sft = SFTTrainer(model, SFTConfig(**usual), train_dataset=data, processing_class=tokenizer)
        told["SFT"] = sft.train()
        data = rows(files["preference"], "prompt", "chosen", "rejected")
        dpo = DPOTrainer(model, args=DPOConfig(**usual), train_dataset=data, processing_class=tokenizer)
        told["DPO"] = dpo.train()
        seen: list[float | None] = []

        def reward(completions: Any, agent: Any, case_id: Any, **rest: Any) -> list[float | None]:
            seen.extend(found := rl_env.reward(completions, agent, case_id, **rest))
            return found

        data = rows(files["prompt_only"], "prompt", "agent", "case_id")
        config = GRPOConfig(**usual, num_generations=2, max_completion_length=16)
        grpo = GRPOTrainer(model, reward, args=config, train_dataset=data, processing_class=tokenizer)
        told["GRPO"] = grpo.train()
        for name, result in told.items():
            print(f"{name}: {result.global_step} steps, loss {result.training_loss:.4f}")
        graded = [one for one in seen if one is not None]
        print(
            f"GRPO: {len(graded)} of {len(seen)} completions graded by the suite, mean {sum(graded) / len(graded):.3f}"
        )
        done = all(result.global_step == STEPS for result in told.values()) and bool(graded)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
