"""The text that is trained on: documents, their split into training and validation, and the checks before work begins.

Without a path the documents are the sources of Python's standard library, which every machine has. With one
(DATASET_PATH of run_train.sh, `--dataloader.dataset_path`) they are a JSON Lines file whose objects have a `text` field,
or a directory of UTF-8 text files. Tokenizing, packing with positions that restart at each document, sharding over data
parallel ranks and resuming are torchtitan's (HuggingFaceTextDataLoader); this module only registers two datasets there,
TRAIN and VALIDATION.

A document's side is chosen by the hash of its text, so that it never depends on order, machine or other documents, and
equal documents are never on both sides.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sysconfig
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from datasets import Dataset
from torchtitan.hf_datasets import DatasetConfig
from torchtitan.hf_datasets.text_datasets import DATASETS

from npu_lp.titan.errors import InputError

if TYPE_CHECKING:
    from torchtitan.trainer import Trainer

TRAIN = "npu_lp_train"
VALIDATION = "npu_lp_validation"
STDLIB = "stdlib"
"""Stands for the default documents where a path is expected."""

TOKENIZER = Path(__file__).parent / "assets" / "tokenizer"
"""The shipped tokenizer: byte-level BPE, 2048 entries, made by `python -m npu_lp.titan.make_tokenizer`."""

_VALIDATION_SHARE = 20  # one document in 20 is for validation
# Not prose or code that a language model learns from: tests, code tables, generated text, other people's packages.
_STDLIB_SKIP = {"site-packages", "dist-packages", "test", "tests", "idle_test", "encodings", "pydoc_data", "_bundled"}


def stdlib_documents() -> list[str]:
    """The .py files of the running interpreter's standard library, one document each, in an order that mixes topics.

    Raises InputError if the interpreter has no library sources (a frozen or stripped Python).
    """
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in root.rglob("*.py") if not _STDLIB_SKIP.intersection(path.relative_to(root).parts)]
    # Alphabetical order would put all of one package into consecutive batches; the hash of a path mixes them, and is
    # the same on every machine.
    files.sort(key=lambda path: _digest(path.relative_to(root).as_posix()))
    texts = [text for path in files if (text := path.read_text(encoding="utf-8", errors="replace")).strip()]
    if not texts:
        raise InputError(
            f"no Python sources in {root}, the standard library of {sysconfig.get_python_version()}: "
            "set DATASET_PATH to a JSON Lines file or a directory of text files"
        )
    return texts


def read_documents(path: str) -> list[str]:
    """The non-empty documents at `path`: STDLIB, a JSON Lines file with `text` fields, or a directory of text files.

    Raises InputError if `path` does not exist, a line is broken (naming the lines), a file is not UTF-8 text, or nothing
    is found.
    """
    if path == STDLIB:
        return stdlib_documents()
    where = Path(path).expanduser()
    if not where.exists():
        raise InputError(
            f"dataset {path!r} does not exist: give a JSON Lines file with a `text` field in each line, or a directory "
            "of text files (DATASET_PATH, --dataloader.dataset_path), or nothing for Python's own sources"
        )
    if where.is_dir():
        files = sorted(file for file in where.rglob("*") if file.is_file() and not _hidden(file.relative_to(where)))
        texts = [text for file in files for text in _file_documents(file)]
    else:
        texts = list(_jsonl_documents(where))
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise InputError(
            f"dataset {path!r} holds no text: a JSON Lines file needs lines like {{\"text\": \"...\"}}, a directory "
            "needs text files that are not empty"
        )
    return texts


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _file_documents(file: Path) -> Iterator[str]:
    if file.suffix == ".jsonl":
        yield from _jsonl_documents(file)
    else:
        yield _read_utf8(file)


def _read_utf8(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file} is not UTF-8 text (byte {error.start}): convert it (`iconv -t utf-8`) or move it out of the dataset"
        ) from error


def _jsonl_documents(file: Path) -> Iterator[str]:
    broken: list[str] = []
    # Split at \n only: str.splitlines() would also cut at U+2028 and others, which JSON strings may hold.
    for number, line in enumerate(_read_utf8(file).split("\n"), start=1):
        if not line.strip():
            continue
        text, fault = _line_text(line)
        if fault:
            broken.append(f"line {number}: {fault}")
        elif not broken:
            yield text
    if broken:
        shown = "; ".join(broken[:5]) + (f"; and {len(broken) - 5} more" if len(broken) > 5 else "")
        raise InputError(
            f"{file} has {len(broken)} broken line(s): {shown}. Each line must be a JSON object with a string `text`; "
            "repair or delete these lines"
        )


def _line_text(line: str) -> tuple[str, str]:
    """(text, "") of a good line of JSON Lines, or ("", what is wrong with it)."""
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        return "", f"not JSON ({error.msg} at column {error.colno})"
    if not isinstance(value, dict):
        return "", f"a JSON {type(value).__name__}, not an object"
    if "text" not in value:
        return "", f"no `text` field (fields: {', '.join(sorted(value)) or 'none'})"
    if not isinstance(value["text"], str):
        return "", f"`text` is a {type(value['text']).__name__}, not a string"
    return value["text"], ""


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).digest()


@functools.cache
def split_documents(path: str) -> tuple[list[str], list[str]]:
    """(training documents, validation documents) at `path`; neither is empty.

    Raises InputError as `read_documents` does, and if all documents are equal (or there is one), as they cannot be split.
    """
    train: list[str] = []
    validation: list[str] = []
    for text in read_documents(path):
        (train if _digest(text)[0] % _VALIDATION_SHARE else validation).append(text)
    if not validation:  # a small data set: its last document then, with its copies
        validation = [text for text in train if text == train[-1]]
        train = [text for text in train if text != validation[0]]
    elif not train:
        train = [text for text in validation if text == validation[-1]]
        validation = [text for text in validation if text != train[0]]
    if not train or not validation:
        raise InputError(
            f"dataset {path!r} holds a single document, which cannot be both trained on and validated against: "
            "split it into several files or lines"
        )
    return train, validation


def document_count(dataset: str, path: str | None) -> int | None:
    """How many documents TRAIN or VALIDATION has at `path` (None: STDLIB); None for another data set's name."""
    if dataset not in (TRAIN, VALIDATION):
        return None
    train, validation = split_documents(path or STDLIB)
    return len(train if dataset == TRAIN else validation)


