"""Checkpoints: from torchtitan's names to Hugging Face's and back.

Hugging Face knows two layouts of DeepSeek-V4. `to_hf` writes the one that was asked for, `from_hf` reads both, and also
the mixture that `save_pretrained` of transformers writes:

- "published": DeepSeek's own files on the hub (`layers.0.attn.wq_a.weight`, one tensor per expert and matrix);
- "transformers": the state dict of `transformers.DeepseekV4ForCausalLM` (`model.layers.0.self_attn.q_a_proj.weight`,
  all experts in `gate_up_proj` and `down_proj`).

The main model's keys are exactly those of the layout. MTP blocks have keys `mtp.0.*` in both layouts: transformers has
no MTP and ignores such keys when it loads; `from_hf` ignores those of blocks that the model was built without. Nothing
is computed but stacking, splitting and concatenating, so a round trip is exact.
"""

import re
from typing import Any, Literal

import torch
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.tensor import DTensor
from torchtitan.models.utils import MoEStateDictAdapter

from npu_lp.titan.deepseek_v4.model import DeepSeekV4Model

Layout = Literal["published", "transformers"]

# torchtitan, published, transformers
_ROOT_NAMES = (
    ("tok_embeddings.weight", "embed.weight", "embed_tokens.weight"),
    ("norm.weight", "norm.weight", "norm.weight"),
    ("lm_head.weight", "head.weight", "lm_head.weight"),
    *((f"hc_head.{p}", f"hc_head_{p}", f"hc_head.hc_{p}") for p in ("fn", "base", "scale")),
)
_COMPRESSOR_NAMES = (
    ("wkv.weight", "kv_proj.weight"),
    ("wgate.weight", "gate_proj.weight"),
    ("norm.weight", "kv_norm.weight"),
    ("ape", "position_bias"),
)
_BLOCK_NAMES = (
    ("attention_norm.weight", "attn_norm.weight", "input_layernorm.weight"),
    ("ffn_norm.weight", "ffn_norm.weight", "post_attention_layernorm.weight"),
    *((f"hc_attn.{p}", f"hc_attn_{p}", f"attn_hc.{p}") for p in ("fn", "base", "scale")),
    *((f"hc_ffn.{p}", f"hc_ffn_{p}", f"ffn_hc.{p}") for p in ("fn", "base", "scale")),
    ("attention.wq_a.weight", "attn.wq_a.weight", "self_attn.q_a_proj.weight"),
    ("attention.q_norm.weight", "attn.q_norm.weight", "self_attn.q_a_norm.weight"),
    ("attention.wq_b.weight", "attn.wq_b.weight", "self_attn.q_b_proj.weight"),
    ("attention.wkv.weight", "attn.wkv.weight", "self_attn.kv_proj.weight"),
    ("attention.kv_norm.weight", "attn.kv_norm.weight", "self_attn.kv_norm.weight"),
    ("attention.inner_attention.attn_sink", "attn.attn_sink", "self_attn.sinks"),
    ("attention.wo_a.weight", "attn.wo_a.weight", "self_attn.o_a_proj.weight"),
    ("attention.wo_b.weight", "attn.wo_b.weight", "self_attn.o_b_proj.weight"),
    *(
        (f"attention.compressor.{ours}", f"attn.compressor.{ours}", f"self_attn.compressor.{theirs}")
        for ours, theirs in _COMPRESSOR_NAMES
    ),
    ("attention.indexer.wq_b.weight", "attn.indexer.wq_b.weight", "self_attn.compressor.indexer.q_b_proj.weight"),
    (
        "attention.indexer.weights_proj.weight",
        "attn.indexer.weights_proj.weight",
        "self_attn.compressor.indexer.scorer.weights_proj.weight",
    ),
    *(
        (
            f"attention.indexer.compressor.{ours}",
            f"attn.indexer.compressor.{ours}",
            f"self_attn.compressor.indexer.{theirs}",
        )
        for ours, theirs in _COMPRESSOR_NAMES
    ),
    ("moe.router.gate.weight", "ffn.gate.weight", "mlp.gate.weight"),
    ("moe.router.tid2eid", "ffn.gate.tid2eid", "mlp.gate.tid2eid"),
    ("moe.expert_bias_E", "ffn.gate.bias", "mlp.gate.e_score_correction_bias"),
    *(
        (f"moe.shared_experts.{w}.weight", f"ffn.shared_experts.{w}.weight", f"mlp.shared_experts.{name}.weight")
        for w, name in (("w1", "gate_proj"), ("w2", "down_proj"), ("w3", "up_proj"))
    ),
    # MTP blocks only
    *((f"{name}.weight",) * 3 for name in ("enorm", "hnorm", "e_proj", "h_proj")),
    ("mtp_norm.weight", "norm.weight", "norm.weight"),
    *((f"hc_head.{p}", f"hc_head_{p}", f"hc_head_{p}") for p in ("fn", "base", "scale")),
)
_EXPERT_PREFIX = "moe.routed_experts.inner_experts."
_EXPERT_NAMES = {"w1": "w1_EFD", "w2": "w2_EDF", "w3": "w3_EFD"}

