"""Tilings of the cube kernels, checked byte by byte in C++ for random shapes and for all matmuls of DeepSeek-V4."""

import subprocess
from pathlib import Path

from npu_lp.titan.deepseek_v4.flavors import FLAVORS, Flavor

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ("-std=c++20", "-Wall", "-Wextra", "-Werror", "-O1", f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc' / 'twin'}")
SPLIT_NONE, SPLIT_M, SPLIT_K = range(3)


def linears(f: Flavor) -> dict[str, tuple[int, int, int]]:
    """Name to (in_features, out_features, how many of them are one batch)."""
    return {
        "q_down": (f.dim, f.q_rank, 1),
        "q_up": (f.q_rank, f.n_heads * f.head_dim, 1),
        "kv": (f.dim, f.head_dim, 1),
        "o_down": (f.n_heads * f.head_dim // f.o_groups, f.o_rank, f.o_groups),
        "o_up": (f.o_groups * f.o_rank, f.dim, 1),
        "index_q": (f.q_rank, f.index_heads * f.index_dim, 1),
        "index_weights": (f.dim, f.index_heads, 1),
        "compressor": (f.dim, 2 * f.head_dim, 1),
        "shared_up": (f.dim, f.moe_dim, 1),
        "shared_down": (f.moe_dim, f.dim, 1),
        "lm_head": (f.dim, f.vocab_size, 1),
    }


def shapes(name: str, f: Flavor) -> list[str]:
    lines = []
    for tokens in (1, 1000, 4096):
        for linear, (k, n, batches) in linears(f).items():
            lines.append(f"{name}.{linear}.forward {tokens} {n} {k} {batches} 0 0 0 {SPLIT_NONE}")
            lines.append(f"{name}.{linear}.dgrad {tokens} {k} {n} {batches} 0 1 0 {SPLIT_NONE}")
            lines.append(f"{name}.{linear}.wgrad {n} {k} {tokens} {batches} 1 1 0 {SPLIT_NONE}")
        routed = tokens * f.top_k
        for linear, (k, n) in {"experts_up": (f.dim, f.moe_dim), "experts_down": (f.moe_dim, f.dim)}.items():
            for groups in (f.num_experts, f.num_experts // 8):
                lines.append(f"{name}.{linear}.forward {routed} {n} {k} 1 0 0 {groups} {SPLIT_M}")
                lines.append(f"{name}.{linear}.dgrad {routed} {k} {n} 1 0 1 {groups} {SPLIT_M}")
                lines.append(f"{name}.{linear}.wgrad {n} {k} {routed} 1 1 1 {groups} {SPLIT_K}")
    return lines


def test_matmul_tiling(tmp_path):
    program = tmp_path / "test_matmul_tiling"
    sources = (Path(__file__).parent / "cpp" / "test_matmul_tiling.cpp", *(ROOT / "csrc/ascend/tiling").glob("matmul*.cpp"))
    built = subprocess.run(["g++", *FLAGS, *sources, "-o", program], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-4000:]
    lines = [line for name in ("flash", "pro", "debug") for line in shapes(name, FLAVORS[name])]
    done = subprocess.run([program], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert f"{len(lines)} shapes, 0 failures" in done.stdout