@functools.cache  # every reader of a loader asks for it
def _load(path: str, *, side: Literal["train", "validation"]) -> Dataset:
    train, validation = split_documents(path)
    return Dataset.from_dict({"text": train if side == "train" else validation})


def _text(sample: dict[str, Any]) -> str:
    return sample["text"]


def register_datasets() -> None:
    """Adds TRAIN and VALIDATION to torchtitan's table of datasets."""
    sides: tuple[tuple[str, Literal["train", "validation"]], ...] = ((TRAIN, "train"), (VALIDATION, "validation"))
    for name, side in sides:
        loader: Callable[[str], Dataset] = partial(_load, side=side)
        DATASETS[name] = DatasetConfig(path=STDLIB, loader=loader, sample_processor=_text)


register_datasets()


def check(config: Trainer.Config, ranks: int) -> str:
    """Reads what `config` names and checks it before anything is built; returns one sentence about it.

    The validation loader takes over the training loader's path unless it has one of its own. `ranks` is the number of
    processes. Data sets of torchtitan itself (c4, ...) are left to torchtitan.

    Raises InputError: see `read_documents`, `split_documents` and `check_tokenizer`.
    """
    loader, validator = config.dataloader, config.validator
    if validator.dataloader.dataset == VALIDATION and validator.dataloader.dataset_path is None:
        validator.dataloader.dataset_path = loader.dataset_path
    entries = check_tokenizer(config.hf_assets_path, config.model_spec.model.vocab_size if config.model_spec else None)
    about = [f"tokenizer {config.hf_assets_path} ({entries} entries)"]
    sides = [("training", loader)] + ([("validation", validator.dataloader)] if validator.enable else [])
    for what, side in sides:
        count = document_count(side.dataset, side.dataset_path)
        if count is None:
            about.append(f"{what} data {side.dataset} of torchtitan")
            continue
        path = side.dataset_path or STDLIB
        if count < ranks:
            raise InputError(
                f"dataset {path!r} has {count} {what} document(s) for {ranks} processes, each of which needs one: give "
                "it more documents or lower NGPU"
            )
        about.append(f"{what} data {path} ({count} documents)")
    return ", ".join(about)


def check_tokenizer(path: str, vocab_size: int | None) -> int:
    """The number of entries of the Hugging Face tokenizer in directory `path`.

    Raises InputError if it is missing or unreadable, or has more entries than the model's `vocab_size`.
    """
    from tokenizers import Tokenizer

    file = Path(path).expanduser() / "tokenizer.json"
    if not file.is_file():
        raise InputError(
            f"tokenizer {path!r} has no tokenizer.json: give a directory with the Hugging Face files tokenizer.json and "
            f"tokenizer_config.json (TOKENIZER_PATH, --hf_assets_path), or use the shipped one, {TOKENIZER}"
        )
    try:
        entries = Tokenizer.from_file(str(file)).get_vocab_size()
    except Exception as error:  # tokenizers raises plain Exception for any fault of the file
        raise InputError(f"{file} is not a Hugging Face tokenizer ({error}): save it again or give another one") from error
    if vocab_size is not None and entries > vocab_size:
        raise InputError(
            f"tokenizer {path!r} has {entries} entries, but the model's vocabulary has {vocab_size}: choose a flavor "
            "with a larger vocabulary (BASE_MODEL) or a smaller tokenizer (TOKENIZER_PATH)"
        )
    return entries
