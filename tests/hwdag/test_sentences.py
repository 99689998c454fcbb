import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import assert_partition

from hwdag.text.languages import NAMES, detect_language, language_of, may_be_english
from hwdag.text.sentences import is_mail_header, sentences

ALPHABET = "aB. \n\r\t#-|*1)(!?。，؟\"'“”\u3000\u200b\ud800😀\u0301\x0c\u2028"
TEXTS = st.text() | st.text(ALPHABET) | st.text(ALPHABET, max_size=30).map(lambda text: text * 50)


def cut(text):
    return [text[span.start : span.end] for span in sentences(text)]


@given(TEXTS)
def test_spans_are_a_trimmed_partition_of_what_is_not_blank(text):
    assert_partition(text, sentences(text))


@pytest.mark.parametrize("text", ["", " ", "\n\n \t\r\n", "\u3000\u2028"])
def test_blank_text_has_no_sentences(text):
    assert sentences(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Smith paid $3.50. He left.", ["Dr. Smith paid $3.50.", "He left."]),
        ("他走了。她来了！为什么？", ["他走了。", "她来了！", "为什么？"]),
        ("وصل أحمد. هل رآها؟ نعم", ["وصل أحمد.", "هل رآها؟", "نعم"]),
        ("😀 hi there. 🎉 e\u0301te\u0301!", ["😀 hi there.", "🎉 e\u0301te\u0301!"]),
        ("राम आया। सीता गई।", ["राम आया।", "सीता गई।"]),
    ],
)
def test_sentences_of_many_scripts(text, expected):
    assert cut(text) == expected


LANGUAGES = {
    "cs": [
        "Narodila se 1. května 1900 v Hamaru a byla dcerou obchodníka.",
        "Továrna stála např. u kostela.",
        "Dr. Novák přijel 3. června do města.",
        "Viz str. 12 knihy.",
    ],
    "da": [
        "Hun blev født den 1. maj 1900 i Hamar.",
        "Værket lå bl.a. ved kirken.",
        "Dr. Hansen kom d. 3. juni til byen, og der var ca. 200 ansatte.",
        "Det lukkede i 1975.",
    ],
    "de": [
        "Sie wurde am 1. Mai 1900 in Hamar geboren.",
        "Das Werk gehörte z. B. Dr. Müller und Prof. Kraus.",
        "Es hatte ca. 541 Arbeiter u. a. aus Köln.",
        "König Ludwig II. kam am 24. Dezember.",
        "Siehe Abb. 3 und Nr. 7 in der Hauptstr. 5 von Bonn.",
        "Das 19. Jahrhundert endete.",
        "Im Jahr 1975 schloss es.",
    ],
    "en": [
        "Dr. Smith and Mr. Jones came to St. Louis on Jan. 5 with the U.S. Army.",
        "See Fig. 3 and p. 12 of the book.",
        "She had 12.",
        "Then the train left at 5 p.m. on Friday.",
    ],
    "es": [
        "El Sr. García y la Dra. López nacieron en EE. UU. en 1900.",
        "Véase la pág. 12 del libro.",
        "La fábrica núm. 3 cerró.",
    ],
    "fi": [
        "Hän syntyi 1. toukokuuta 1900 ja kuoli 24. joulukuuta.",
        "Tehdas sijaitsi mm. kirkon luona.",
        "Katso s. 12 kirjasta.",
    ],
    "fr": [
        "M. Dupont et Mme. Durand sont nés av. J.-C. en France.",
        "Le Dr. Martin habite p. ex. à Lyon.",
        "Voir p. 12 et fig. 3 du livre.",
        "Elle est partie.",
    ],
    "hu": [
        "Az üzem 1900. május 1-jén nyílt meg.",
        "Dr. Nagy pl. Pécsre utazott, és kb. 200 embert vitt.",
        "Lásd a 12. oldalt.",
    ],
    "it": [
        "Il dott. Rossi e la sig. Bianchi nacquero a Roma.",
        "Vedi pag. 12 del libro.",
        "Fu costruito dall'ing. Neri.",
    ],
    "nb": [
        "Hun ble født den 1. mai 1900 i Hamar.",
        "Verket lå bl.a. ved kirken.",
        "Dr. Hansen kom den 3. juni til byen, og det var ca. 200 ansatte.",
    ],
    "nl": [
        "Dhr. Jansen en mevr. De Vries kwamen o.a. uit Delft.",
        "Zie blz. 12 van het boek.",
        "Prof. Kuipers werkte bijv. in Leiden.",
    ],
    "pl": [
        "Urodziła się 1. maja 1900 r. w Hamar i była córką kupca.",
        "Mieszkała przy ul. Długiej z dr. Nowakiem.",
        "Zob. s. 12 książki.",
    ],
    "pt": [
        "O Sr. Silva e a Dra. Costa nasceram em 1900.",
        "Ver pág. 12 do livro.",
        "O Prof. Pereira chegou a Lisboa.",
    ],
    "ru": [
        "Она родилась 1 мая 1900 г. в Хамаре.",
        "Завод стоял на ул. Ленина у церкви.",
        "См. стр. 12 книги.",
    ],
    "sv": [
        "Hon föddes den 1 maj 1900 i Lund och dog den 24 december.",
        "Verket låg bl.a. vid kyrkan.",
        "Dr. Hansson kom t.ex. från Kalmar.",
    ],
}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("谁建造了这座桥？", "zh"),
        ("橋を建てたのは誰ですか？", "ja"),
        ("다리는 누가 지었습니까?", "ko"),
        ("من بنى الجسر؟", "ar"),
        ("چه کسی پل را ساخت؟", None),  # Persian, in letters of Arabic
        ("מי בנה את הגשר?", "he"),
        ("ใครสร้างสะพาน", "th"),
        ("Siapa yang membangun jembatan itu?", None),
        ("Name; Preis\nBrot 3", None),
        ("", None),
    ],
)
def test_a_language_is_detected_by_letters_and_words_or_not_at_all(text, language):
    assert detect_language(text) == language
    assert may_be_english(text) == text.isascii()


