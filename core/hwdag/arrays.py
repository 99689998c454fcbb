"""Names of the arrays that everything else computes with; shapes are in comments where they are used."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]  # Embeddings, one per row

Ints = NDArray[np.int64]
Indices = NDArray[np.intp]  # places in another array

Mask = NDArray[np.bool_]