_OUR_BLOCK = re.compile(r"(layers|mtp_layers)\.(\d+)\.(.+)")
_HF_BLOCK = re.compile(r"(?:model\.)?(layers|mtp)\.(\d+)\.(.+)")
_HF_EXPERT = re.compile(r"ffn\.experts\.(\d+)\.(w[123])\.weight")

_FROM_HF_ROOT = {theirs: names[0] for names in _ROOT_NAMES for theirs in names[1:]}
_FROM_HF_BLOCK = {theirs: names[0] for names in _BLOCK_NAMES for theirs in names[1:]}
# transformers 5.24 renames kv_norm to norm when it saves (and reads it back under either name).
_FROM_HF_BLOCK["attn.norm.weight"] = "attention.kv_norm.weight"


class DeepSeekV4StateDictAdapter(MoEStateDictAdapter):
    """Converts state dicts of `DeepSeekV4Model`; `layout` says which keys `to_hf` writes (see the module docstring)."""

    def __init__(
        self, model_config: DeepSeekV4Model.Config, hf_assets_path: str | None, layout: Layout = "published"
    ) -> None:
        if layout not in ("published", "transformers"):
            raise ValueError(f"layout is {layout!r}; known layouts: 'published', 'transformers'")
        super().__init__(model_config, hf_assets_path)
        self.layout = layout
        column = 1 if layout == "published" else 2
        self._root = {names[0]: names[column] for names in _ROOT_NAMES}
        self._block = {names[0]: names[column] for names in _BLOCK_NAMES}
        self._mtp_block = {names[0]: names[1] for names in _BLOCK_NAMES}

    def to_hf(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """Rename and split: torchtitan's state dict -> Hugging Face's, in this adapter's layout.

        Raises KeyError for a key that is none of this model's.
        """
        model = "" if self.layout == "published" else "model."
        result: dict[str, Any] = {}
        for key, value in state_dict.items():
            match = _OUR_BLOCK.fullmatch(key)
            if match is None:
                name = _lookup(self._root, key, key)
                result[name if name == "lm_head.weight" else model + name] = value
                continue
            kind, index, rest = match.groups()
            is_mtp = kind == "mtp_layers"
            prefix = f"mtp.{index}." if is_mtp else f"{model}layers.{index}."
            if not rest.startswith(_EXPERT_PREFIX):
                result[prefix + _lookup(self._mtp_block if is_mtp else self._block, rest, key)] = value
            elif self.layout == "published" or is_mtp:
                result.update(self._split_experts(prefix, kind, index, rest.removeprefix(_EXPERT_PREFIX), value))
            else:
                result[prefix + "mlp.experts." + rest.removeprefix(_EXPERT_PREFIX)] = value
        if self.layout == "transformers":
            _merge_gate_and_up(result)
        return result

    def from_hf(self, hf_state_dict: dict[str, Any]) -> dict[str, Any]:
        """Rename and stack: a state dict in either layout -> torchtitan's.

        Raises KeyError for a key that is none of the model's, for example a scale of a quantized checkpoint, and
        ValueError if experts are missing.
        """
        result: dict[str, Any] = {}
        experts: dict[str, dict[str, dict[int, Any]]] = {}
        for key, value in hf_state_dict.items():
            match = _HF_BLOCK.fullmatch(key)
            if match is None:
                result[_lookup(_FROM_HF_ROOT, key.removeprefix("model."), key)] = value
                continue
            kind, index, rest = match.groups()
            if kind == "mtp" and int(index) >= len(self.model_config.mtp_layers):
                continue
            ours = f"{'mtp_layers' if kind == 'mtp' else 'layers'}.{index}."
            expert = _HF_EXPERT.fullmatch(rest)
            if expert is not None:
                name = ours.replace(index, "{}", 1) + _EXPERT_PREFIX + _EXPERT_NAMES[expert[2]]
                experts.setdefault(index, {}).setdefault(name, {})[int(expert[1])] = value
                stacked = self._stack_experts(experts, name, index)
                if stacked is not None:
                    result[name.format(index)] = stacked
            elif rest == "mlp.experts.gate_up_proj":
                for name, half in zip(("w1_EFD", "w3_EFD"), value.chunk(2, dim=1), strict=True):
                    result[ours + _EXPERT_PREFIX + name] = half
            elif rest == "mlp.experts.down_proj":
                result[ours + _EXPERT_PREFIX + "w2_EDF"] = value
            else:
                result[ours + _lookup(_FROM_HF_BLOCK, rest, key)] = value
        if experts:
            index, names = next(iter(experts.items()))
            name, found = next(iter(names.items()))
            raise ValueError(
                f"{name.format(index)}: the checkpoint has {len(found)} experts (ids {sorted(found)[:8]}...), "
                f"the model has {self._num_experts}"
            )
        return result

    def get_hf_storage_reader(self, path: str, from_quantized: bool = False) -> HuggingFaceStorageReader:
        """The reader for checkpoints at `path`; raises NotImplementedError for quantized ones."""
        if from_quantized:
            raise NotImplementedError(
                "reading quantized DeepSeek-V4 checkpoints is not supported; convert the checkpoint to bf16 first, "
                "then load it without --checkpoint.initial_load_in_hf_quantized"
            )
        return HuggingFaceStorageReader(path)

    @property
    def _num_experts(self) -> int:
        return self.model_config.layers[0].moe.num_experts

    def _split_experts(self, prefix: str, kind: str, index: str, name: str, value: Any) -> dict[str, Any]:
        """One stacked matrix of experts -> one entry per expert; of a DTensor, those experts that this rank has."""
        template = prefix.replace(index, "{}", 1) + "ffn.experts.{}." + name[:2] + ".weight"
        if isinstance(value, DTensor):
            ours = f"{kind}.{{}}.{_EXPERT_PREFIX}{name}"
            self.grouped_expert_weight_placements[ours] = value.placements
            self.grouped_expert_weight_shape[ours] = value.shape
            self.grouped_expert_weight_mesh[ours] = value.device_mesh
            return self._get_local_experts_weights(template, ours, index, value)
        return {template.format(index, expert): matrix for expert, matrix in enumerate(value.unbind(0))}

    def _stack_experts(self, experts: dict[str, dict[str, dict[int, Any]]], name: str, index: str) -> Any:
        """The stacked matrices once all experts of this rank are there, else None."""
        if name in self.local_experts_indices:
            return self._concatenate_expert_weights_dtensor(experts, name, index)
        return self._concatenate_expert_weights(experts, name, index, self._num_experts)


def _lookup(names: dict[str, str], name: str, key: str) -> str:
    if name not in names:
        raise KeyError(f"{key!r} is not a key of a DeepSeek-V4 state dict")
    return names[name]


def _merge_gate_and_up(state_dict: dict[str, Any]) -> None:
    """Turn our experts' names into transformers': w1 and w3 become gate_up_proj, w2 becomes down_proj."""
    for key in [key for key in state_dict if key.endswith(".mlp.experts.w1_EFD")]:
        prefix = key.removesuffix("w1_EFD")
        gate, up = state_dict.pop(key), state_dict.pop(prefix + "w3_EFD")
        state_dict[prefix + "gate_up_proj"] = torch.cat((gate, up), dim=1)
        state_dict[prefix + "down_proj"] = state_dict.pop(prefix + "w2_EDF")
