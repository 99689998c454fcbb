"""No test of the LlamaIndex package may reach for a model that nobody named."""

import pytest
from llama_index.core import Settings


@pytest.fixture(autouse=True)
def no_other_models(monkeypatch):
    """Whoever resolves the global LLM or embedding model would ask for OpenAI."""
    for name in ("llm", "embed_model"):
        monkeypatch.setattr(type(Settings), name, property(lambda _: pytest.fail("touched")))
