"""The spectral step of GEM-RAG on synthetic embeddings: CPU seconds, memory, and how right it is.

    python benchmarks/gemrag.py --chunks 2000 10000 50000

Texts are noisy copies of a few planted themes, questions noisy copies of their texts. Shown are CPU
seconds for the degrees (every weight once, block by block) and for Lanczos' method, the peak memory
of the process next to that of a dense n x n matrix in float64, the largest residual
|L x - lambda x| of the eigenpairs, and the share of top components that belong to one planted theme.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from hwdag.arrays import Vectors
from hwdag.embedding.hashing import unit_rows
from hwdag_lab.eval.peaks import peaks_mb
from hwdag_lab.methods.gemrag.spectrum import Affinity, question_sums, spectrum


def planted(chunks: int, dimension: int, themes: int, questions: int) -> tuple[Vectors, Vectors]:
    """Sums of question vectors and text vectors, (chunks, dimension) each; theme of i is i % themes.

    A common direction makes most cosines positive, as with sentence embeddings.
    """
    rng = np.random.default_rng(0)
    common = rng.normal(size=dimension)
    centres = unit_rows(0.6 * common + rng.normal(size=(themes, dimension)))
    noise = rng.normal(size=(chunks, dimension)) / dimension**0.5
    texts = unit_rows(centres[np.arange(chunks) % themes] + 1.5 * noise)
    sums = np.zeros((chunks, dimension), np.float32)
    firsts = np.arange(chunks + 1)
    for _ in range(questions):
        asked = unit_rows(texts + rng.normal(size=texts.shape) / dimension**0.5)
        sums += question_sums((asked + texts) / 2, firsts, 1)
    return sums, texts


def measure(chunks: int, options: argparse.Namespace) -> str:
    """Return one row of the table."""
    sums, texts = planted(chunks, options.dimension, options.themes, options.questions)
    began = time.process_time()
    affinity = Affinity.of(sums, texts)
    weighed = time.process_time()
    found = spectrum(affinity, options.components)
    done = time.process_time()
    residual = max(
        float(np.linalg.norm(affinity.laplacian(vector) - value * vector))
        for value, vector in zip(found.values, found.vectors.T, strict=True)
    )
    themes = found.themes(options.components, options.members)[1:]
    shares = [np.bincount(np.array(theme) % options.themes).max() / len(theme) for theme in themes]
    memory = peaks_mb().get("ram", 0.0)
    values = " ".join(f"{value:.3f}" for value in found.values)
    return (
        f"{chunks:>7} {weighed - began:>8.1f} {done - weighed:>8.1f} {memory:>9,.0f} "
        f"{chunks**2 * 8 / 2**20:>9,.0f} {residual:>9.1e} {np.mean(shares):>7.2f}  {values}"
    )


def main() -> None:
    """Measure every number of chunks in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--dimension", type=int, default=384, help="of an embedding")
    parser.add_argument("--questions", type=int, default=5, help="per chunk")
    parser.add_argument("--themes", type=int, default=6, help="planted")
    parser.add_argument("--components", type=int, default=6, help="eigenvectors")
    parser.add_argument("--members", type=int, default=10, help="top components looked at")
    options = parser.parse_args()
    print(
        f"{'chunks':>7} {'degrees':>8} {'Lanczos':>8} {'peak MB':>9} {'dense MB':>9} {'residual':>9} "
        f"{'purity':>7}  eigenvalues"
    )
    for chunks in options.chunks:
        print(measure(chunks, options), flush=True)


if __name__ == "__main__":
    main()
