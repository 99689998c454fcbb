"""The public names of hwdag: type checkers read them here, and so does the package itself."""

from hwdag.answers.stream import AnswerStream as AnswerStream
from hwdag.building.ray import RayExecutor as RayExecutor
from hwdag.building.report import BuildReport as BuildReport
from hwdag.config import BuildConfig as BuildConfig
from hwdag.config import Scoring as Scoring
from hwdag.config import SearchConfig as SearchConfig
from hwdag.errors import HWDAGError as HWDAGError
from hwdag.index import HWDAGIndex as HWDAGIndex
from hwdag.lm.huggingface import HuggingFaceLM as HuggingFaceLM
from hwdag.lm.openai_compatible import OpenAIWriter as OpenAIWriter
from hwdag.rerank import rank_passages as rank_passages
from hwdag.retriever import Retriever as Retriever
from hwdag.scope import Scope as Scope
from hwdag.text.prompts import Prompts as Prompts
from hwdag.types import Answer as Answer
from hwdag.types import Citation as Citation
from hwdag.types import Document as Document
from hwdag.types import Node as Node
from hwdag.types import Retrieval as Retrieval
from hwdag.types import Span as Span
from hwdag.types import Step as Step
from hwdag.version import __version__ as __version__

__all__: list[str]
