"""Fuzz the CPU kernels against the scalar reference, under AddressSanitizer and UndefinedBehaviorSanitizer.

    python tests/kernels/fuzz.py                  # an hour
    python tests/kernels/fuzz.py --seconds 60

libFuzzer's bytes choose op, formats, options, shapes, strides and values (fuzz.cpp). A finding is the exit code, a
description of the case, and a file that `build/kernels/fuzz/test_kernels FILE` repeats. The corpus stays in build/.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "kernels" / "fuzz"


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=3600, help="how long (default one hour)")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the corpus (default 1)")
    args = parser.parse_args()
    if args.seconds < 1 or args.jobs < 1:  # libFuzzer takes 0 seconds for no limit
        parser.error("--seconds and --jobs take a number of at least 1")
    subprocess.run(["cmake", "--preset", "fuzz"], cwd=HERE, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "fuzz"], cwd=HERE, check=True, stdout=subprocess.DEVNULL)
    corpus = BUILD / "corpus"
    corpus.mkdir(exist_ok=True)
    limits = [f"-max_total_time={args.seconds}", "-max_len=4096", "-rss_limit_mb=4000", "-print_final_stats=1"]
    jobs = [f"-fork={args.jobs}"] if args.jobs > 1 else []
    return subprocess.run(
        [BUILD / "test_kernels", *limits, *jobs, f"-artifact_prefix={BUILD}/", corpus], check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
