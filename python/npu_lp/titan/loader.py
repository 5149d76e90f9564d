"""The data loader: torchtitan's packed documents, read from several places of the data set at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchtitan.components.dataloader import ParallelAwareDataloader
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.hf_datasets.interleaved import InterleavedDataset
from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader, HuggingFaceTextDataset

from npu_lp.titan import data


class DocumentDataLoader(ParallelAwareDataloader):
    """torchtitan's HuggingFaceTextDataLoader with `streams` readers per rank, one drawn at random for each sequence.

    A single reader fills a batch with one document after the other: on files of source code, a small batch is then all
    one file, and successive batches pull the model from file to file. Each reader has its own share of the documents,
    as if it were a data parallel rank; all of it is saved in checkpoints, as torchtitan's datasets are. With `infinite`
    off, an epoch ends when the first reader has read its share.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(HuggingFaceTextDataLoader.Config):
        """torchtitan's fields: dataset, dataset_path, infinite, num_workers, ..."""

        streams: int = 64
        """Readers per rank; fewer if there are not that many documents, and one for torchtitan's own data sets."""

        seed: int = 0
        """Of the choice of readers."""

        def __post_init__(self) -> None:
            if self.streams < 1:
                raise ValueError(f"dataloader.streams={self.streams}: at least 1 reader is needed")

    def __init__(
        self,
        config: Config,
        *,
        dp_world_size: int,
        dp_rank: int,
        tokenizer: BaseTokenizer,
        seq_len: int,
        local_batch_size: int,
        snapshot_every_n_steps: int | None = 1,
        **kwargs: Any,
    ) -> None:
        documents = data.document_count(config.dataset, config.dataset_path)
        # A reader without a document would wait for one for ever.
        streams = 1 if documents is None else max(1, min(config.streams, documents // dp_world_size))
        readers = [
            HuggingFaceTextDataset(
                dataset_name=config.dataset,
                dataset_path=config.dataset_path,
                tokenizer=tokenizer,
                seq_len=seq_len,
                dp_rank=dp_rank * streams + stream,
                dp_world_size=dp_world_size * streams,
                infinite=config.infinite,
            )
            for stream in range(streams)
        ]
        super().__init__(
            InterleavedDataset(readers, [1.0] * streams, seed=config.seed),
            dp_rank=dp_rank,
            dp_world_size=dp_world_size,
            num_workers=config.num_workers,
            persistent_workers=config.persistent_workers,
            pin_memory=config.pin_memory,
            prefetch_factor=config.prefetch_factor,
            snapshot_every_n_steps=snapshot_every_n_steps,
            batch_size=local_batch_size,
        )
