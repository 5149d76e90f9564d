"""What DeepSeek-V4's parts promise, each on its own; see also _experts, _parity and _parallel."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from deepseek_v4_pair import TINY, our_model
from hypothesis import given
from hypothesis import strategies as st
from npu_lp.titan.deepseek_v4 import FLAVORS, LOW_PRECISION_FQNS, GroupedLinear, MTPLoss, model_config, model_registry
from npu_lp.titan.deepseek_v4.documents import layout_documents
from npu_lp.titan.deepseek_v4.hyper_connections import HyperConnection, sinkhorn
from npu_lp.titan.deepseek_v4.parallelize import float32_modules
from torchtitan.models.common.linear import Linear
from torchtitan.models.common.moe import GroupedExperts


def _tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, TINY.vocab_size, shape, generator=torch.Generator().manual_seed(seed))


def _positions(*lengths: int) -> torch.Tensor:
    return torch.cat([torch.arange(n) for n in lengths])[None]


def _other(tokens: torch.Tensor) -> torch.Tensor:
    return (tokens + 1) % TINY.vocab_size


def _assert_untouched(a: torch.Tensor, b: torch.Tensor) -> None:
    """Equal but for rounding: other tokens move a token to another row of its expert's matmul, which may round anew."""
    torch.testing.assert_close(a, b, rtol=0, atol=2e-5)


def _assert_changed(a: torch.Tensor, b: torch.Tensor) -> None:
    assert (a - b).abs().max() > 1e-2


# ---- hyper-connections ----------------------------------------------------------------------------------------------


def test_sinkhorn_makes_matrices_doubly_stochastic():
    matrices = torch.randn(4, 4, 50, generator=torch.Generator().manual_seed(0)).exp()
    result = sinkhorn(matrices, 20, 1e-6)
    ones = torch.ones(4, 50)
    torch.testing.assert_close(result.sum(dim=0), ones, rtol=0, atol=1e-5)
    torch.testing.assert_close(result.sum(dim=1), ones, rtol=0, atol=1e-3)
    assert (result > 0).all()


def test_the_mixing_matrix_of_a_layer_is_doubly_stochastic_and_not_uniform():
    connection = our_model().layers["1"].hc_attn
    streams = torch.randn(2, 5, 4, TINY.dim, generator=torch.Generator().manual_seed(0))
    x, post, comb = connection(streams)
    assert (x.shape, post.shape, comb.shape) == ((2, 5, TINY.dim), (2, 5, 4), (2, 5, 4, 4))
    torch.testing.assert_close(comb.sum(dim=-2), torch.ones(2, 5, 4), rtol=0, atol=1e-5)
    torch.testing.assert_close(comb.sum(dim=-1), torch.ones(2, 5, 4), rtol=0, atol=1e-3)
    assert comb.std() > 0.05


