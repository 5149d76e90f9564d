"""Same weights, same logits and gradients as Hugging Face's DeepSeek-V4, in fp32."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from deepseek_v4_pair import TINY, adapter, hf_config, hf_model, our_model
from npu_lp.titan.deepseek_v4 import DeepSeekV4Model
from safetensors.torch import load_file, save_file
from transformers import DeepseekV4ForCausalLM
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4RotaryEmbedding

# Logits have a standard deviation of 1. Both models round some hundreds of fp32 operations in different orders; the
# largest difference seen over many inputs is 3e-6 (50 times 2^-24).
LOGITS = {"rtol": 0.0, "atol": 2e-5}

# Shorter than, equal to and longer than the window (8) and HCA's windows (16); with and without a remainder.
LENGTHS = [1, 3, 8, 16, 37, 64, 130]


@pytest.fixture(scope="module")
def pair() -> tuple[DeepSeekV4Model, DeepseekV4ForCausalLM]:
    ours = our_model().train()
    return ours, hf_model(ours).train()


def _tokens(length: int, seed: int, batch: int = 2) -> torch.Tensor:
    return torch.randint(0, TINY.vocab_size, (batch, length), generator=torch.Generator().manual_seed(seed))


def _gradients(ours: DeepSeekV4Model, theirs: DeepseekV4ForCausalLM, tokens: torch.Tensor, seed: int) -> None:
    """Backpropagate the same random gradient of the logits through both."""
    weights = torch.randn(*tokens.shape, TINY.vocab_size, generator=torch.Generator().manual_seed(seed))
    ours.zero_grad()
    theirs.zero_grad()
    (ours(tokens) * weights).sum().backward()
    (theirs(tokens).logits * weights).sum().backward()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("length", LENGTHS)
def test_logits_equal_hugging_faces(pair, length, seed):
    ours, theirs = pair
    tokens = _tokens(length, seed)
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits, **LOGITS)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("length", LENGTHS)
def test_gradients_equal_hugging_faces(pair, length, seed):
    ours, theirs = pair
    _gradients(ours, theirs, _tokens(length, seed), seed)
    converted = adapter(ours).to_hf({name: _gradient(p) for name, p in ours.named_parameters()})
    expected = {name: _gradient(p) for name, p in theirs.named_parameters()}
    assert converted.keys() == expected.keys()
    # Some gradients are sums of terms that cancel, so their error is measured against all gradients, too.
    typical = torch.sqrt(sum(g.square().sum() for g in expected.values()) / sum(g.numel() for g in expected.values()))
    for name, gradient in expected.items():
        atol = 2e-5 * max(gradient.abs().max().item(), typical.item())
        torch.testing.assert_close(converted[name], gradient, rtol=0.0, atol=atol, msg=lambda m, n=name: f"{n}: {m}")


def _gradient(p: torch.nn.Parameter) -> torch.Tensor:
    return torch.zeros_like(p) if p.grad is None else p.grad


def test_the_same_parameters_get_a_gradient_as_in_hugging_faces_model(pair):
    ours, theirs = pair
    _gradients(ours, theirs, _tokens(64, 0), 0)
    without = {name for name, p in ours.named_parameters() if p.grad is None}
    assert without == {name for name, _ in ours.named_parameters() if ".indexer." in name} != set()
    indexers = {name for name, p in theirs.named_parameters() if p.grad is None}
    assert indexers == {name for name, _ in theirs.named_parameters() if ".indexer." in name} != set()


@pytest.mark.parametrize("lengths", [(5, 37, 22), (64,), (1, 1, 62), (16, 16, 32), (3, 2, 59), (31, 33)])
def test_packed_documents_get_the_logits_that_they_get_alone(pair, lengths):
    ours, theirs = pair
    tokens = _tokens(sum(lengths), 3)
    positions = torch.cat([torch.arange(n) for n in lengths]).expand_as(tokens)
    with torch.no_grad():
        packed = ours(tokens, positions)
        alone = torch.cat([theirs(document).logits for document in tokens.split(lengths, dim=1)], dim=1)
    torch.testing.assert_close(packed, alone, **LOGITS)


@pytest.mark.parametrize("part", ["expert_bias_E", "tid2eid", "attn_sink", "ape", "indexer", "hc_head", "compressor"])
def test_the_comparison_notices_a_change_of(part, pair):
    """Guards the tests above: a part that did not matter would be compared without being compared."""
    _, theirs = pair
    tokens = _tokens(64, 0)
    changed = our_model()
    state = changed.state_dict()
    names = [name for name in state if part in name]
    assert names
    for name in names:
        value = state[name]
        value.copy_(value.flip(0).roll(1, -1) * (1 if part == "tid2eid" else -2))
    with torch.no_grad():
        difference = (changed.train()(tokens) - theirs(tokens).logits).abs().max()
    assert difference > 100 * LOGITS["atol"]


@pytest.mark.parametrize("kind", ["main", "compress"])
def test_rotary_frequencies_equal_hugging_faces(pair, kind):
    ours, _ = pair
    layer = ours.layers["0" if kind == "main" else "1"]
    positions = torch.arange(TINY.max_seq_len)
    angles = layer.attention.rope.angles(positions)
    cos, sin = DeepseekV4RotaryEmbedding(hf_config())(torch.zeros(1), positions[None], layer_type=kind)
    torch.testing.assert_close(torch.view_as_real(angles), torch.stack((cos[0], sin[0]), dim=-1), rtol=0, atol=1e-6)


def test_yarn_matters_and_its_attention_factor_is_one(pair):
    ours, _ = pair
    rope = ours.layers["1"].attention.rope
    angles = rope.angles(torch.arange(TINY.max_seq_len))
    torch.testing.assert_close(angles.abs(), torch.ones_like(angles.abs()))
    plain = TINY.compressed_theta ** -(torch.arange(0, TINY.rope_dim, 2) / TINY.rope_dim)
    yarn = angles[1].angle()
    assert torch.allclose(yarn[0], plain[0])
    assert torch.allclose(yarn[-1], plain[-1] / TINY.yarn_factor)


def test_the_transformers_layout_has_hugging_faces_keys_and_shapes(pair):
    ours, theirs = pair
    converted = adapter(ours).to_hf(ours.state_dict())
    expected = theirs.state_dict()
    assert {k: v.shape for k, v in converted.items()} == {k: v.shape for k, v in expected.items()}


@pytest.mark.parametrize("layout", ["published", "transformers"])
@pytest.mark.parametrize("mtp", [0, 2])
def test_a_round_trip_through_either_layout_is_exact(layout, mtp):
    state = our_model(mtp=mtp).state_dict()
    model = our_model(mtp=mtp)
    there = adapter(model, layout).to_hf(state)
    back = adapter(model, layout).from_hf(there)
    assert back.keys() == state.keys()
    assert all(torch.equal(back[k], state[k]) and back[k].dtype == state[k].dtype for k in state)


def test_transformers_loads_a_checkpoint_in_the_published_layout(tmp_path: Path):
    with_mtp = our_model(mtp=1)
    state = {k: v.contiguous().clone() for k, v in adapter(with_mtp, "published").to_hf(with_mtp.state_dict()).items()}
    save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt"})
    hf_config().save_pretrained(tmp_path)
    loaded = DeepseekV4ForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    tokens = _tokens(37, 0)
    with torch.no_grad():
        torch.testing.assert_close(with_mtp.eval()(tokens), loaded(tokens).logits, **LOGITS)


def test_our_adapter_reads_what_transformers_saves(pair, tmp_path: Path):
    ours, theirs = pair
    theirs.save_pretrained(tmp_path)
    state = adapter(ours).from_hf(load_file(tmp_path / "model.safetensors"))
    expected = ours.state_dict()
    assert state.keys() == expected.keys()
    assert all(torch.equal(state[k], expected[k]) for k in expected)


def test_mtp_blocks_have_the_published_names_in_the_published_layout():
    """Names of DeepSeek's checkpoint that transformers, which has no MTP, cannot vouch for."""
    model = our_model(mtp=1)
    keys = {key for key in adapter(model, "published").to_hf(model.state_dict()) if key.startswith("mtp.")}
    own = {f"{name}.weight" for name in ("enorm", "hnorm", "e_proj", "h_proj", "norm")}
    own |= {f"hc_head_{name}" for name in ("fn", "base", "scale")}
    block = {
        key.removeprefix("layers.2.")
        for key in adapter(model, "published").to_hf(model.state_dict())
        if key.startswith("layers.2.") and "compressor" not in key
    }
    assert "ffn.gate.bias" in block
    assert keys == {f"mtp.0.{key}" for key in own | block}