@pytest.mark.parametrize("language", LANGUAGES)
def test_abbreviations_dates_and_ordinals_end_no_sentence(language):
    text = " ".join(LANGUAGES[language])
    assert cut(text) == LANGUAGES[language]
    assert language_of(text) == language
    assert detect_language(text) == language and language in NAMES


@pytest.mark.parametrize("sentence", [one for several in LANGUAGES.values() for one in several])
def test_a_sentence_alone_is_cut_as_within_its_text(sentence):
    assert cut(sentence) == [sentence]


def test_text_without_capitals_has_sentences():
    assert cut("he came. then he left. it was late.") == [
        "he came.",
        "then he left.",
        "it was late.",
    ]
    assert cut("He used PCA. t-SNE came later.") == ["He used PCA.", "t-SNE came later."]


def test_hard_wrapped_prose_is_not_cut_at_line_breaks():
    text = "It was the best of times,\nit was the worst\r\nof times. It was\n1775. The end"
    assert cut(text)[0] == "It was the best of times,\nit was the worst\r\nof times."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## Heading\nNew para. Next.", ["## Heading", "New para.", "Next."]),
        ("no full stop\n# Heading #\nmore", ["no full stop", "# Heading #", "more"]),
        ("Title\n=====\nText", ["Title\n=====", "Text"]),
        ("first\n\nsecond\n \t\nthird", ["first", "second", "third"]),
        ("first\r\n\r\nsecond", ["first", "second"]),
        ("- one\n- two\n  wrapped\nprose", ["- one", "- two\n  wrapped", "prose"]),
        ("1. one. And\n2. two", ["1. one.", "And", "2. two"]),
        ("| a | b |\n|---|---|\n| c | d |\ntext", ["| a | b |\n|---|---|", "| c | d |", "text"]),
        ("before\n\n* * *\nafter", ["before", "* * *", "after"]),
        ("he lived in house\n12) and so on", ["he lived in house\n12) and so on"]),
        ("#hashtag is\nprose", ["#hashtag is\nprose"]),
    ],
)
def test_line_structure_ends_sentences(text, expected):
    assert cut(text) == expected


@pytest.mark.parametrize(
    "expected",
    [
        ["Approved.", "4. Costs of the roof: none."],
        ["It was agreed.", "7) The next one is here.", "And there is more."],
        ["It ended on page\n12.", "Then we left."],
    ],
)
def test_the_number_of_an_item_stays_with_its_text(expected):
    text = "\n".join(expected)
    assert [text[s.start : s.end] for s in sentences(text)] == expected


def test_what_has_no_letter_stays_with_a_neighbour():
    assert cut("1. Foo went. (He left.) [3] So did I. ...")[0] == "1. Foo went."
    assert cut("3. 4. 5.") == ["3. 4. 5."]


@pytest.mark.parametrize(
    "text",
    ["a" * 1_000_000, "word " * 200_000, "1. " * 100_000, "\n" * 60_000 + "a.", "# a\n" * 50_000],
)
def test_long_texts(text):
    assert_partition(text, sentences(text))


@pytest.mark.parametrize(
    "expected",
    [
        ["**Ms. Ito:** We began in 1990.", "It was hard."],
        ["Ms. Ito: When was that?", "Mr. Vale: In 1990."],
        ["The rate fell.[1]", "It rose later.[2][^3]", "Then it stayed.^4", "And so on."],
        ["The rate fell.¹", "It rose later.²", "Then it stayed."],
        ["See [the rules](../docs/rules.md) first.", "Then run ./setup.sh in ..\\tools."],
    ],
)
def test_names_of_speakers_marks_of_footnotes_and_paths_cut_no_sentence(expected):
    text = " ".join(expected)
    assert [text[s.start : s.end] for s in sentences(text)] == expected


def test_lines_above_a_mail_are_known_in_linear_time():
    assert is_mail_header("From: Ada\nTo: all members\nDate: 6 March 2025")
    assert not is_mail_header("Date: 6 March 2025\nfoo")
    assert not is_mail_header("to: a " * 2000 + "\nfoo")
