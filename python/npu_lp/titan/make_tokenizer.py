"""Trains the shipped tokenizer: `python -m npu_lp.titan.make_tokenizer [--out DIR] [--data PATH] [--vocab-size N]`.

A byte-level BPE in the two files that torchtitan's HuggingFaceTokenizer (and transformers) load. It is trained on the
training documents only, so that validation text stays unseen. It is made for source code: merges stay within words, so
that 2048 entries are spent on names and not on combinations of punctuation.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from npu_lp.titan import data

BOS = "<|begin_of_text|>"
EOS = "<|end_of_text|>"
# Pieces within which bytes are merged: a step of indentation, a line end, a word with the space before it, a digit, any
# other character by itself.
_PIECES = Regex(r" {4}|\n| ?[^\W\d_]+|\d|_|[^\w\s]|\s")


def train_tokenizer(texts: list[str], vocab_size: int) -> Tokenizer:
    """A byte-level BPE of `vocab_size` entries, of which two are BOS and EOS; it can encode any text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_PIECES, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[AddedToken(BOS, special=True), AddedToken(EOS, special=True)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer, length=len(texts))
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Writes tokenizer.json and tokenizer_config.json into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": EOS}
    for name, content in (
        ("tokenizer.json", tokenizer.to_str(pretty=False)),
        ("tokenizer_config.json", json.dumps(config, indent=2) + "\n"),
    ):
        part = folder / (name + ".part")
        part.write_text(content, encoding="utf-8")
        part.replace(folder / name)


def main(argv: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m npu_lp.titan.make_tokenizer", description=__doc__)
    parser.add_argument("--out", type=Path, default=data.TOKENIZER, help="folder to write (default: the shipped one)")
    parser.add_argument("--data", default=data.STDLIB, help="JSON Lines file or directory (default: Python's sources)")
    parser.add_argument("--vocab-size", type=int, default=2048, help="entries (default: %(default)s)")
    args = parser.parse_args(argv)
    if args.vocab_size < 258:
        parser.error(f"--vocab-size {args.vocab_size}: 256 bytes and 2 special tokens need at least 258")
    texts, validation = data.split_documents(args.data)
    tokenizer = train_tokenizer(texts, args.vocab_size)
    save(tokenizer, args.out)
    sample = validation[0]
    tokens = len(tokenizer.encode(sample).ids)
    print(
        f"{args.out}: {tokenizer.get_vocab_size()} entries from {len(texts)} documents; "
        f"{len(sample.encode()) / tokens:.2f} bytes per token on an unseen one"
    )


if __name__ == "__main__":
    main()
