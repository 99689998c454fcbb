"""Baselines that rank passages or take the text as it is: BM25, dense, truncate-middle, full context."""

import math
import re

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from worlds import WORDS, random_documents, random_text

from hwdag.config import SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import QuestionTooLong, UnknownOption
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Document, Span
from hwdag_lab.methods.bm25 import BM25Index, BM25Retriever
from hwdag_lab.methods.dense import DenseRetriever
from hwdag_lab.methods.full_context import FullContextRetriever
from hwdag_lab.methods.passages import PassageConfig, Passages
from hwdag_lab.methods.truncate_middle import TruncateMiddleRetriever, head_and_tail
from hwdag_lab.scripted import ScriptedLM, share_of_question

GRANULARITIES = ("300", "100", "sentence")


def bm25(**options):
    return BM25Retriever(options.pop("reader", ScriptedLM()), **options)


def dense(**options):
    options = {"reader": ScriptedLM(), "embedder": HashingEmbedder(64)} | options
    return DenseRetriever(**options)


def truncated(**options):
    return TruncateMiddleRetriever(options.pop("reader", ScriptedLM()))


def full(**options):
    return FullContextRetriever(options.pop("reader", ScriptedLM()))


MAKERS = {"bm25": bm25, "dense": dense, "truncate-middle": truncated, "full-context": full}
ALL = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
RANKING = pytest.mark.parametrize("make", [bm25, dense])


def found(retrieval):
    return [step.node for step in (*retrieval.steps, *retrieval.unread)]


def every(retriever, question, **options):
    """Return all that can be found, best first."""
    config = SearchConfig(token_budget=3000)
    return found(retriever.search(question, config=config, k=10_000, **options))


# shared by those that rank passages


@RANKING
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_a_number_of_nodes_comes_in_the_order_of_scores(make, granularity):
    retriever = make(granularity=granularity)
    retriever.insert(random_documents(3, sentences=60))
    available = len(every(retriever, "amber bridge castle dragon"))
    for k in (1, 3, 10_000):
        config = SearchConfig(token_budget=1)
        retrieval = retriever.search("amber bridge castle dragon", config=config, k=k)
        assert (retrieval.steps, retrieval.stop) == ((), "budget")
        best = retrieval.best(k)
        assert len(best) == min(k, available)
        scores = [step.similarity for step in best]
        assert scores == sorted(scores, reverse=True)
        assert all(step.p_yes is None for step in best)


@RANKING
def test_what_fits_is_read_and_the_best_of_the_rest_lies_beyond(make):
    retriever = make(granularity="sentence")
    retriever.insert(random_documents(4))
    ranking = every(retriever, "amber bridge")
    config = SearchConfig(token_budget=25)
    seen = []
    retrieval = retriever.search("amber bridge", config=config, k=9, on_step=seen.append)
    taken, room = [], 25
    for node in ranking:
        if node.tokens + 1 <= room:
            taken.append(node)
            room -= node.tokens + 1
    left = [node for node in ranking if node not in taken]
    assert [step.node for step in retrieval.steps] == taken
    assert [step.node for step in retrieval.unread] == left[: 9 - len(taken)]
    assert tuple(seen) == retrieval.steps
    assert len(retrieval.best(9)) == 9


# passages


@pytest.mark.parametrize(("granularity", "limit"), [("300", 300), ("100", 100), ("sentence", 300)])
def test_passages_are_as_fine_as_asked(granularity, limit):
    text = "\n\n".join(document.text for document in random_documents(5, documents=8, sentences=30))
    lm = ScriptedLM()
    passages = Passages.of(Document("d", text), PassageConfig(granularity), lm)
    assert [n.id for n in passages.nodes] == [
        f"d#{granularity}.{i}" for i in range(len(passages.nodes))
    ]
    assert max(node.tokens for node in passages.nodes) <= limit
    assert "".join("".join(n.text.split()) for n in passages.nodes) == "".join(text.split())
    assert passages.indexed == tuple(node.text for node in passages.nodes)
    if granularity == "sentence":
        assert len(passages.nodes) == 8 * 30


def test_a_sentence_without_an_end_is_cut():
    document = Document("d", "word " * 1000)
    passages = Passages.of(document, PassageConfig("sentence"), ScriptedLM())
    assert len(passages.nodes) > 1
    assert max(node.tokens for node in passages.nodes) <= 300


