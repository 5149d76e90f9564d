"""The documents, their split, torchtitan's loader over them, and errors for data that cannot be used."""

from __future__ import annotations

import json
import random
import sysconfig
from pathlib import Path

import pytest
import torch
from npu_lp.titan import data, make_tokenizer
from npu_lp.titan.deepseek_v3 import config_registry
from npu_lp.titan.errors import InputError
from npu_lp.titan.loader import DocumentDataLoader
from torchtitan.components.tokenizer import HuggingFaceTokenizer


@pytest.fixture(autouse=True)
def fresh_cache():
    """Paths are read once a process; the tests write different files to equal paths."""
    data.split_documents.cache_clear()


@pytest.fixture(scope="module")
def tokenizer():
    return HuggingFaceTokenizer.Config().build(tokenizer_path=str(data.TOKENIZER))


def write_jsonl(path: Path, texts) -> str:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return str(path)


def texts(count):
    return [f"document {i}: " + " ".join(str(i * j) for j in range(40)) for i in range(count)]


# ---- documents --------------------------------------------------------------------------------------------------------


def test_default_documents_are_the_librarys_sources_and_no_other_packages():
    documents = data.stdlib_documents()
    assert len(documents) > 300
    assert all(document.strip() for document in documents)
    json_module = (Path(sysconfig.get_path("stdlib")) / "json" / "decoder.py").read_text(encoding="utf-8")
    assert json_module in documents
    assert not any("import torch\n" in document for document in documents)
    assert documents == data.stdlib_documents()