def test_sinkhorns_gradient_is_that_of_its_steps():
    matrices = torch.rand(4, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.1
    assert torch.autograd.gradcheck(lambda m: sinkhorn(m, 20, 1e-6), matrices.requires_grad_())


def test_expanding_adds_the_output_and_mixes_the_streams_over_the_first_index_of_comb():
    y, post = torch.randn(1, 2, 3), torch.rand(1, 2, 4)
    comb, streams = torch.rand(1, 2, 4, 4), torch.randn(1, 2, 4, 3)
    expected = torch.stack(
        [post[..., m, None] * y + sum(comb[..., n, m, None] * streams[..., n, :] for n in range(4)) for m in range(4)],
        dim=-2,
    )
    torch.testing.assert_close(HyperConnection.expand(y, post, comb, streams), expected)


# ---- who sees whom --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", [0, 7, 15, 16, 40, 63])
def test_no_token_sees_a_later_one(changed):
    model = our_model().eval()
    tokens = _tokens(1, 64)
    other = tokens.clone()
    other[:, changed] = _other(tokens[:, changed])
    with torch.no_grad():
        before, after = model(tokens), model(other)
    _assert_untouched(before[:, :changed], after[:, :changed])
    _assert_changed(before[:, changed], after[:, changed])


def test_a_token_reaches_beyond_the_window_through_compressed_entries_only():
    tokens = _tokens(1, 64)
    other = tokens.clone()
    other[:, 1] = _other(tokens[:, 1])
    # One layer, so that what is seen is not passed on from window to window.
    for ratio, reaches in ((0, False), (4, True), (16, True)):
        flavor = dataclasses.replace(TINY, ratios=(ratio,), index_top_k=64)
        model = our_model(flavor).eval()
        with torch.no_grad():
            difference = (model(tokens) - model(other)).abs().amax(dim=(0, 2))
        assert bool((difference[32:] > 2e-5).any()) == reaches
        assert (difference[1 : TINY.window + 1] > 2e-5).all()


@pytest.mark.parametrize("lengths", [(21, 43), (5, 3, 56), (16, 16, 32), (1, 62, 1)])
def test_documents_in_a_row_do_not_influence_each_other(lengths):
    model = our_model(mtp=2).train()
    tokens, positions = _tokens(1, sum(lengths)), _positions(*lengths)
    with torch.no_grad():
        before = model(tokens, positions)
    for document in torch.arange(64).split(lengths):
        other = tokens.clone()
        other[:, document] = _other(other[:, document])
        rest = torch.ones(64, dtype=torch.bool)
        rest[document] = False
        with torch.no_grad():
            after = model(other, positions)
        for a, b in zip(before, after, strict=True):
            _assert_untouched(a[:, rest], b[:, rest])
            _assert_changed(a[:, document], b[:, document])


def test_positions_default_to_one_document_per_row():
    model = our_model().eval()
    tokens = _tokens(2, 40)
    with torch.no_grad():
        assert torch.equal(model(tokens), model(tokens, torch.arange(40).expand(2, -1)))


def test_masks_of_torchtitan_are_refused():
    with pytest.raises(ValueError, match="positions"):
        our_model()(_tokens(1, 4), attention_masks=object())


@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    window=st.integers(1, 12),
    ratio=st.integers(1, 9),
)
def test_masks_and_windows_are_those_of_each_document(lengths, window, ratio):
    total = sum(lengths)
    layout = layout_documents(_positions(*lengths), window, frozenset({ratio}))
    document = [(i, p) for i, n in enumerate(lengths) for p in range(n)]
    starts = [sum(lengths[:i]) for i in range(len(lengths))]

    count, size = layout.local.shape[1], layout.local.shape[2]
    near = torch.zeros(count * size, count * size + size, dtype=torch.bool)
    for chunk in range(count):
        rows = slice(chunk * size, (chunk + 1) * size)
        near[rows, chunk * size : (chunk + 2) * size] = layout.local[0, chunk]
    near = near[:total, size : size + total]
    expected = [[d == e and 0 <= p - q < window for e, q in document] for d, p in document]
    assert near.tolist() == expected

    windows = layout.windows[ratio]
    true_windows = [(i, w) for i, n in enumerate(lengths) for w in range(n // ratio)]
    assert windows.tokens.shape == (1, total // ratio, ratio)
    for slot, (i, w) in enumerate(true_windows):
        first = starts[i] + w * ratio
        assert windows.tokens[0, slot].tolist() == list(range(first, first + ratio))
        assert windows.positions[0, slot] == w * ratio
        assert windows.has_previous[0, slot] == (w > 0)
        assert windows.visible[0, :, slot].tolist() == [d == i and (w + 1) * ratio <= p + 1 for d, p in document]
    assert not windows.visible[0, :, len(true_windows) :].any()
    assert ((windows.tokens >= 0) & (windows.tokens < total)).all()


# ---- multi-token prediction -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", [1, 17, 40])
def test_no_depth_of_mtp_sees_its_target(changed):
    model = our_model(mtp=2).train()
    tokens = _tokens(1, 48)
    other = tokens.clone()
    other[:, changed] = _other(tokens[:, changed])
    with torch.no_grad():
        before, after = model(tokens), model(other)
    assert len(before) == 3
    for depth in range(3):
        # At place t, depth d predicts token t + d + 1 from the tokens up to t + d.
        first = max(0, changed - depth)
        _assert_untouched(before[depth][:, :first], after[depth][:, :first])
        _assert_changed(before[depth][:, first], after[depth][:, first])


def test_evaluation_returns_the_main_models_logits_only():
    model = our_model(mtp=1)
    tokens = _tokens(2, 20)
    with torch.no_grad():
        train, evaluation = model.train()(tokens), model.eval()(tokens)
    assert isinstance(train, list)
    assert torch.equal(train[0], evaluation)


def test_the_loss_adds_the_mean_of_the_depths_to_the_main_loss_and_keeps_targets_within_documents():
    loss_fn = MTPLoss.Config(mtp_scale=0.5).build()
    logits = [torch.randn(1, 6, 11, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    labels, positions = torch.tensor([[1, 2, 3, 4, 5, 6]]), _positions(4, 2)
    main = F.cross_entropy(logits[0][0], labels[0], reduction="sum")
    first = F.cross_entropy(logits[1][0, [0, 1, 2, 4]], labels[0, [1, 2, 3, 5]], reduction="sum")
    second = F.cross_entropy(logits[2][0, [0, 1]], labels[0, [2, 3]], reduction="sum")
    loss, metrics = loss_fn(logits, labels, torch.tensor(6), positions=positions)
    torch.testing.assert_close(loss, (main + 0.5 * (first + second) / 2) / 6)
    assert metrics == {}
    torch.testing.assert_close(loss_fn(logits[0], labels)[0], main)
    torch.testing.assert_close(loss_fn(logits[0], labels, torch.tensor(6), positions=positions)[0], main / 6)


def test_chunked_loss_with_mtp_is_refused_with_the_remedy():
    model = our_model(mtp=1).train()
    model._skip_lm_head = True
    with pytest.raises(ValueError, match="MTPLoss"):
        model(_tokens(1, 8))


# ---- sizes and names ------------------------------------------------------------------------------------------------


def _parameters(f: object) -> dict[str, int]:
    """Parameters of a flavor by part, computed from the table of sizes alone."""
    ratios = f.ratios
    csa, hca = sum(r == 4 for r in ratios), sum(r not in (0, 4) for r in ratios)
    heads = f.n_heads * f.head_dim
    window = (
        f.dim * f.q_rank + f.q_rank + f.q_rank * heads + f.dim * f.head_dim + f.head_dim
        + f.n_heads + f.o_rank * heads + f.o_groups * f.o_rank * f.dim
    )  # fmt: skip
    compressor = lambda d, ratio, width: 2 * f.dim * d * width + ratio * d * width + d  # noqa: E731
    indexer = f.q_rank * f.index_heads * f.index_dim + f.dim * f.index_heads + compressor(f.index_dim, 4, 2)
    layers = len(ratios)
    hc = 2 * (24 * 4 * f.dim + 24 + 3)
    head = 4 * 4 * f.dim + 4 + 1
    block = hc + 2 * f.dim + f.num_experts * f.dim + 3 * f.dim * f.moe_dim * (1 + f.num_experts)
    hca_ratio = max(ratios)
    return {
        "main": layers * (block + window)
        + csa * (compressor(f.head_dim, 4, 2) + indexer)
        + hca * compressor(f.head_dim, hca_ratio, 1)
        + head + f.dim + 2 * f.vocab_size * f.dim,
        "mtp": block + window + head + 3 * f.dim + 2 * f.dim * f.dim,
        "inactive": layers * 3 * f.dim * f.moe_dim * (f.num_experts - f.top_k),
    }  # fmt: skip


@pytest.mark.parametrize("flavor", list(FLAVORS))
def test_every_flavor_is_built_on_meta_with_the_number_of_parameters_that_its_sizes_give(flavor):
    with torch.device("meta"):
        model = model_registry(flavor).model.build()
    expected = _parameters(FLAVORS[flavor])
    mtp = sum(p.numel() for p in model.mtp_layers.parameters())
    assert mtp == expected["mtp"]
    assert sum(p.numel() for p in model.parameters()) - mtp == expected["main"]
    model.verify_module_protocol()


def test_the_numbers_of_parameters_are_the_published_ones():
    billions = {name: {k: v / 1e9 for k, v in _parameters(f).items()} for name, f in FLAVORS.items()}
    # DeepSeek: Flash 284B with 13B active, Pro 1.6T with 49B active; the tensors of Pro's checkpoint add up to 1598.84B
    # with MTP, 25.84B of them MTP.
    assert round(billions["flash"]["main"]) == 284
    assert 13 <= billions["flash"]["main"] - billions["flash"]["inactive"] < 14
    assert round(billions["pro"]["main"] + billions["pro"]["mtp"], 2) == 1598.84
    assert round(billions["pro"]["mtp"], 2) == 25.84
    assert 49 <= billions["pro"]["main"] - billions["pro"]["inactive"] < 50
    assert 0.9 < billions["1b"]["main"] < 1.1
    assert 1.5e-3 < billions["debug"]["main"] < 2.5e-3


def test_an_unknown_flavor_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"'tiny'.*debug, 1b, flash, pro"):
        model_registry("tiny")


def test_the_low_precision_names_select_projections_and_experts_and_nothing_else():
    config = model_registry("debug").model
    selected = set()
    for kind in (Linear.Config, GroupedLinear.Config, GroupedExperts.Config):
        selected |= {fqn for fqn, *_ in config.traverse(kind) if any(name in fqn for name in LOW_PRECISION_FQNS)}
    expected = {"mtp_layers.0.e_proj", "mtp_layers.0.h_proj"}
    for block in ("layers.0", "layers.1", "layers.2", "layers.3", "mtp_layers.0"):
        expected |= {f"{block}.attention.{name}" for name in ("wq_a", "wq_b", "wkv", "wo_a", "wo_b")}
        expected |= {f"{block}.moe.shared_experts.{name}" for name in ("w1", "w2", "w3")}
        expected.add(f"{block}.moe.routed_experts.inner_experts")
    for layer in (1, 3):
        expected |= {f"layers.{layer}.attention.indexer.{name}" for name in ("wq_b", "weights_proj")}
    assert selected == expected
    assert all(any(name in fqn for fqn in selected) for name in LOW_PRECISION_FQNS)


def test_every_parameter_of_debug_gets_a_gradient_except_the_indexers_which_are_frozen():
    model = model_registry("debug").model.build()
    model.init_states()
    model.train()
    tokens = torch.randint(0, 2048, (2, 128), generator=torch.Generator().manual_seed(0))
    positions = torch.cat((_positions(128), _positions(50, 78)))
    loss, _ = MTPLoss.Config().build()(model(tokens, positions), tokens.roll(-1, 1), positions=positions)
    loss.backward()
    for name, p in model.named_parameters():
        if ".indexer." in name:
            assert not p.requires_grad, name
            assert p.grad is None, name
        elif "experts" in name and p.ndim == 3:
            assert (p.grad.abs().amax(dim=(1, 2)) > 0).all(), name
        else:
            assert p.requires_grad, name
            assert p.grad is not None, name
            assert p.grad.abs().max() > 0, name


# ---- precision ------------------------------------------------------------------------------------------------------


def test_mhc_sinks_compressors_gates_and_norms_are_marked_to_stay_in_fp32():
    model = our_model(mtp=1)
    kept = {id(p) for module in float32_modules(model) for p in module.parameters()}
    expected = {
        name
        for name, _ in model.named_parameters()
        if any(part in name for part in ("hc_", "norm", "attn_sink", "compressor", "router.gate"))
    }
    assert {name for name, p in model.named_parameters() if id(p) in kept} == expected


def test_autocast_leaves_what_stays_in_fp32_alone():
    model = our_model(mtp=1).train()
    tokens = _tokens(2, 48)
    seen: dict[str, torch.dtype] = {}

    def record(name: str):
        def hook(module: torch.nn.Module, args: object, output: object) -> None:
            outputs = output if isinstance(output, tuple) else (output,)
            seen[name] = outputs[-1].dtype

        return hook

    for name, module in model.named_modules():
        if name.endswith(("hc_attn", "router.gate", "compressor.wkv", "wq_a", "wo_a")):
            module.register_forward_hook(record(name))
    with torch.autocast("cpu", torch.bfloat16):
        low = model(tokens)
    assert {name.rsplit(".", 1)[1]: dtype for name, dtype in seen.items()} == {
        "hc_attn": torch.float32,
        "gate": torch.float32,
        "wkv": torch.float32,
        "wq_a": torch.bfloat16,
        "wo_a": torch.bfloat16,
    }
    low[0].float().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


# ---- trainer --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["tensor_parallel_degree", "context_parallel_degree"])
def test_unsupported_parallelism_is_refused_by_name(flag):
    from torchtitan.config import ParallelismConfig

    config = model_config(TINY, num_mtp_layers=0)
    parallelism = ParallelismConfig(**{flag: 2})
    with pytest.raises(NotImplementedError, match=f"{flag} is 2"):
        config.update_from_config(config=SimpleNamespace(parallelism=parallelism))


def test_flops_count_windows_entries_and_active_experts():
    model = our_model()
    nparams, flops = model.config.get_nparams_and_flops(model, 64)
    assert nparams == sum(p.numel() for p in model.parameters())
    indexers = sum(p.numel() for n, p in model.named_parameters() if ".indexer." in n)
    experts = sum(p.numel() for p in model.parameters() if p.ndim == 3)
    active = nparams - model.tok_embeddings.weight.numel() - experts + experts * TINY.top_k // TINY.num_experts
    pairs = 4 * TINY.n_heads * TINY.head_dim
    csa, hca = min(8, TINY.index_top_k), 2
    attention = 3 * pairs * (4 * TINY.window + 2 * csa + hca)
    scoring = 2 * 2 * TINY.index_heads * TINY.index_dim * 8
    assert flops == 6 * active - 4 * indexers + attention + scoring