def test_an_unknown_granularity_is_refused():
    for wrong in ("200", "words", 300):
        with pytest.raises(UnknownOption, match="granularity"):
            DenseRetriever(granularity=wrong)


@RANKING
def test_in_context_the_heading_is_searched_but_not_read(make):
    piers, sails = "There are nine piers in all of it.", "There are four sails on each of them."
    text = f"# The harbor of Lisbon\n\nIt opened.\n\n{piers}\n\n# The mills of Delft\n\n{sails}\n"
    question = "lisbon harbor"
    plain = make(granularity="sentence")
    contextual = make(granularity="sentence", contextual=True)
    for retriever in (plain, contextual):
        retriever.insert([Document("d", text)])
    ranking = [node.text for node in every(contextual, question)]
    assert sorted(ranking) == sorted(node.text for node in every(plain, question))
    assert ranking[1] == piers
    plain_scores = {s.node.text: s.similarity for s in plain.search(question).steps}
    assert plain_scores[piers] == 0.0


@RANKING
def test_in_context_the_title_stands_in_for_a_missing_heading(make):
    retriever = make(granularity="sentence", contextual=True)
    retriever.insert(
        [
            Document("a", "It was completed in the year 1901 by two brothers.", "Zephyr tower"),
            Document("b", "It was completed in the year 1902 by two brothers.", "Quarry bridge"),
        ]
    )
    first = every(retriever, "When was the quarry bridge completed?")[0]
    assert first.text == "It was completed in the year 1902 by two brothers."


# BM25


def brute_force(texts: list[str], question: str, *, k1: float, b: float) -> np.ndarray:
    """Robertson and Zaragoza's formula with Lucene's idf, word by word."""
    passages = [re.findall(r"\w+", text.lower()) for text in texts]
    mean = sum(map(len, passages)) / len(passages)
    scores = np.zeros(len(passages))
    for word in re.findall(r"\w+", question.lower()):
        containing = sum(word in passage for passage in passages)
        idf = math.log(1 + (len(passages) - containing + 0.5) / (containing + 0.5))
        for i, passage in enumerate(passages):
            tf = passage.count(word)
            scores[i] += idf * tf / (tf + k1 * (1 - b + b * len(passage) / mean))
    return scores


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("seed", range(5))
def test_bm25_is_the_formula(granularity, seed):
    constants = {"k1": 1.5, "b": 0.75} if seed < 3 else {"k1": 0.3 * seed, "b": 0.4}
    retriever = bm25(granularity=granularity, **(constants if seed > 0 else {}))
    documents = random_documents(seed, sentences=40)
    retriever.insert(documents)
    cut = [
        node
        for document in documents
        for node in Passages.of(document, PassageConfig(granularity), ScriptedLM()).nodes
    ]
    question = " ".join(np.random.default_rng(seed).choice(WORDS, 4)) + " unheard"
    scores = brute_force([node.text for node in cut], question, **constants)
    retrieval = retriever.search(question, config=SearchConfig(token_budget=3000), k=10_000)
    shares = {step.node: step.similarity for step in (*retrieval.steps, *retrieval.unread)}
    expected = dict(zip(cut, scores / scores.sum(), strict=True))
    assert shares == pytest.approx(expected, abs=1e-6)
    ranked = np.array([expected[node] for node in shares])
    assert np.all(np.diff(ranked) < 1e-6)  # equal up to float32


def test_bm25_without_a_common_word_fills_the_budget_in_reading_order():
    retriever = bm25(granularity="sentence")
    retriever.insert(["The bridge was painted red today.", "A castle stands high upon that hill."])
    for question in ("xylophone?", "what is it?", "?"):
        retrieval = retriever.search(question)
        assert [step.node.text[:3] for step in retrieval.steps] == ["The", "A c"]
        assert {step.similarity for step in retrieval.steps} == {0.0}


def test_bm25_with_passages_without_words():
    retriever = bm25()
    retriever.insert(["...!?", "§§§"])
    assert len(retriever.search("who?").steps) == 2


@pytest.mark.parametrize(
    ("sentences", "question", "answer"),
    [
        (["北京是中国的首都。", "上海有一个很大的港口。", "广州的天气很热。"], "哪里有港口？", 1),
        (
            [
                "القاهرة عاصمة مصر الكبرى.",
                "يقع الميناء في مدينة الإسكندرية.",
                "الطقس حار جدا في أسوان.",
            ],
            "أين يقع الميناء؟",
            1,
        ),
        (
            ["दिल्ली भारत की राजधानी है।", "मुंबई में एक बड़ा बंदरगाह है।", "जयपुर का मौसम बहुत गर्म है।"],
            "बंदरगाह कहाँ है?",
            1,
        ),
    ],
    ids=["Chinese", "Arabic", "Hindi"],
)
def test_bm25_in_other_languages(sentences, question, answer):
    retriever = bm25(granularity="sentence")
    retriever.insert([Document("d", " ".join(sentences))])
    assert sentences[answer] in every(retriever, question)[0].text


