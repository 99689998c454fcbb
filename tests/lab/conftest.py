"""The libraries of RAPTOR's clusters, without the parts that they never ask for."""

import numba

# why: importing pynndescent compiles it, for twenty seconds after an installation; UMAP asks it about
# thousands of points, and no test has that many
numba.config.DISABLE_JIT = True
import pynndescent  # noqa: E402, F401

numba.config.DISABLE_JIT = False
