"""A tokenizer folder read by the `tokenizers` library alone, without importing transformers.

Offers what `ChatTokenizer` asks of a transformers tokenizer, and gives the same ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from intonaco.errors import CheckpointError
from intonaco.families.checkpoint import read_json

TOKENIZER_FILE = "tokenizer.json"
TEMPLATE_FILE = "chat_template.jinja"
SPECIAL_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")


class LightTokenizer:
    """A fast tokenizer with padding on the right and a chat template."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        padding_id: int,
        template: str,
        special_tokens: Mapping[str, str],
    ) -> None:
        self._tokenizer = tokenizer
        self._padding_id = padding_id
        self._special_tokens = dict(special_tokens)
        # Templates come with checkpoints: they may loop and branch, and reach nothing.
        environment: Any = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = _time_now
        self._template = environment.from_string(template)

    def __call__(
        self,
        text: str,
        *,
        return_tensors: str | None = None,
        padding: str | None = None,
        max_length: int = 0,
        return_offsets_mapping: bool = False,
    ) -> dict[str, Any]:
        """Return ids and mask of `text`: lists, or (1, T) int64 tensors where those are asked for."""
        encoding = self._tokenizer.encode(text)
        ids: list[int] = list(encoding.ids)
        mask = [1] * len(ids)
        if return_offsets_mapping:
            return {"input_ids": ids, "attention_mask": mask, "offset_mapping": encoding.offsets}
        num_missing = max(0, max_length - len(ids)) if padding == "max_length" else 0
        ids += [self._padding_id] * num_missing
        mask += [0] * num_missing
        if return_tensors is None:
            return {"input_ids": ids, "attention_mask": mask}
        # Imported here: a process that only counts tokens does without torch.
        import torch

        return {"input_ids": torch.tensor([ids]), "attention_mask": torch.tensor([mask])}

    def apply_chat_template(self, messages: list[dict[str, str]], **settings: Any) -> str:
        """Return the text of `messages` under the template."""
        return self._template.render(messages=messages, **self._special_tokens, **settings)


def read_light_tokenizer(folder: Path) -> LightTokenizer:
    """Read a tokenizer folder. Raises CheckpointError if a file is missing or damaged."""
    settings = read_json(folder / "tokenizer_config.json")
    try:
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        template = _read_template(folder, settings)
    # The library raises a plain Exception for whatever its parsing meets.
    except Exception as error:
        raise CheckpointError(
            f"{folder} cannot be loaded as a tokenizer ({str(error)[:160]}); copy it again"
        ) from error
    special_tokens: dict[str, str] = {}
    for name in SPECIAL_TOKENS:
        token: Any = settings.get(name)
        if token:
            special_tokens[name] = str(token if isinstance(token, str) else token["content"])
    padding = special_tokens.get("pad_token", "<|endoftext|>")
    padding_id = tokenizer.token_to_id(padding)
    if padding_id is None or settings.get("padding_side", "right") != "right":
        raise CheckpointError(
            f"{folder}: pad_token {padding!r} must be in the vocabulary and padding_side 'right'; copy "
            "the folder again"
        )
    return LightTokenizer(
        tokenizer, padding_id=padding_id, template=template, special_tokens=special_tokens
    )


def _read_template(folder: Path, settings: dict[str, Any]) -> str:
    file = folder / TEMPLATE_FILE
    template = file.read_text(encoding="utf-8") if file.is_file() else settings["chat_template"]
    return str(template)


def _time_now(style: str) -> str:
    return datetime.now().strftime(style)


def _refuse(message: str) -> None:
    raise CheckpointError(f"the chat template refuses the prompt: {message}")
