"""The operations in Triton: imported where they run, on a CUDA device, or in Triton's interpreter."""

from sharpbeam.gpu.kernels.attention import attend_cells as attend_cells
from sharpbeam.gpu.kernels.scoring import best_tokens as best_tokens
from sharpbeam.gpu.kernels.union import union_of_sets as union_of_sets
