"""XML by its texts."""

import pytest

from hwdag.text.headings import headings
from hwdag.text.sentences import sentences
from hwdag_files.read import Skipped, read_documents

pytest.importorskip("lxml")


def read(tmp_path, text, encoding="utf-8"):
    (tmp_path / "a.xml").write_bytes(text.encode(encoding))
    [found] = read_documents([tmp_path / "a.xml"])
    return found


def lines(document):
    return [line for line in document.text.split("\n") if line]


ORDERS = """<?xml version='1.0' encoding='{}'?><o:orders xmlns:o='urn:x' xmlns:xsi='urn:s'
xsi:schemaLocation='urn:x x.xsd'><o:order id='7'><o:item>Möhre &amp; &#x41;</o:item>
<o:price currency='NOK'>70</o:price></o:order><o:order id='8'><o:item>Rübe</o:item><o:item>Kohl</o:item>
<!-- why --><o:price/></o:order></o:orders>"""


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "utf-16"])
def test_data_are_records_that_name_their_elements(tmp_path, encoding):
    assert lines(read(tmp_path, ORDERS.format(encoding), encoding)) == [
        "# order",
        "| id: 7, item: Möhre & A, price: 70, price.currency: NOK",
        "| id: 8, item: Rübe; Kohl",
    ]


def test_a_feed_is_its_entries(tmp_path):
    page = "<![CDATA[<p>The <b>mill</b> is open.</p><script>x()</script>]]>"
    items = f"<item><title>One</title><description>{page}</description></item><item><title>Two</title></item>"
    document = read(tmp_path, f"<rss><channel><title>News</title>{items}</channel></rss>")
    assert document.title == "News"
    assert lines(document) == [
        "| channel.title: News",
        "# channel.item",
        "| title: One, description: The mill is open.",
        "| title: Two",
    ]


BOOK = """<book xmlns='http://docbook.org/ns/docbook'><info><title>Harbours</title></info><chapter>
<title>Fees</title><para>A <emphasis>berth</emphasis> costs 70&#160;kroner.</para><section><title>Boats</title>
<para>Small ones pay half.</para><itemizedlist><listitem><para>rowing</para></listitem><listitem><para>sailing
</para></listitem></itemizedlist><table><title>Berths</title><tgroup><tbody><row><entry>Town</entry>
<entry>Berths</entry></row><row><entry>Hamar</entry><entry>18</entry></row></tbody></tgroup></table></section>
</chapter><chapter><title>Rules</title><para>No fires.</para></chapter></book>"""


def test_running_text_is_sections_and_paragraphs(tmp_path):
    document = read(tmp_path, BOOK)
    assert document.title == "Harbours"
    assert lines(document) == [
        "# Harbours",
        "# Fees",
        "A berth costs 70 kroner.",
        "## Boats",
        "Small ones pay half.",
        "- rowing",
        "- sailing",
        "Berths",
        "| Town, Berths",
        "| Hamar, Berths: 18",
        "# Rules",
        "No fires.",
    ]
    spans = sentences(document.text)
    above = dict(
        zip(
            (document.text[s.start : s.end] for s in spans),
            headings(document.text, spans),
            strict=True,
        )
    )
    assert above["- rowing"] == "Fees > Boats" and above["No fires."] == "Rules"


def test_a_page_is_read_as_one(tmp_path):
    page = "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>T</title></head><body><h1>A</h1></body></html>"
    assert (read(tmp_path, page).text, read(tmp_path, page).title) == ("# A", "T")


def test_entities_are_left_out_with_a_note(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    declared = f"<!ENTITY in 'inner'><!ENTITY out SYSTEM '{(tmp_path / 'secret.txt').as_uri()}'>"
    document = read(
        tmp_path, f"<!DOCTYPE a [{declared}]><a><b>one &in; two &out;</b><b>three</b></a>"
    )
    assert "secret" not in document.text and "inner" not in document.text
    assert document.metadata["notes"] == ["2 references to entities left out"]


def test_broken_xml_is_skipped(tmp_path):
    for text in ("<a><b></a>", "no markup", "<a>" * 5_000):
        found = read(tmp_path, text)
        assert isinstance(found, Skipped) and "not a readable .xml file" in found.reason