def test_bm25_prints_nothing(capfd):
    retriever = bm25()
    retriever.insert(random_documents(6))
    retriever.search("amber")
    assert capfd.readouterr() == ("", "")


def test_bm25_builds_its_index_once_per_set_of_documents(monkeypatch):
    made, of = [], BM25Index.of
    monkeypatch.setattr(BM25Index, "of", lambda *given: made.append(1) or of(*given))
    retriever = bm25()
    retriever.insert(random_documents(7))
    for question in ("amber", "bridge"):
        retriever.search(question)
    assert len(made) == 1
    retriever.insert(["One more text."])
    retriever.search("amber")
    assert len(made) == 2


# dense


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("seed", range(3))
def test_dense_is_the_dot_product(granularity, seed):
    embedder = HashingEmbedder(64)
    retriever = dense(granularity=granularity, embedder=embedder)
    documents = random_documents(seed, sentences=40)
    retriever.insert(documents)
    cut = [
        node
        for document in documents
        for node in Passages.of(document, PassageConfig(granularity), ScriptedLM()).nodes
    ]
    question = "amber bridge castle"
    scores = [float(embedder.embed([n.text])[0] @ embedder.embed_query(question)) for n in cut]
    order = sorted(range(len(cut)), key=lambda i: -round(scores[i], 5))
    ranking = [cut.index(node) for node in every(retriever, question)]
    assert [round(scores[i], 5) for i in ranking] == [round(scores[i], 5) for i in order]


def test_an_embedder_may_be_given_by_name():
    retriever = dense(embedder="hashing-32")
    assert retriever.embedder.name == "hashing-32"
    assert retriever.embedder is retriever.embedder


# truncation from the middle