def test_jsonl_gives_its_texts_in_order_and_leaves_out_empty_ones(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", ["one", "", "two\u2028still two", "  ", "three"])
    assert data.read_documents(path) == ["one", "two\u2028still two", "three"]


def test_directory_gives_its_text_files_and_jsonl_lines_in_order_of_names(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.txt").write_text("second")
    (tmp_path / "a.md").write_text("first")
    (tmp_path / ".hidden").write_bytes(b"\xff\xfe")
    write_jsonl(tmp_path / "sub" / "c.jsonl", ["third", "fourth"])
    assert data.read_documents(str(tmp_path)) == ["first", "second", "third", "fourth"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"text": "open', "not JSON"),
        ("[1, 2]", "a JSON list, not an object"),
        ('{"content": "x"}', "no `text` field (fields: content)"),
        ('{"text": 3}', "`text` is a int, not a string"),
        ("plain words", "not JSON"),
    ],
)
def test_broken_line_is_named_with_its_number_and_fault(tmp_path, line, fault):
    path = tmp_path / "data.jsonl"
    path.write_text('{"text": "good"}\n\n' + line + '\n{"text": "good too"}\n', encoding="utf-8")
    with pytest.raises(InputError) as error:
        data.read_documents(str(path))
    for part in (str(path), "1 broken line(s)", "line 3", fault, "repair or delete"):
        assert part in str(error.value)


def test_many_broken_lines_are_counted_and_the_first_ones_shown(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text("x\n" * 8)
    with pytest.raises(InputError, match=r"8 broken line\(s\): line 1:.*line 5:.*and 3 more"):
        data.read_documents(str(path))


def test_missing_dataset_is_named_with_the_remedy(tmp_path):
    with pytest.raises(InputError, match=r"nowhere.*does not exist.*DATASET_PATH"):
        data.read_documents(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("make", [lambda p: p.mkdir(), lambda p: p.write_text(""), lambda p: p.write_text('{"text":""}\n')])
def test_dataset_without_text_is_an_error(tmp_path, make):
    make(path := tmp_path / "empty")
    with pytest.raises(InputError, match="holds no text"):
        data.read_documents(str(path))


def test_file_that_is_not_utf8_is_named(tmp_path):
    (tmp_path / "latin.txt").write_bytes("café".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin.txt is not UTF-8 text \(byte 3\)"):
        data.read_documents(str(tmp_path))


# ---- the split --------------------------------------------------------------------------------------------------------


def test_split_is_by_text_alone_and_complete(tmp_path):
    documents = texts(200)
    train, validation = data.split_documents(write_jsonl(tmp_path / "a.jsonl", documents))
    assert 0 < len(validation) < 40
    assert sorted(train + validation) == sorted(documents)
    shuffled = random.Random(0).sample(documents, 100)
    train_half, validation_half = data.split_documents(write_jsonl(tmp_path / "b.jsonl", shuffled))
    assert set(train_half) <= set(train)
    assert set(validation_half) <= set(validation)


def test_equal_documents_are_never_on_both_sides(tmp_path):
    train, validation = data.split_documents(write_jsonl(tmp_path / "a.jsonl", ["same", "other", "same", "same"]))
    assert train
    assert validation
    assert not set(train) & set(validation)


@pytest.mark.parametrize("documents", [["alone"], ["twice", "twice"]])
def test_a_single_document_cannot_be_split(tmp_path, documents):
    with pytest.raises(InputError, match="single document"):
        data.split_documents(write_jsonl(tmp_path / "a.jsonl", documents))


# ---- torchtitan's loader over them ------------------------------------------------------------------------------------


def loader(tokenizer, path, *, rank=0, ranks=1, dataset=data.TRAIN, infinite=True, streams=1):
    config = DocumentDataLoader.Config(dataset=dataset, dataset_path=path, infinite=infinite, streams=streams)
    return config.build(dp_world_size=ranks, dp_rank=rank, tokenizer=tokenizer, seq_len=32, local_batch_size=2)


def test_positions_restart_with_each_document_and_labels_are_the_next_tokens(tmp_path, tokenizer):
    path = write_jsonl(tmp_path / "a.jsonl", ["a b c", "d e f g", "h i", "validation"])
    inputs, labels = next(iter(loader(tokenizer, path)))
    positions = inputs["positions"]
    begins = inputs["input"] == tokenizer.bos_id
    assert begins.sum() >= 4
    assert (positions[begins] == 0).all()
    assert (positions[:, 0] == 0).all()  # a row that starts within a document counts from its own start
    inside = ~begins[:, 1:]
    assert torch.equal(positions[:, 1:][inside], positions[:, :-1][inside] + 1)
    assert torch.equal(inputs["input"][:, 1:][inside], labels[:, :-1][inside])
    assert (labels[:, :-1][~inside] == tokenizer.eos_id).all()


@pytest.mark.parametrize("streams", [1, 4, 1000])  # 1000: more than there are documents
def test_resuming_from_a_state_continues_with_the_same_batches(tmp_path, tokenizer, streams):
    path = write_jsonl(tmp_path / "a.jsonl", texts(30))
    first = loader(tokenizer, path, streams=streams)
    batches = iter(first)
    for _ in range(5):
        next(batches)
    state = first.state_dict()
    expected = [next(batches) for _ in range(60)]  # several epochs
    second = loader(tokenizer, path, streams=streams)
    second.load_state_dict(state)
    resumed = iter(second)
    for inputs, labels in expected:
        again, labels_again = next(resumed)
        assert torch.equal(inputs["input"], again["input"])
        assert torch.equal(inputs["positions"], again["positions"])
        assert torch.equal(labels, labels_again)


def test_ranks_read_different_documents(tmp_path, tokenizer):
    documents = texts(40)
    path = write_jsonl(tmp_path / "a.jsonl", documents)
    seen = []
    for rank in range(2):
        tokens = [inputs["input"].flatten() for inputs, _ in loader(tokenizer, path, rank=rank, ranks=2, infinite=False)]
        text = tokenizer.decode(torch.cat(tokens).tolist())
        seen.append({document for document in documents if document[:14] in text})
    assert seen[0]
    assert seen[1]
    assert not seen[0] & seen[1]


def test_streams_mix_documents_within_a_batch(tmp_path, tokenizer):
    path = write_jsonl(tmp_path / "a.jsonl", [f"{letter} " * 2000 for letter in "abcdefghijklmnopqrst"])

    def documents_seen(streams):
        batches = iter(loader(tokenizer, path, streams=streams))
        rows = [row for _ in range(8) for row in next(batches)[0]["input"]]
        return {letter for row in rows for letter in tokenizer.decode(row.tolist()).split()}

    assert len(documents_seen(1)) == 1
    assert len(documents_seen(8)) >= 4


def test_validation_data_is_not_trained_on(tmp_path, tokenizer):
    path = write_jsonl(tmp_path / "a.jsonl", texts(60))
    sides = []
    for dataset in (data.TRAIN, data.VALIDATION):
        batches = loader(tokenizer, path, dataset=dataset, infinite=False)
        sides.append({tuple(row.tolist()) for inputs, _ in batches for row in inputs["input"]})
    assert sides[1]
    assert not sides[0] & sides[1]


# ---- the tokenizer ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["def f(x):\n    return x\n", "naïve ☃ \x00 \U0001f600", ""])
def test_shipped_tokenizer_gives_any_text_back_between_its_marks(tokenizer, text):
    ids = tokenizer.encode(text, add_bos=True, add_eos=True)
    assert (ids[0], ids[-1]) == (tokenizer.bos_id, tokenizer.eos_id)
    assert tokenizer.decode(ids[1:-1]) == text
    assert tokenizer.get_vocab_size() == 2048


def test_tokenizer_is_made_by_its_command(tmp_path, capsys):
    path = write_jsonl(tmp_path / "a.jsonl", texts(20))
    make_tokenizer.main(["--out", str(tmp_path / "tok"), "--data", path, "--vocab-size", "262"])
    assert "262 entries" in capsys.readouterr().out
    made = HuggingFaceTokenizer.Config().build(tokenizer_path=str(tmp_path / "tok"))
    assert made.decode(made.encode("document 7", add_bos=False, add_eos=False)) == "document 7"


def test_missing_and_broken_tokenizers_are_named(tmp_path):
    with pytest.raises(InputError, match=r"has no tokenizer.json.*TOKENIZER_PATH"):
        data.check_tokenizer(str(tmp_path), 2048)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="is not a Hugging Face tokenizer"):
        data.check_tokenizer(str(tmp_path), 2048)


def test_tokenizer_larger_than_the_models_vocabulary_is_an_error():
    assert data.check_tokenizer(str(data.TOKENIZER), 2048) == 2048
    with pytest.raises(InputError, match=r"2048 entries.*vocabulary has 1000.*BASE_MODEL"):
        data.check_tokenizer(str(data.TOKENIZER), 1000)


# ---- the check before work begins -------------------------------------------------------------------------------------


def test_check_gives_the_validation_loader_the_same_path(tmp_path):
    config = config_registry.debug_bf16()
    config.dataloader.dataset_path = path = write_jsonl(tmp_path / "a.jsonl", texts(60))
    about = data.check(config, ranks=1)
    assert config.validator.dataloader.dataset_path == path
    assert "training data" in about
    assert "validation data" in about


def test_check_wants_a_document_for_each_rank(tmp_path):
    config = config_registry.debug_bf16()
    config.dataloader.dataset_path = write_jsonl(tmp_path / "a.jsonl", texts(3))
    with pytest.raises(InputError, match="for 4 processes"):
        data.check(config, ranks=4)
