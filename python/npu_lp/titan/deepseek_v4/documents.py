"""Where documents and compression windows lie in a packed batch, and who may attend to whom.

A row of a batch holds several documents one after the other; `positions` counts each document's tokens from 0, as
torchtitan's data loaders emit it. Everything here follows from `positions` alone, is computed once per forward and is
shared by all layers.

How packing and compression go together: a compressor with ratio r turns each r consecutive tokens of a document into
one entry. Windows are counted from the start of each document, wherever it starts in the row, and a document's last,
incomplete window makes no entry; so a packed document gets exactly the entries that it gets alone in a row, and no
entry mixes documents. A row of L tokens has at most L // r windows, so W = L // r slots hold them, in order; nobody
sees the slots that are left over.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass(frozen=True, eq=False)
class Windows:
    """The compression windows of one ratio: B rows with W = L // ratio slots each.

    Attributes:
        ratio: tokens per window.
        tokens: int64 [B, W, ratio], index in the row of each window's tokens (0 for invalid slots' tokens and on).
        positions: int64 [B, W], position in its document of each window's first token; RoPE's position of the entry.
        has_previous: bool [B, W], whether the slot before holds the preceding window of the same document.
        visible: bool [B, L, W], whether a query may attend to the entry: same document, and the window has been
            completed by the query's token or earlier.
    """

    ratio: int
    tokens: torch.Tensor
    positions: torch.Tensor
    has_previous: torch.Tensor
    visible: torch.Tensor


@dataclass(frozen=True, eq=False)
class DocumentLayout:
    """Masks and windows of a packed batch of B rows with L tokens each.

    Attributes:
        positions: int64 [B, L].
        window: size of the sliding window, the query's own token included.
        local: bool [B, N, C, 2C]: L is cut into N chunks of C = min(window, L) queries (the last one may be padded),
            and a chunk's queries see keys of the preceding and of their own chunk: causal, within the window, in the
            same document.
        windows: compression windows by ratio.
    """

    positions: torch.Tensor
    window: int
    local: torch.Tensor
    windows: dict[int, Windows]


def layout_documents(positions: torch.Tensor, window: int, ratios: frozenset[int]) -> DocumentLayout:
    """Compute the layout of a batch from `positions` [B, L] (int64, 0 where a document starts, then rising by 1)."""
    length = positions.shape[1]
    # Two tokens share a document exactly if their documents start at the same place in the row.
    starts = torch.arange(length, device=positions.device) - positions
    return DocumentLayout(
        positions=positions,
        window=window,
        local=_local_mask(starts, window),
        windows={ratio: _windows(positions, starts, ratio) for ratio in ratios},
    )


def chunk_count(length: int, window: int) -> tuple[int, int]:
    """(N, C): number and size of the chunks of queries that `DocumentLayout.local` describes."""
    size = max(1, min(window, length))
    return -(-length // size), size


def _local_mask(starts: torch.Tensor, window: int) -> torch.Tensor:
    batch, length = starts.shape
    count, size = chunk_count(length, window)
    index = torch.arange(count * size, device=starts.device).view(count, size)
    query = index[:, :, None]
    key = torch.cat((index - size, index), dim=1)[:, None, :]
    near = (key >= 0) & (key <= query) & (query - key < window)
    # Padding gets a document of its own (-1), so that it sees and is seen by padding only.
    padded = F.pad(starts, (0, count * size - length), value=-1).view(batch, count, size)
    before = F.pad(padded[:, :-1], (0, 0, 1, 0), value=-1)
    same = padded[:, :, :, None] == torch.cat((before, padded), dim=2)[:, :, None, :]
    return near & same


def _windows(positions: torch.Tensor, starts: torch.Tensor, ratio: int) -> Windows:
    batch, length = positions.shape
    slots = length // ratio
    device = positions.device
    index = torch.arange(length, device=device).expand(batch, length)
    # A window begins at every ratio-th token of a document, if its last token still belongs to the document.
    last = F.pad(starts[:, ratio - 1 :], (0, min(ratio - 1, length)), value=-1)[:, :length]
    begins = (positions % ratio == 0) & (last == starts)
    # Scatter each window's first token into its slot; tokens that begin none go to a slot that is cut off again.
    slot = torch.where(begins, begins.cumsum(dim=1) - 1, slots)
    first = torch.zeros(batch, slots + 1, dtype=torch.int64, device=device).scatter_(1, slot, index)[:, :slots]
    valid = torch.arange(slots, device=device) < begins.sum(dim=1, keepdim=True)
    first_position = positions.gather(1, first)
    complete = first_position[:, None, :] + ratio <= positions[:, :, None] + 1
    same = starts.gather(1, first)[:, None, :] == starts[:, :, None]
    return Windows(
        ratio=ratio,
        tokens=first[:, :, None] + torch.arange(ratio, device=device),
        positions=first_position,
        has_previous=F.pad((first_position > 0)[:, 1:], (min(slots, 1), 0), value=False),
        visible=valid[:, None, :] & same & complete,
    )
