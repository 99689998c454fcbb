"""Two encoders, one for questions and one for passages: Dragon, DPR, and any other pair.

Dragon: Lin et al., arXiv 2302.07452. DPR: Karpukhin et al., arXiv 2004.04906.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from hwdag.arrays import Vectors
from hwdag.checks import one_of
from hwdag.embedding.base import Embedder
from hwdag.embedding.sentence_transformer import SentenceTransformerEmbedder
from hwdag.errors import ModelError, ModelNotFound, UnknownOption

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Pooling = Literal["cls", "mean"]
"""A text's vector: the last hidden state of its first token, or the mean over its tokens."""

Similarity = Literal["dot", "cosine"]
"""What the encoders were trained with. With "dot" vectors keep their lengths."""

SEPARATOR = "|"
"""Between the two models in the name of a pair."""


# why: DPR's original checkpoints need classes of their own, these ports are plain BERT
_DPR = "sentence-transformers/facebook-dpr-{}_encoder-{}-base"

KNOWN = {
    "facebook/dragon-plus": (
        "facebook/dragon-plus-query-encoder",
        "facebook/dragon-plus-context-encoder",
    ),
    "facebook/dragon-roberta": (
        "facebook/dragon-roberta-query-encoder",
        "facebook/dragon-roberta-context-encoder",
    ),
    **{
        f"facebook/dpr-{data}": (_DPR.format("question", data), _DPR.format("ctx", data))
        for data in ("single-nq", "multiset")
    },
}
"""Query and passage encoder by one name."""


class TwoEncoderEmbedder:
    """Two plain Hugging Face encoders as an `Embedder`.

    What exceeds a model's length is not seen by it. May be used by several threads; they take
    turns.

    Args:
        query_model: encodes questions; hub name or folder.
        passage_model: encodes passages; may be the same.
        name: recorded in an index; by default one that `two_encoders` understands.
        pooling: how the token states become one vector.
        similarity: "dot" keeps the lengths of vectors, "cosine" makes them unit vectors.
        device: as in torch ("cpu", "cuda:1", ...); None takes the best there is.
        batch_size: texts per forward.

    Raises:
        ModelNotFound: no model under one of the names.
        ModelError: a checkpoint that is not a plain encoder, or vectors of different lengths.
        UnknownOption: an unknown pooling or similarity.
    """

    def __init__(
        self,
        query_model: str,
        passage_model: str,
        *,
        name: str | None = None,
        pooling: Pooling = "cls",
        similarity: Similarity = "dot",
        device: str | None = None,
        batch_size: int = 64,
    ) -> None:
        one_of("pooling", pooling, get_args(Pooling))
        one_of("similarity", similarity, get_args(Similarity))
        usual = (pooling, similarity) == ("cls", "dot")
        how = () if usual else (pooling, similarity)
        self.name = name or SEPARATOR.join([query_model, passage_model, *how])
        self.similarity = similarity
        self._queries, self._passages = (
            SentenceTransformerEmbedder(
                _encoder(model, pooling, device),
                name=model,
                batch_size=batch_size,
                unit=similarity == "cosine",
            )
            for model in (query_model, passage_model)
        )
        self.dimension = self._passages.dimension
        if self._queries.dimension != self.dimension:
            raise ModelError(
                f"{query_model} makes vectors of length {self._queries.dimension} and "
                f"{passage_model} of {self.dimension}; only encoders that were trained "
                "together can be a pair"
            )

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Passages to vectors, (texts, dimension)."""
        return self._passages.embed(texts)

    def embed_query(self, text: str) -> Vectors:
        """A question to a vector, (dimension,)."""
        return self._queries.embed_query(text)


def pair_or_as_it_is(embedder: Embedder | str | None) -> Embedder | str | None:
    """The pair, where an embedder is the name of one."""
    is_pair = isinstance(embedder, str) and (embedder in KNOWN or SEPARATOR in embedder)
    return two_encoders(str(embedder)) if is_pair else embedder


def two_encoders(name: str, **options: Any) -> TwoEncoderEmbedder:
    """The pair of that name: one of `KNOWN`, or "query|passage" or "query|passage|pooling|similarity".

    `options` are others of `TwoEncoderEmbedder`, which raises what this raises.
    """
    if name in KNOWN:
        return TwoEncoderEmbedder(*KNOWN[name], name=name, **options)
    parts = name.split(SEPARATOR)
    if len(parts) not in (2, 4) or not all(parts):
        raise UnknownOption(
            f"{name!r} names no pair of encoders; known are {', '.join(KNOWN)}, any other is "
            'written as "query|passage" or "query|passage|pooling|similarity", as in '
            '"my/questions|my/passages|mean|cosine"'
        )
    how: Any = dict(zip(("pooling", "similarity"), parts[2:], strict=False))
    return TwoEncoderEmbedder(parts[0], parts[1], name=name, **how, **options)


def _encoder(model: str, pooling: Pooling, device: str | None) -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule
    from transformers import AutoConfig

    try:
        if AutoConfig.from_pretrained(model, trust_remote_code=False).model_type == "dpr":
            raise ModelError(
                f"{model} is in DPR's own format, of which a context encoder would be loaded with "
                'random weights; use the name "facebook/dpr-single-nq" or "facebook/dpr-multiset", '
                "or a port to plain BERT"
            )
        transformer = Transformer(model)
    except (OSError, ValueError) as error:  # ValueError: a folder without a model type
        raise ModelNotFound(
            f"cannot load the encoder {model!r} ({error}); give a name on the Hugging Face hub, or "
            "a folder with a transformers encoder and its tokenizer"
        ) from error
    pooled = PoolingModule(transformer.get_embedding_dimension(), pooling)
    return SentenceTransformer(modules=[transformer, pooled], device=device)
