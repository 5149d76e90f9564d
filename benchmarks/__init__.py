"""Speed of the CPU backend, always as a ratio to something measured beside it.

`python -m benchmarks` runs every case, its peers interleaved with it in one process, prints medians and quartiles of the
per-round ratios with the machine's name, and writes JSON; `python -m benchmarks.report FILE` makes docs/performance.md
and its plots from that. A new figure is an entry in `cases.py`.
"""
