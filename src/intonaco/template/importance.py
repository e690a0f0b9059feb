"""Importance: how much the queries of edits attend to each template token.

Measured offline over *profiling requests*, which are dense edits of the template and none of those
that anything is evaluated on. Used to weight rows where state is factorized; never needed to read a
template. Source: `papers/sakura.txt`, section on importance; squares because an error dV_i of row i
moves output j by sum_i a_ji dV_i, so to first order it costs sum_j a_ji^2 |dV_i|^2.

Shape letters: R profiling requests, S steps, B blocks, N template rows, Q queries, K keys, H heads,
D head dim, T text tokens, I image tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch import Tensor

from intonaco.errors import PackDamagedError, RequestError
from intonaco.families.base import EditableFamily
from intonaco.families.request import GenerateRequest
from intonaco.families.state_runs import state_runs
from intonaco.pipelines.picture import write_files
from intonaco.template.capture import TemplateState, run_dense

DEFAULT_NUM_REQUESTS = 5
TOP_SHARE = 0.1
TENSOR_NAME = "importance"

Importances = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """Attention received by each template token, per profiling request.

    Attributes:
        per_request_RSBN: sum over heads of the squared attention weight, mean over queries.
    """

    per_request_RSBN: Importances

    @property
    def mean(self) -> Importances:
        """Mean over the profiling requests, (S, B, N); one for keys and values."""
        return self.per_request_RSBN.mean(axis=0)

    @property
    def skew(self) -> float:
        """Share of importance that the top tenth of tokens holds, mean over steps and blocks."""
        return skew(self.mean)

    @property
    def overlap(self) -> float:
        """Share of the top tenth that two requests have in common, mean over all pairs; 0..1.

        NaN for a single request.
        """
        return overlap(self.per_request_RSBN)

    def save(self, path: Path) -> None:
        """Write to a safetensors file, whole or not at all. Raises SaveError."""
        write_files({path: save({TENSOR_NAME: self.per_request_RSBN})})


def read_importance(path: Path) -> Importance:
    """Return what `Importance.save` wrote. Raises PackDamagedError."""
    try:
        tensor: Any = load(path.read_bytes())[TENSOR_NAME]
    except (SafetensorError, KeyError, OSError) as error:
        raise PackDamagedError(
            f"{path} holds no importance ({str(error)[:120]}); profile the template again"
        ) from None
    return Importance(per_request_RSBN=tensor)


def profile(
    family: EditableFamily,
    template: TemplateState,
    requests: Sequence[GenerateRequest],
    *,
    has_text_queries: bool = True,
) -> Importance:
    """Return the importance of `template`'s rows over `requests`, each run as a dense edit.

    Args:
        requests: by words or by references, of the template's size and steps; their own seeds.
        has_text_queries: text tokens count as queries beside the edited ones: their streams reach
            the picture too, and they read the template's rows in every block.
    """
    if not requests:
        raise RequestError(
            f"requests must hold one profiling request or more, got none; "
            f"{DEFAULT_NUM_REQUESTS} are enough"
        )
    runs = state_runs(family)
    shape = template.source.shape
    found = np.zeros((len(requests), shape.num_steps, shape.num_blocks, shape.num_rows), np.float32)
    noise = family.draw_noise(
        GenerateRequest(
            prompt="",
            seed=template.identity.seed,
            image_index=template.identity.image_index,
            width=template.identity.width,
            height=template.identity.height,
            num_steps=template.identity.num_steps,
        )
    )
    for index, request in enumerate(requests):
        tap = ImportanceTap(
            found_SBN=found[index],
            is_edited_I=template.tokens_YX.reshape(-1),
            has_text_queries=has_text_queries,
        )
        run_dense(
            family,
            runs.tapped(template.tokens_YX.size, attention_tap=tap),
            request,
            clean=template.clean,
            tokens_YX=template.tokens_YX,
            noise=noise,
        )
    return Importance(per_request_RSBN=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportanceTap:
    """An attention tap that fills `found_SBN` during one run."""

    found_SBN: Importances
    is_edited_I: NDArray[np.bool_]
    has_text_queries: bool

    def write(
        self,
        step: int,
        block: int,
        query_QHD: Tensor,
        key_KHD: Tensor,
        value_KHD: Tensor,
        /,
        *,
        num_text_tokens: int,
    ) -> None:
        """Store the importance of every template row at one step and block."""
        del value_KHD  # weights do not depend on it
        edited = num_text_tokens + torch.from_numpy(np.flatnonzero(self.is_edited_I))
        rows = num_text_tokens + torch.from_numpy(np.flatnonzero(~self.is_edited_I))
        text = torch.arange(num_text_tokens if self.has_text_queries else 0)
        queries = torch.cat([text, edited]).to(query_QHD.device)
        mass_K = squared_attention(query_QHD[queries], key_KHD)
        self.found_SBN[step, block] = mass_K[rows.to(mass_K.device)].cpu().numpy()


def squared_attention(query_QHD: Tensor, key_KHD: Tensor) -> Tensor:
    """Return (K,) float32: sum over heads of squared attention weights, mean over queries."""
    query, key = query_QHD.float(), key_KHD.float()
    scores_HQK = torch.einsum("qhd,khd->hqk", query, key) / math.sqrt(query.shape[-1])
    return scores_HQK.softmax(dim=-1).square().sum(dim=0).mean(dim=0)


def skew(mean_SBN: Importances) -> float:
    """Return the share of importance that the top tenth of tokens holds, mean over (step, block)."""
    num_top = _num_top(mean_SBN.shape[-1])
    if num_top == 0:
        return math.nan
    ordered = np.sort(mean_SBN, axis=-1)
    top, total = ordered[..., -num_top:].sum(axis=-1), ordered.sum(axis=-1)
    shares: NDArray[np.float64] = top / np.maximum(total, np.finfo(np.float32).tiny)
    return float(shares.mean())


def overlap(per_request_RSBN: Importances) -> float:
    """Return the share of the top tenth that two requests have in common, mean over pairs and units."""
    num_requests, num_top = len(per_request_RSBN), _num_top(per_request_RSBN.shape[-1])
    if num_requests < 2 or num_top == 0:
        return math.nan
    is_top = np.zeros(per_request_RSBN.shape, dtype=np.bool_)
    chosen = np.argsort(per_request_RSBN, axis=-1)[..., -num_top:]
    np.put_along_axis(is_top, chosen, True, axis=-1)
    shares = [
        float((is_top[one] & is_top[other]).sum(axis=-1).mean()) / num_top
        for one in range(num_requests)
        for other in range(one)
    ]
    return sum(shares) / len(shares)


def _num_top(num_rows: int) -> int:
    return 0 if num_rows == 0 else max(1, round(TOP_SHARE * num_rows))