@given(
    st.lists(
        st.sampled_from(["castle", "a", "riverside!", "\n\n", "北京是中国的首都", "é"]), min_size=1
    ),
    st.integers(0, 60),
)
def test_ends_are_as_long_as_they_can_be(words, budget):
    text = " ".join(words).strip()
    cost = ScriptedLM().count_tokens

    def line(piece):
        return 1 + cost([piece])[0]

    if line(text) <= budget or not text:
        return  # only asked for texts that do not fit
    units = [m.span() for m in re.finditer(r"[\u4e00-\u9fff]|[^\s\u4e00-\u9fff]+", text)]
    heads = [end for _, end in units[:-1] if line(text[:end]) <= budget // 2]
    head = max(heads, default=0)
    left = budget - line(text[:head])
    tails = [start for start, _ in units if start >= head and line(text[start:]) <= left]
    expected = (Span(0, head), Span(min(tails), len(text))) if head and tails else None
    assert head_and_tail(text, budget, line) == expected


def test_both_ends_of_a_document_are_kept():
    text = " ".join(f"w{i}" for i in range(1000))
    retriever = truncated()
    retriever.insert([Document("d", f"  {text}\n")])
    retrieval = retriever.search("w1?", config=SearchConfig(token_budget=101))
    head, tail = (step.node for step in retrieval.steps)
    assert head.text == " ".join(f"w{i}" for i in range(49))  # 50 with its bullet
    assert tail.text == " ".join(f"w{i}" for i in range(950, 1000))  # 51 with its bullet
    assert (head.id, tail.id) == ("d#head", "d#tail")
    assert (head.sources[0].start, tail.sources[0].end) == (2, len(text) + 2)
    assert retrieval.context_tokens == 101
    assert retrieval.stop == "budget"
    assert retrieval.notes == ("the middle of 1 of 1 documents was left out",)


def test_what_fits_is_not_truncated():
    retriever = truncated()
    retriever.insert(random_documents(8))
    retrieval = retriever.search("amber", config=SearchConfig(token_budget=3000))
    assert [node.id for node in found(retrieval)] == ["d0#whole", "d1#whole", "d2#whole"]
    assert (retrieval.notes, retrieval.stop) == ((), "exhausted")


def test_documents_share_the_budget_by_length():
    def text(words):
        return " ".join(f"w{i}" for i in range(words))

    retriever = truncated()
    retriever.insert([Document("a", text(300)), Document("b", text(600)), Document("c", text(9))])
    retrieval = retriever.search("w1?", config=SearchConfig(token_budget=90))
    nodes = [step.node for step in retrieval.steps]
    assert [node.id for node in nodes] == ["a#head", "a#tail", "b#head", "b#tail"]
    tokens = [node.tokens + 1 for node in nodes]
    assert (sum(tokens[:2]), sum(tokens[2:])) == (90 * 300 // 909, 90 * 600 // 909)
    assert retrieval.notes == (
        "the middle of 2 of 3 documents was left out",
        "1 of 3 documents had too small a share to be read at all",
    )


# full context


def test_full_context_reads_everything_whatever_the_budget():
    documents = random_documents(9)
    lm = ScriptedLM()
    retriever = full(reader=lm)
    retriever.insert(documents)
    answer = retriever.answer("amber?", config=SearchConfig(token_budget=1))
    assert lm.sessions[-1].texts == [document.text for document in documents]
    assert answer.retrieval.notes == ()
    assert answer.retrieval.stop == "exhausted"
    assert answer.usage == lm.sessions[-1].usage


def windowed(p_yes=share_of_question, question="Who guards the amber orchard?"):
    """Return a text of several windows; its last but one sentence answers."""
    rng = np.random.default_rng(10)
    filler = [random_text(rng, 8) for _ in range(60)]
    filler[-2] = "Nobody but Silvia guards the amber orchard."
    lm = ScriptedLM(context_tokens=260, window_tokens=100, p_yes=p_yes)
    retriever = full(reader=lm)
    retriever.insert([Document("short", "A kettle is small."), Document("long", " ".join(filler))])
    return lm, retriever, question


def test_a_text_that_does_not_fit_is_read_in_windows():
    lm, retriever, question = windowed()
    answer = retriever.answer(question)
    read = [session for session in lm.sessions if session.texts]
    assert len(read) > 2
    together = "".join("".join(text.split()) for session in read for text in session.texts)
    whole = "".join(doc.text for doc in retriever.documents.values())
    assert together == "".join(whole.split())
    assert [s.node.text for s in answer.retrieval.steps] == [t for s in read for t in s.texts]
    assert answer.text == "Nobody but Silvia guards the amber orchard."
    assert answer.citations[0].text == answer.text
    assert answer.citations[0].document_id == "long"
    assert answer.retrieval.p_yes == 1.0
    assert answer.retrieval.notes == (
        f"the text was read in {len(read)} windows; the answer is that of the window with the "
        "highest p_yes",
    )


def test_the_usage_of_all_windows_counts():
    lm, retriever, question = windowed()
    answer = retriever.answer(question)
    read = [session for session in lm.sessions if session.texts]
    assert answer.usage.tokens == sum(session.usage.tokens for session in read)
    decoded = [session for session in read if session.enough is not None]
    assert len(decoded) == 1
    assert answer.usage.tokens > answer.retrieval.context_tokens


@pytest.mark.parametrize("best", [0, 1, 2])
def test_the_window_with_the_highest_p_yes_answers(best):
    probes = []

    def p_yes(question, texts):
        probes.append(texts)
        return 0.9 if len(probes) > best else 0.2

    lm, retriever, question = windowed(p_yes)
    answer = retriever.answer(question)
    read = [session for session in lm.sessions if session.texts]
    [answered] = [i for i, session in enumerate(read) if session.enough is not None]
    assert answered == best
    assert any(answer.text in text for text in read[best].texts)
    assert {citation.text for citation in answer.citations if citation.weight > 0} <= {
        sentence + "." for text in read[best].texts for sentence in re.split(r"\.\s*", text)
    }


def test_search_alone_costs_nothing_and_names_the_windows():
    lm, retriever, question = windowed()
    retrieval = retriever.search(question)
    assert lm.reads == 0
    assert retrieval.usage.tokens == 0
    assert "windows" in retrieval.notes[0]
    assert len(retrieval.steps) > 2


def test_windows_stream_the_same_answer():
    _, retriever, question = windowed()
    stream = retriever.stream(question)
    pieces = "".join(stream).strip()
    assert pieces == stream.answer.text == retriever.answer(question).text


def test_a_question_that_leaves_no_room_is_refused():
    lm, retriever, _ = windowed()
    with pytest.raises(QuestionTooLong):
        retriever.search("who " * 300)
    room = lm.session("who", prompts=SearchPrompts(), heads="auto", max_new_tokens=64).room
    with pytest.raises(QuestionTooLong):
        retriever.search("who " * room)


# a real tokenizer, whose counts of pieces do not add up


def small_lm(context: int) -> HuggingFaceLM:
    return HuggingFaceLM(tiny.model(max_position_embeddings=context), tiny.tokenizer(), name="tiny")


@pytest.mark.slow
def test_windows_of_a_real_model():
    lm, document = (
        small_lm(700),
        Document("d", random_documents(11, documents=1, sentences=60)[0].text),
    )
    retriever = FullContextRetriever(lm)
    retriever.insert([document])
    config = SearchConfig()
    answer = retriever.answer("Which bridge?", config=config)
    nodes = [step.node for step in answer.retrieval.steps]
    session = lm.session("Which bridge?", prompts=lm.card.prompts, heads="auto", max_new_tokens=4)
    assert len(nodes) > 2
    assert all(session.cost(node.text) <= session.room for node in nodes)
    assert max(session.cost(node.text) for node in nodes) > session.room / 2
    assert "".join("".join(node.text.split()) for node in nodes) == "".join(document.text.split())
    probes = []
    for node in nodes:
        alone = lm.session("Which bridge?", prompts=lm.card.prompts, heads="auto", max_new_tokens=4)
        probes.append(alone.read([node.text]).p_yes)
    assert answer.retrieval.p_yes == pytest.approx(max(probes), abs=1e-6)
    best = nodes[int(np.argmax(probes))].sources[0]
    cited = {citation.span for citation in answer.citations if citation.weight > 0}
    assert cited
    assert all(best.start <= span.start and span.end <= best.end for span in cited)


@pytest.mark.parametrize("budget", [1, 9, 10, 33, 100, 257])
def test_truncation_with_a_real_tokenizer(budget):
    lm = small_lm(2048)
    text = (
        " ".join(document.text for document in random_documents(12)) + " " + "北京是中国的首都" * 9
    )
    retriever = TruncateMiddleRetriever(lm)
    retriever.insert([Document("d", text)])
    retrieval = retriever.search("who?", config=SearchConfig(token_budget=budget))
    texts = [step.node.text for step in retrieval.steps]
    assert len(texts) in ((0,) if budget < 9 else (0, 2) if budget < 33 else (2,))
    assert retrieval.context_tokens <= budget
    if texts:
        assert text.startswith(texts[0]) and text.endswith(texts[1])
        assert retrieval.context_tokens > budget - 2 * 12  # the longest words have 8 letters


# the real models


@pytest.mark.model
def test_the_default_models_find_the_sentence():
    text = (
        "The lighthouse was built in 1901. Its keeper, Ines, played the cello at night. "
        "Ships seldom passed. The rocks below it are called the Teeth."
    )
    for retriever in (
        BM25Retriever(granularity="sentence"),
        DenseRetriever(granularity="sentence"),
    ):
        retriever.insert([Document("d", text)])
        config = SearchConfig(token_budget=24)
        answer = retriever.answer("Which instrument did the keeper Ines play?", config=config)
        assert answer.retrieval.steps[0].node.text.startswith("Its keeper")
        assert answer.retrieval.context_tokens <= 24
    ends_only = TruncateMiddleRetriever()
    ends_only.insert([Document("d", text)])
    retrieval = ends_only.search("who?", config=SearchConfig(token_budget=20))
    head, tail = (step.node.text for step in retrieval.steps)
    assert text.startswith(head) and text.endswith(tail)
    assert 14 <= retrieval.context_tokens <= 20


def test_line_breaks_do_not_cost_a_node_its_place():
    """A node is read as one line: the tokens of its breaks do not count."""
    lm = HuggingFaceLM(tiny.model(), tiny.tokenizer())
    text = "The harbour\n\n\n\nwas\n\n\n\nbuilt\n\n\n\nby Clara Holm."
    retriever = TruncateMiddleRetriever(lm)
    retriever.insert([Document("town", text)])
    session = lm.session("Who?", prompts=SearchPrompts(), heads="all", max_new_tokens=4)
    budget = session.cost(text)
    assert lm.count_tokens([text])[0] > budget
    found = retriever.search("Who?", config=SearchConfig(token_budget=budget))
    assert [step.node.text for step in found.steps] == [text]
    assert found.stop == "exhausted"
