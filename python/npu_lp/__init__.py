"""npu_lp: 8-bit matrix multiplications for training on Ascend 950, with the same bits on any CPU."""