def test_keys_of_mtp_blocks_that_the_model_does_not_have_are_ignored():
    with_mtp, without = our_model(mtp=1), our_model(mtp=0)
    there = adapter(with_mtp).to_hf(with_mtp.state_dict())
    assert any(k.startswith("mtp.0.") for k in there)
    assert adapter(without).from_hf(there).keys() == without.state_dict().keys()


def test_unknown_keys_and_missing_experts_are_errors():
    model = our_model()
    published = adapter(model, "published").to_hf(model.state_dict())
    with pytest.raises(KeyError, match=r"layers\.0\.attn\.wq_a\.scale"):
        adapter(model).from_hf({"layers.0.attn.wq_a.scale": torch.ones(1)})
    with pytest.raises(KeyError, match=r"layers\.0\.attention\.wq"):
        adapter(model).to_hf({"layers.0.attention.wq": torch.ones(1)})
    del published["layers.1.ffn.experts.3.w2.weight"]
    with pytest.raises(ValueError, match=r"layers\.1\..*w2_EDF.* 7 experts"):
        adapter(model).from_hf(published)
    with pytest.raises(ValueError, match="'published', 'transformers'"):
        adapter(model, "other")
    with pytest.raises(NotImplementedError, match="bf16"):
        adapter(model).get_hf_storage_reader("somewhere", from_quantized=True)
