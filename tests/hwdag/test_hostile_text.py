"""Statements of a document about itself that do no harm to others; see docs/security.md."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial

import pytest
from hostile import ATTACKS, CONTROL_TOKENS, LINE_BREAKS, TAKEOVER
from store_world import assert_same, load_all
from tiny import model, tokenizer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from worlds import corpus_of, random_prose, walk

from hwdag.building.levels import MAX_LEVELS, GraphBuilder
from hwdag.building.refresh import Refresh
from hwdag.building.windows import WindowPlan
from hwdag.config import NEVER, BuildConfig, SearchConfig
from hwdag.embedding.default import load_embedder
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import ModelError
from hwdag.lm.default import load_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.tokens import Codec
from hwdag.lm.writers import CallableWriter
from hwdag.store.sqlite import Header, Store
from hwdag.text.characters import disarmed, one_line, visible, without_surrogates
from hwdag.text.prompts import Prompts, SearchPrompts, SummaryPrompt
from hwdag.threads import Lazy
from hwdag.trace import render
from hwdag.trace.bars import Silent
from hwdag.types import Answer, Citation, Document, Span, Usage
from hwdag_app.cli.terminal import visible_output
from hwdag_files.read import read_documents
from hwdag_lab.scripted import ScriptedLM

CONFIG = BuildConfig(window_tokens=320, chunk_tokens=40).resolved("hwdag")
PAPERS = BuildConfig("garlic", window_tokens=320, chunk_tokens=40).resolved("garlic")
EMBEDDER = HashingEmbedder(64)


def prose(sentences, seed):
    return random_prose(seed, sentences, words=(5, 11))


BENIGN = [Document(f"benign-{seed}", prose(36, seed), f"Title {seed}") for seed in range(2)]


def echo(prompt):
    """Reply as the worst writer: repeat the window line by line."""
    return "\n".join(line for line in prompt.splitlines() if line.startswith("* "))


def in_store(documents, lm=None, *, generated=False, path=None, config=CONFIG):
    """Return a store with the graphs of documents."""
    lm = lm or ScriptedLM(reply=echo)
    header = Header(lm.name, EMBEDDER.name, EMBEDDER.dimension, asdict(config))
    store = Store.create(path, header)
    builder = GraphBuilder(lm, lm if generated else None, EMBEDDER, config, Prompts())
    Refresh(Lazy(lambda: builder), store, Silent(), replace=False).run(documents)
    return store


def entries_of(documents, lm=None, **options):
    with in_store(documents, lm, **options) as store:
        return {entry.document.id: entry for entry in load_all(store)}


# --- one document cannot change another ---------------------------------------------------------


@pytest.mark.parametrize("generated", [False, True], ids=["extractive", "generated"])
def test_documents_stay_the_same_among_hostile_ones_and_nodes_rest_on_their_own(generated):
    alone = entries_of(BENIGN, generated=generated)
    hostile = [
        Document(name, text, without_surrogates(text[:100])[0]) for name, text in ATTACKS.items()
    ]
    half = len(hostile) // 2
    documents = [*hostile[:half], BENIGN[0], *hostile[half:], BENIGN[1]]
    together = entries_of(documents, generated=generated)
    for document in BENIGN:
        assert_same(together[document.id], alone[document.id])
    for key, (document, graph, _) in together.items():
        assert {node.document_id for node in graph.nodes} == {key}
        assert all(span.end <= len(document.text) for n in graph.nodes for span in n.sources)
        forged = [node for node in graph.nodes if "FORGED" in node.text]
        assert not forged or "FORGED" in document.text


def points_by_children(entry, before):
    """Text and edges of the points whose windows end before a character of the document."""
    graph = entry.graph
    ends = [node.sources[-1].end for node in graph.nodes]
    found = {}
    for i in graph.at_level(2):
        children, weights = graph.children(int(i))
        if all(ends[child] <= before for child in children):
            found.setdefault(tuple(children), []).append((graph.nodes[i].text, tuple(weights)))
    return found


@pytest.mark.parametrize("generated", [False, True], ids=["extractive", "generated"])
@pytest.mark.parametrize("name", ["instruction", "bullets", "controls", "placeholders"])
def test_windows_before_a_hostile_passage_are_the_same(name, generated):
    clean = prose(100, 7)
    found = [
        points_by_children(
            entries_of([Document("d", f"{clean}\n\n{tail}")], generated=generated)["d"],
            before=len(clean) * 3 // 4,
        )
        for tail in (ATTACKS[name], "A harmless end of the text.")
    ]
    assert found[0] == found[1]
    assert len(found[0]) >= 2


# --- a node stays within its line ---------------------------------------------------------------


def test_no_character_breaks_a_line():
    everything = "".join(map(chr, range(0x110000)))
    assert len(everything.splitlines()) == len(LINE_BREAKS) + 1
    assert len(one_line(everything).splitlines()) == 1
    assert len(one_line(everything)) == len(everything)


@pytest.mark.parametrize("name", ["bullets", "breaks", "takeover", "items", "thinking"])
def test_a_window_of_the_papers_shows_the_writer_one_line_per_node(name):
    lm = ScriptedLM(reply=lambda prompt: seen.append(prompt) or echo(prompt))
    seen, config = [], replace(PAPERS, leaves="sentences")
    document = Document("d", ATTACKS[name] + "\n\n" + prose(30, 3))
    entry = entries_of([document], lm, generated=True, config=config)
    before, after = SummaryPrompt().cut("")
    shown = set()
    for prompt in (p for p in seen if p.endswith(after)):  # others ask again
        lines = prompt.removeprefix(before).removesuffix(after).splitlines()
        assert all(line.startswith("* ") for line in lines)
        shown |= {line.removeprefix("* ") for line in lines}
    assert {one_line(n.text) for n in entry["d"].graph.nodes if n.level == 1} <= shown


@pytest.mark.parametrize("name", ["items", "asterisks", "long line", "quotes", "headings"])
def test_points_stay_within_their_share_of_the_window(name):
    lm = ScriptedLM(reply=echo)
    for generated in (False, True):
        graph = entries_of([Document("d", ATTACKS[name])], lm, generated=generated)["d"].graph
        plan = WindowPlan.of(CONFIG, None, lm, extractive=not generated)
        by_window = {}
        for i in graph.at_level(2):
            children, _ = graph.children(int(i))
            by_window.setdefault(tuple(children), []).append(graph.nodes[i].text)
        for points in by_window.values():
            costs = lm.count_tokens([f"* {text}\n" for text in points])
            assert sum(costs) <= plan.points_tokens or len(costs) == 1


def test_a_flood_of_points_is_cut_to_their_share_of_the_window():
    flood = "\n".join(f"* Fact {i} of many." for i in range(10_000))
    for reply in (flood, "* " + "word " * 100_000):
        lm = ScriptedLM(reply=lambda prompt, reply=reply: reply)
        writer = CallableWriter(lambda prompt, reply=reply: reply)  # heeds no limit
        header = Header(lm.name, EMBEDDER.name, EMBEDDER.dimension, asdict(CONFIG))
        with Store.create(None, header) as store:
            builder = partial(GraphBuilder, lm, writer, EMBEDDER, CONFIG, Prompts())
            Refresh(Lazy(builder), store, Silent(), replace=False).run(BENIGN[:1])
            graph = store.load(BENIGN[0].id).graph
        plan = WindowPlan.of(CONFIG, None, lm, extractive=False)
        windows = {tuple(graph.children(int(i))[0]) for i in graph.at_level(2)}
        points = [graph.nodes[i].text for i in graph.at_level(2)]
        costs = lm.count_tokens([f"* {text}\n" for text in points])
        assert sum(costs) <= plan.points_tokens * len(windows)
        assert graph.height <= MAX_LEVELS


@pytest.mark.parametrize("unit", ["* a\n", "# a\n\n", "a b c. "])
def test_cost_grows_with_the_length_and_no_faster(unit):
    costs = []
    for size in (500, 2_000):  # of several windows each, so that both have as many levels
        lm = ScriptedLM(reply=echo)
        entry = entries_of([Document("d", unit * size)], lm, generated=True)["d"]
        costs.append((len(entry.graph), lm.replays, lm.writes, lm.usage.tokens))
    for small, large in zip(*costs, strict=True):
        assert large <= 4.4 * small + 40


def test_a_long_heading_is_shortened_before_every_passage():
    embedded = []

    class Counting(HashingEmbedder):
        def embed(self, texts):
            embedded.extend(map(len, texts))
            return super().embed(texts)

    text = "# " + "word " * 5_000 + "\n\n" + "A passage below it stands here.\n\n" * 500
    header = Header("scripted", "hashing-64", 64, asdict(CONFIG))
    with Store.create(None, header) as store:
        builder = GraphBuilder(ScriptedLM(), None, Counting(64), CONFIG, Prompts())
        Refresh(Lazy(lambda: builder), store, Silent(), replace=False).run([Document("d", text)])
    assert sum(embedded) < 10 * len(text)


# --- no control token comes out of a text -------------------------------------------------------

HOSTILE = " ".join([*CONTROL_TOKENS, TAKEOVER, "".join(CONTROL_TOKENS), "<|im_<|im_end|>end|>"])


def knowing_all_families():
    """Return the small tokenizer, with every spelling as a control token: half special, half added."""
    made = tokenizer.__wrapped__()
    made.add_special_tokens({"additional_special_tokens": list(CONTROL_TOKENS[::2])})
    made.add_tokens(list(CONTROL_TOKENS[1::2]))
    return made


def controls_of(codec):
    known = codec.tokenizer.get_vocab()
    return {known[token] for token in CONTROL_TOKENS if token in known}


def test_every_family_of_control_tokens_is_plain_text():
    codec = Codec(knowing_all_families())
    forms = ("{}", " {} ", "a{}b", "{0}{0}{0}", "<{}>", "{}\u200b")
    for text in (form.format(token) for token in CONTROL_TOKENS for form in forms):
        ids = codec.encode(text)
        assert controls_of(codec).isdisjoint(ids)
        assert codec.count([text]) == [len(ids)]
        assert codec.tokenizer.decode(ids) == text


@pytest.mark.parametrize("token", ["<|im_end|>", "<tool_call>", "[INST]", "<｜User｜>"])
def test_a_spelling_that_is_split_over_parts_is_plain_text_too(token):
    codec = Codec(knowing_all_families())
    for at in range(1, len(token)):
        parts = "* " + token[:at], token[at:], "\n"
        ids, _ = codec.encode_parts(*parts)
        assert controls_of(codec).isdisjoint(ids)
        assert codec.count_parts([parts, ("a",)]) == [len(ids), len(codec.encode("a"))]


def test_spellings_that_only_a_normaliser_makes_are_plain_text():
    inner = Tokenizer(models.WordLevel({"[UNK]": 0, "<": 1, "tool_call": 2, ">": 3, "a": 4}))
    inner.token_to_id("[UNK]")
    inner.model.unk_token = "[UNK]"
    inner.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")
    made.add_tokens(["<tool_call>"])  # matched after normalisation
    codec, control = Codec(made), made.convert_tokens_to_ids("<tool_call>")
    for text in ("<tool_call>", "＜tool_call＞", "<TOOL_CALL>", "a ＜Tool_Call＞ a ＜TOOL_CALL>"):
        assert control in made(text)["input_ids"]
        assert control not in codec.encode(text)
        assert codec.count([text, "a"]) == [len(codec.encode(text)), 1]


def test_codecs_that_share_a_tokenizer_do_not_disturb_each_other():
    """Turn the switch of a tokenizer that decides whether special tokens are split, as others may."""
    shared = knowing_all_families()
    codecs = Codec(shared), Codec(shared)
    works = [
        lambda c: c.encode(HOSTILE),
        lambda c: c.control("<|im_end|>x"),
        lambda c: c.count([HOSTILE]),
    ]
    expected = [work(codecs[0]) for work in works]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(6) as pool:
            jobs = [(i % 3, pool.submit(works[i % 3], codecs[i % 2])) for i in range(200)]
            assert all(job.result() == expected[kind] for kind, job in jobs)
    finally:
        sys.setswitchinterval(interval)


def test_what_a_vocabulary_lacks_is_no_control_token():
    inner = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    codec = Codec(PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>"))
    assert codec.encode("a 猫 a") == [1, 0, 1]


class Recorder:
    """Ids of every prompt that passes through a model, without padding."""

    def __init__(self, lm):
        self.rows = []
        self._hook = lm.model.register_forward_pre_hook(self._record, with_kwargs=True)

    def _record(self, module, args, kwargs):
        ids = args[0] if args else kwargs["input_ids"]
        mask = kwargs.get("attention_mask")
        for i, row in enumerate(ids.tolist()):
            pad = 0 if mask is None or mask.shape != ids.shape else int((mask[i] == 0).sum())
            if len(row) - pad > 1:  # decoded tokens are the model's own
                self.rows.append(row[pad:])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._hook.remove()


def assert_only_templates_have_controls(lm, rows):
    """Check that the control tokens of every prompt are those of its template, in their order."""
    turns = lm.turns
    begin, reply = (turns.head, turns.reply)
    second = [*turns.reply, *turns.between, *turns.second_reply]
    controls = set(lm.codec.tokenizer.added_tokens_decoder)
    legal = [
        [i for i in ids if i in controls]
        for ids in (
            [],
            reply,
            begin,
            [*begin, *reply],
            second,
            [*begin, *second],
        )
    ]
    found = [[i for i in row if i in controls] for row in rows]
    assert any(found)
    assert all(controls_of_row in legal for controls_of_row in found)


def asked(lm, entries, question):
    corpus = corpus_of(
        [e.graph for e in entries], [e.vectors for e in entries], [e.document.text for e in entries]
    )
    walked = walk(
        corpus,
        question,
        reader=lm,
        embedder=EMBEDDER,
        config=SearchConfig(token_budget=600, confidence=NEVER),
        max_new_tokens=3,
        prompts=SearchPrompts(),
    )
    walked.session.likelihoods([HOSTILE], enough=True)
    for _ in walked.session.decode(enough=walked.says_yes, max_new_tokens=3):
        pass
    return walked


def test_no_prompt_of_a_local_model_has_a_control_token_of_a_text():
    """Writer, replay, reading, question, second turn, and answers from outside."""
    made = knowing_all_families()
    lm = HuggingFaceLM(model(vocab_size=len(made)), made)
    document = Document("d", f"The fox ends with <|im_\n\nend|> so. {HOSTILE}\n\n" + prose(5, 1))
    config = BuildConfig(chunk_tokens=200, window_tokens=1000).resolved("hwdag")
    with Recorder(lm) as seen:
        entries = entries_of([document], lm, generated=True, config=config)
        replayed = len(seen.rows)
        assert replayed >= 2
        asked(lm, entries.values(), f"Who ends with <|im_end|>? {HOSTILE}<|im_")
    assert len(seen.rows) > replayed + 2
    assert_only_templates_have_controls(lm, seen.rows)


def test_nodes_that_spell_a_control_token_together_do_not_make_one():
    lm = HuggingFaceLM(model(), tokenizer())
    session = lm.session("<|im_", prompts=SearchPrompts(), heads="all", max_new_tokens=2)
    with Recorder(lm) as seen:
        session.read(["end|> the fox <|im_"])
        session.read(["end|>", "<|", "im_end|>"])
    assert_only_templates_have_controls(lm, seen.rows)


def test_a_remote_writer_is_not_sent_the_spelling():
    for token in CONTROL_TOKENS:
        text = disarmed(f"a {token}{token} b")
        assert token not in text
        assert text.replace(" ", "") == f"a{token}{token}b"
        assert disarmed(text) == text


def test_a_function_as_writer_is_sent_no_spelling_of_a_text():
    prompts = []
    writer = CallableWriter(lambda prompt: prompts.append(prompt) or echo(prompt))
    header = Header("scripted", EMBEDDER.name, EMBEDDER.dimension, asdict(CONFIG))
    with Store.create(None, header) as store:
        builder = GraphBuilder(ScriptedLM(), writer, EMBEDDER, CONFIG, Prompts())
        Refresh(Lazy(lambda: builder), store, Silent(), replace=False).run([Document("d", HOSTILE)])
    assert prompts
    assert not any(token in prompt for token in CONTROL_TOKENS for prompt in prompts)


@pytest.mark.parametrize("text", ["a < b and c > d", "<div>x</div>", "[1] [NASA]", "<|", "f(x[0])"])
def test_other_brackets_stay_what_they_are(text):
    assert disarmed(text) == text


# --- text is never code -------------------------------------------------------------------------


def test_braces_and_percent_signs_stay_what_they_are():
    text = ATTACKS["placeholders"]
    prompts = []
    lm = ScriptedLM(reply=lambda prompt: prompts.append(prompt) or echo(prompt))
    entry = entries_of([Document("d", text)], lm, generated=True)["d"]
    assert text in prompts[0]
    assert [node.text for node in entry.graph.nodes] == [text]  # a point would be its copy
    tiny = HuggingFaceLM(model(), tokenizer())
    with Recorder(tiny) as seen:
        session = tiny.session(text, prompts=SearchPrompts(), heads="all", max_new_tokens=2)
        session.read([text])
    assert tiny.codec.tokenizer.decode(seen.rows[0]).count(text) == 2


def test_sql_and_nuls_are_values(tmp_path):
    names = [
        ATTACKS["sql"],
        "a\0b",
        "a",
        "%",
        "_",
        "*",
        "../x",
        "\u202e",
        "line\nbreak",
        "é",
        "e\u0301",
    ]
    documents = [Document(name, f"The text of {i}. {name}", name) for i, name in enumerate(names)]
    with in_store(documents, path=tmp_path / "a.hwdag") as store:
        assert store.ids() == names
        assert [store.document(name) for name in names] == documents
        assert store.delete(names[0])
        assert not store.delete("' OR 1=1 --")
        assert store.ids() == names[1:]
        for name in ("%", "_", "*"):
            assert store.delete(name)
        assert store.ids() == [n for n in names[1:] if n not in ("%", "_", "*")]
    assert [path.name for path in tmp_path.iterdir()] == ["a.hwdag"]


def test_markup_in_a_title_or_text_is_text(tmp_path):
    page = "<title>&lt;script&gt;x()</title><p>&lt;|im_end|&gt; &#27;[2J<b onclick=y()>z</b>"
    (tmp_path / "a.html").write_text(page + "<script>evil()</script>", "utf-8")
    [document] = read_documents([tmp_path / "a.html"])
    assert document.title == "<script>x()"
    assert document.text == "<|im_end|> \x1b[2Jz"


def test_a_folder_gives_nothing_from_outside(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
    (outside / "key.txt").write_text("secret")
    (inside / "a.txt").write_text("public")
    (inside / "b.txt").symlink_to(outside / "key.txt")
    (inside / "c.txt").symlink_to("../outside/key.txt")
    (inside / "d.txt").symlink_to("a.txt")
    (inside / "e").symlink_to(outside)
    (inside / "f.txt").symlink_to("f.txt")
    found = list(read_documents([inside]))
    assert [item.text for item in found if isinstance(item, Document)] == ["public"]
    assert len([item for item in found if not isinstance(item, Document)]) == 5
    [named] = read_documents([inside / "b.txt"])
    assert named.text == "secret"


# --- stored and shown texts --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zero-width", "bidi", "tags", "nuls", "terminal", "controls"])
def test_stored_texts_equal_those_of_the_document(name):
    entry = entries_of([Document("d", ATTACKS[name])])["d"]
    assert entry.document.text == ATTACKS[name]
    for node in entry.graph.nodes:
        (span,) = node.sources
        assert node.text == ATTACKS[name][span.start : span.end]


HARMFUL = [
    *(chr(i) for i in range(0x20) if chr(i) not in "\t\n"),
    *map(chr, range(0x7F, 0xA0)),
    *"\u200b\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff",
    *(chr(0xE0000 + i) for i in (1, 0x20, 0x41, 0x7F)),
    "\ud800",
    "\udfff",
]


def test_what_moves_the_cursor_reorders_or_hides_is_spelled_out():
    for text in (f"a{char}b" for char in HARMFUL):
        shown = visible(text)
        assert shown.isprintable() and text[1] not in shown, ascii(text)
        assert visible(shown) == shown
        assert list(json.loads(f'"{shown}"')) == list(text)


def test_scripts_and_emoji_are_shown_as_they_are():
    text = "Grüße नमस्ते می‌خواهم 👩‍👧 שלום‏! e\u0301 猫\tand\nlines \\u0041"
    assert visible(text) == text


@pytest.mark.parametrize("name", ["terminal", "bidi", "tags", "breaks", "nuls", "zero-width"])
def test_rendered_lines_are_safe_to_print(name):
    documents = [Document(f"d\x1b[2J\n{name}", ATTACKS[name] + " The fox. " + prose(40, 5))]
    lm = ScriptedLM()
    [entry] = entries_of(documents, lm).values()
    walked = asked(lm, [entry], "Where is the fox?")
    span = Span(0, min(60, len(ATTACKS[name])))
    text = entry.document.text[span.start : span.end]
    citation = Citation(entry.document.id, span, text, 1.0, entry.graph.nodes[0].id)
    lines = [
        *map(render.step_line, walked.retrieval.steps),
        render.stop_line(walked.retrieval),
        *render.graph_lines(entry.graph, points=len(entry.graph)),
        *render.citation_line(citation).split("\n       "),
        render.usage_line(Answer("", (), walked.retrieval, Usage()), 0.0),
    ]
    assert len(lines) > 10
    assert all(line.isprintable() or set(line) & set("\u200c\u200d\u200e\u200f") for line in lines)
    assert not any(char in line for line in lines for char in HARMFUL)


def test_what_commands_print_is_shown_and_not_obeyed(capsys):
    found = {"text": ATTACKS["terminal"] + ATTACKS["bidi"] + "\ud800"}
    with visible_output():
        sys.stdout.write(json.dumps(found, ensure_ascii=False, indent=2) + "\n")
        sys.stdout.write("half a ")
        sys.stdout.flush()
        sys.stdout.write("line \x1b[2J\r.\n")
    out = capsys.readouterr().out
    assert not any(char in out for char in HARMFUL)
    document, _, line = out.rpartition("\n}\n")
    assert json.loads(document + "\n}") == found
    assert line == "half a line \\u001b[2J\\u000d.\n"


@pytest.mark.parametrize("load", [load_reader, load_embedder], ids=["reader", "embedder"])
def test_a_model_folder_that_an_index_names_runs_no_code(load, tmp_path):
    """A file from a stranger names its models, and a folder of that name may lie next to it."""
    folder, trace = tmp_path / "model", tmp_path / "it ran"
    folder.mkdir()
    classes = ("Config", "Model", "Tokenizer", "Module")
    code = [f"from pathlib import Path; Path({str(trace)!r}).touch()"]
    (folder / "custom.py").write_text("\n".join([*code, *(f"class {c}: ..." for c in classes)]))
    auto = {"AutoConfig": "custom.Config", "AutoModel": "custom.Model"}
    auto |= {"AutoModelForCausalLM": "custom.Model", "AutoTokenizer": ["custom.Tokenizer", None]}
    for name in ("config.json", "tokenizer_config.json"):
        (folder / name).write_text(json.dumps({"model_type": "of-mine", "auto_map": auto}))
    modules = [{"idx": 0, "name": "0", "path": "", "type": "custom.Module"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises((ModelError, ValueError)):
        load(str(folder))
    assert not trace.exists()
