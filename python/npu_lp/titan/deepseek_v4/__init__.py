"""DeepSeek-V4 on torchtitan: the model, its flavors, and what torchtitan's trainer needs of it.

    spec = model_registry("debug")
    model = spec.model.build()          # an nn.Module; spec.model is its config

See `model.py` for the model's call, `flavors.py` for sizes, `state_dict_adapter.py` for checkpoints.
"""

from collections.abc import Sequence

from torchtitan.models.utils import validate_converter_order
from torchtitan.protocols.model import ModelConfigConverter
from torchtitan.protocols.model_spec import ModelSpec

from npu_lp.titan.deepseek_v4.flavors import FLAVORS, Flavor, model_config
from npu_lp.titan.deepseek_v4.grouped_linear import GroupedLinear
from npu_lp.titan.deepseek_v4.load_balancing import register_load_balancing
from npu_lp.titan.deepseek_v4.model import DeepSeekV4Model
from npu_lp.titan.deepseek_v4.mtp import MTPLoss
from npu_lp.titan.deepseek_v4.parallelize import parallelize_deepseek_v4
from npu_lp.titan.deepseek_v4.state_dict_adapter import DeepSeekV4StateDictAdapter

__all__ = [
    "FLAVORS",
    "LOW_PRECISION_FQNS",
    "DeepSeekV4Model",
    "DeepSeekV4StateDictAdapter",
    "Flavor",
    "GroupedLinear",
    "MTPLoss",
    "model_config",
    "model_registry",
    "parallelize_deepseek_v4",
]

LOW_PRECISION_FQNS: list[str] = [
    "attention.wq_a",
    "attention.wq_b",
    "attention.wkv",
    "attention.wo_a",
    "attention.wo_b",
    "indexer.wq_b",
    "indexer.weights_proj",
    "moe.routed_experts.inner_experts",
    "moe.shared_experts",
    ".e_proj",
    ".h_proj",
]
"""Substrings of the names of the modules whose matmuls recipes convert; compressors, gates, mHC, embeddings and lm_head
are not among them. The last two name MTP's projections."""


def model_registry(
    flavor: str,
    converters: Sequence[ModelConfigConverter.Config] | None = None,
    num_mtp_layers: int = 1,
    moe_comm_backend: str = "standard",
    non_blocking_capacity_factor: float | None = None,
) -> ModelSpec:
    """What torchtitan's trainer needs to know of a DeepSeek-V4.

    Args:
        flavor: a key of FLAVORS.
        converters: configs of converters, applied to the model's config in order (low precision, for example).
        num_mtp_layers: depth of multi-token prediction, 1 in the published models. With 1 or more, train with `MTPLoss`
            of this package; with 0, any loss of torchtitan will do.
        moe_comm_backend: torchtitan's backend for dispatching tokens to experts, "standard" on any device.
        non_blocking_capacity_factor: of the "hybridep" backend.

    Raises:
        ValueError: the flavor is unknown.
    """
    if flavor not in FLAVORS:
        raise ValueError(f"unknown DeepSeek-V4 flavor {flavor!r}; known flavors: {', '.join(FLAVORS)}")
    config = model_config(
        FLAVORS[flavor],
        num_mtp_layers=num_mtp_layers,
        moe_comm_backend=moe_comm_backend,
        non_blocking_capacity_factor=non_blocking_capacity_factor,
    )
    validate_converter_order(list(converters or ()))
    for converter in converters or ():
        config = converter.build().convert(config)
    return ModelSpec(
        name="deepseek_v4",
        flavor=flavor,
        model=config,
        parallelize_fn=parallelize_deepseek_v4,
        pipelining_fn=None,
        post_optimizer_build_fn=register_load_balancing,
        state_dict_adapter=DeepSeekV4StateDictAdapter,
    )
