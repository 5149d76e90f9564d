"""What DeepSeek-V4's routers, experts and grouped linear layer promise."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from deepseek_v4_pair import TINY, our_model
from npu_lp.titan.deepseek_v4 import GroupedLinear, model_config
from npu_lp.titan.deepseek_v4.load_balancing import register_load_balancing
from npu_lp.titan.deepseek_v4.moe import ClampedGroupedExperts, HashRouter, SqrtSoftplusRouter, hash_table
from npu_lp.titan.deepseek_v4.precision import Float32Linear


def _tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, TINY.vocab_size, shape, generator=torch.Generator().manual_seed(seed))


# ---- experts --------------------------------------------------------------------------------------------------------


def _router(kind: type, **fields: object) -> SqrtSoftplusRouter:
    gate = Float32Linear.Config(in_features=16, out_features=8)
    return kind.Config(num_experts=8, top_k=3, gate=gate, **fields).build()


def test_the_router_selects_by_biased_scores_and_weights_by_normalized_unbiased_ones():
    router = _router(SqrtSoftplusRouter, route_scale=2.5)
    x, bias = torch.randn(2, 5, 16), torch.randn(8)
    weights, ids, scores = router(x, bias)
    expected = torch.log1p(torch.exp(x @ router.gate.weight.T)).sqrt()
    torch.testing.assert_close(scores, expected)
    assert torch.equal(ids.sort().values, (expected + bias).topk(3).indices.sort().values)
    chosen = expected.gather(-1, ids)
    torch.testing.assert_close(weights, 2.5 * chosen / chosen.sum(-1, keepdim=True))


def test_the_hash_router_takes_experts_from_the_table_whatever_the_hidden_state():
    router = _router(HashRouter, vocab_size=11)
    router.init_states()
    tokens = torch.randint(0, 11, (2, 5))
    for x in (torch.randn(2, 5, 16), torch.randn(2, 5, 16)):
        weights, ids, scores = router(x, torch.randn(8), tokens)
        assert torch.equal(ids, router.tid2eid[tokens])
        chosen = scores.gather(-1, ids)
        torch.testing.assert_close(weights, 1.5 * chosen / chosen.sum(-1, keepdim=True))
    with pytest.raises(ValueError, match="token ids"):
        router(x)


@pytest.mark.parametrize(("vocab", "experts", "top_k"), [(2048, 8, 2), (129280, 256, 6), (97, 8, 8), (5, 1, 1)])
def test_a_new_hash_table_names_different_experts_equally_often(vocab, experts, top_k):
    table = hash_table(vocab, experts, top_k, seed=1)
    assert table.shape == (vocab, top_k)
    assert table.min() >= 0
    assert table.max() < experts
    assert (table.sort(dim=1).values.diff(dim=1) > 0).all()
    first = torch.bincount(table[:, 0], minlength=experts)
    assert first.max() - first.min() <= 1
    load = torch.bincount(table.flatten(), minlength=experts).float()
    assert (load / load.mean() - 1).abs().max() < 6 * (experts / (vocab * top_k)) ** 0.5
    assert torch.equal(table, hash_table(vocab, experts, top_k, seed=1))
    if experts > 1:
        assert not torch.equal(table, hash_table(vocab, experts, top_k, seed=2))


def test_hash_layers_get_tables_of_their_own_and_other_layers_none():
    model = model_config(TINY).build()
    model.init_states()
    tables = {name: b for name, b in model.named_buffers() if name.endswith("tid2eid")}
    assert list(tables) == ["layers.0.moe.router.tid2eid", "layers.1.moe.router.tid2eid"]
    first, second = tables.values()
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_grouped_experts_equal_a_loop_over_experts_with_clamps(dtype):
    experts = ClampedGroupedExperts.Config(dim=16, hidden_dim=8, num_experts=4, limit=0.5).build()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in experts.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.5)
    experts.to(dtype)
    counts = torch.tensor([3, 0, 5, 1])
    x = torch.randn(9, 16, generator=generator).to(dtype).requires_grad_()
    rows = []
    for expert, part in enumerate(x.split(counts.tolist())):
        gate, up = part @ experts.w1_EFD[expert].T, part @ experts.w3_EFD[expert].T
        rows.append((F.silu(gate.clamp(max=0.5)) * up.clamp(-0.5, 0.5)) @ experts.w2_EDF[expert].T)
    result = experts(x, counts)
    assert result.dtype == dtype
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    torch.testing.assert_close(result, torch.cat(rows), **tolerance)


def test_all_products_of_experts_go_through_the_seam_for_low_precision():
    calls = []

    class Recording(ClampedGroupedExperts):
        def _grouped_mm(self, *, A: torch.Tensor, B_t: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
            calls.append((tuple(A.shape), tuple(B_t.shape), offs.tolist(), offs.dtype))
            return super()._grouped_mm(A=A, B_t=B_t, offs=offs)

    experts = ClampedGroupedExperts.Config(dim=16, hidden_dim=8, num_experts=2).build()
    experts.__class__ = Recording
    with torch.no_grad():
        for p in experts.parameters():
            p.zero_()
    experts(torch.ones(5, 16), torch.tensor([2, 3]))
    offs = ([2, 5], torch.int32)
    assert calls == [((5, 16), (2, 16, 8), *offs), ((5, 16), (2, 16, 8), *offs), ((5, 8), (2, 8, 16), *offs)]


def test_load_balancing_moves_the_biases_of_mtp_blocks_too():
    model = our_model(mtp=1).train()
    hooks = []
    optimizers = SimpleNamespace(register_step_pre_hook=hooks.append)
    dims = SimpleNamespace(get_optional_mesh=lambda name: None, ep_enabled=False, tp=1)
    register_load_balancing(optimizers, [model], dims)
    moes = [block.moe for block in (*model.layers.values(), *model.mtp_layers)]
    before = [moe.expert_bias_E.clone() for moe in moes]
    model(_tokens(2, 32))
    assert all(moe.tokens_per_expert_E.sum() == 64 * TINY.top_k for moe in moes)
    for hook in hooks:
        hook()
    assert all(not torch.equal(moe.expert_bias_E, old) for moe, old in zip(moes, before, strict=True))


# ---- grouped linear -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leading", [(), (3,), (2, 5), (0,), (2, 0)])
def test_grouped_linear_equals_a_loop_over_groups(leading):
    layer = GroupedLinear.Config(n_groups=3, in_features=8, out_features=5).build()
    with torch.no_grad():
        layer.weight.copy_(torch.randn(15, 8, generator=torch.Generator().manual_seed(0)))
    x = torch.randn(*leading, 3, 8, generator=torch.Generator().manual_seed(1))
    expected = torch.stack([x[..., g, :] @ layer.weight[g * 5 : (g + 1) * 5].T for g in range(3)], dim=-2)
    torch.testing.assert_close(layer(x), expected)


def test_grouped_linear_refuses_a_wrong_shape_and_names_it():
    layer = GroupedLinear.Config(n_groups=3, in_features=8, out_features=5).build()
    for shape in ((3,), (8, 3), (2, 3, 7), (24,)):
        with pytest.raises(ValueError, match=r"\(3, 8\)"):
            layer(torch.zeros(shape))
