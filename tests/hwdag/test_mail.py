"""Mails as a person sees them, whatever their encoding and structure."""

from email.encoders import encode_base64, encode_quopri
from email.message import EmailMessage, Message
from email.mime.base import MIMEBase
from email.mime.text import MIMEText

import pytest

from hwdag.filters import matches
from hwdag_files.read import Skipped, read_documents

BODY = "Kjære Bo,\n\nmøtet om kaien er torsdag klokken ni – 40 €.\n\n> Når er møtet?"
HEADERS = {
    "Subject": "Møte om kaien",
    "From": '"Lind, Ada" <ada@example.org>',
    "To": "Bo <bo@example.org>, 小林 <ko@example.org>",
    "Date": "Tue, 04 Jun 2024 10:00:00 +0200",
}
LINES = [
    "Subject: Møte om kaien",
    'From: "Lind, Ada" <ada@example.org>',
    "To: Bo <bo@example.org>, 小林 <ko@example.org>",
    "Date: Tue, 04 Jun 2024 10:00:00 +0200",
]
PAGE = "<html><head><style>p {}</style></head><body><p>The <b>fee</b> is 40 €.</p></body></html>"


def mail(**headers):
    message = EmailMessage()
    for name, value in {**HEADERS, **headers}.items():
        message[name.replace("_", "-")] = value
    return message


def read(tmp_path, data, name="a.eml"):
    (tmp_path / name).write_bytes(data)
    [found] = read_documents([tmp_path / name])
    return found


def body(document):
    return document.text.split("\n\n", 1)[1]


@pytest.mark.parametrize("transfer", ["base64", "quoted-printable", "8bit"])
@pytest.mark.parametrize("charset", ["utf-8", "cp1252", "iso-8859-15"])
def test_a_mail_is_its_headers_and_its_text(tmp_path, transfer, charset):
    message = mail()
    text = BODY.replace("–", "-") if charset == "iso-8859-15" else BODY
    message.set_content(text, cte=transfer, charset=charset)
    document = read(tmp_path, bytes(message).replace(b"\n", b"\r\n"))
    assert document.text.split("\n") == [*LINES, "", *text.split("\n")]
    assert document.title == "Møte om kaien" and document.metadata["notes"] == []


def test_headers_are_metadata(tmp_path):
    message = mail(Message_ID="<1@example.org>")
    message.set_content("x")
    metadata = read(tmp_path, bytes(message)).metadata
    assert metadata["to"] == ["bo@example.org", "ko@example.org"]
    assert metadata["message_id"] == "<1@example.org>"
    assert matches({"from": "ada@example.org", "date": {"gte": "2024-06"}}, metadata)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"=?iso-8859-1?Q?M=F8te?= =?utf-8?B?IG9tIGvDpg==?=", "Møte om kæ"),
        (b"=?utf-8?B?bcO4?=\n =?utf-8?B?dGU=?=", "møte"),
        ("Møte, rått".encode(), "Møte, rått"),
        ("Møte, gammelt".encode("cp1252"), "Møte, gammelt"),
        (b"=?no-such?Q?M=F8te?=", "=?no-such?Q?M=F8te?="),
        (b"a very\n long\n\tone", "a very long one"),
    ],
)
def test_headers_in_all_spellings(tmp_path, written, shown):
    document = read(tmp_path, b"From: a@example.org\nSubject: " + written + b"\n\nText.\n")
    assert document.title == shown and document.text.startswith(f"Subject: {shown}\n")


def test_of_alternatives_the_plain_text_is_read(tmp_path):
    message = mail()
    message.set_content("The fee is 50 €.")
    message.add_alternative(PAGE, subtype="html")
    assert body(read(tmp_path, bytes(message))) == "The fee is 50 €."


@pytest.mark.parametrize("plain", [None, " \n"])
def test_html_is_read_if_it_is_the_only_text(tmp_path, plain):
    message = mail()
    message.set_content(plain or PAGE, subtype="plain" if plain else "html")
    if plain:
        message.add_alternative(PAGE, subtype="html", charset="cp1252")
        message.get_payload()[1].add_related(b"GIF89a", "image", "gif", cid="<1>", filename="b.gif")
    document = read(tmp_path, bytes(message))
    assert document.text.endswith("\n\nThe fee is 40 €.")
    assert ("Attachments: b.gif" in document.text) == bool(plain)


def test_attachments_are_named_and_left_out(tmp_path):
    message = mail()
    message.set_content("See the plans.")
    message.add_attachment(b"\x89PNG" * 300, "image", "png", filename="kaien på kart.png")
    message.add_attachment("Secret text.", filename="notes.txt")
    message.add_attachment(b"%PDF", "application", "pdf")
    document = read(tmp_path, bytes(message))
    named = "kaien på kart.png, notes.txt, one without a name (application/pdf)"
    assert document.text.split("\n")[4:] == [f"Attachments: {named}", "", "See the plans."]
    assert document.metadata["notes"] == [f"attachments left out: {named}"]


def test_a_forwarded_mail_is_read_with_its_headers(tmp_path):
    inner = mail(Subject="Old")
    inner.set_content("The old fee was 30 €.")
    message = mail(Subject="Fwd")
    message.set_content("Look:")
    message.add_attachment(inner)
    parts = body(read(tmp_path, bytes(message))).split("\n\n")
    assert parts == ["Look:", "\n".join(["Subject: Old", *LINES[1:]]), "The old fee was 30 €."]


@pytest.mark.parametrize("transfer", ["base64", "quoted-printable"])
def test_a_forwarded_mail_may_be_encoded_like_a_file(tmp_path, transfer):
    inner = MIMEText("The old fee was 30 €.", _charset="utf-8")
    inner["Subject"] = "Old"
    part = MIMEBase("message", "rfc822")
    part.set_payload([Message()])
    packed = Message()
    packed.set_payload(bytes(inner))
    (encode_base64 if transfer == "base64" else encode_quopri)(packed)
    part.get_payload()[0].set_payload(packed.get_payload())
    part["Content-Transfer-Encoding"] = transfer
    message = mail(Subject="Fwd")
    message.make_mixed()
    message.attach(part)
    document = read(tmp_path, bytes(message))
    assert body(document) == "Subject: Old\n\nThe old fee was 30 €."


@pytest.mark.parametrize("code", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_a_mail_in_another_encoding_is_a_mail(tmp_path, code):
    message = mail()
    message.set_content(BODY)
    document = read(tmp_path, bytes(message).decode().encode(code))
    assert document.title == "Møte om kaien" and body(document) == BODY


def test_what_is_in_place_of_parts_is_read(tmp_path):
    head = "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n"
    document = read(tmp_path, f"{head}Prisen på båten er 30 €.\n".encode())
    assert body(document) == "Prisen på båten er 30 €."
    assert read(tmp_path, head.encode(), "b.eml").text == "Subject: x"


@pytest.mark.parametrize("code", ["utf-8", "cp1252"])
def test_names_of_attachments_in_raw_letters(tmp_path, code):
    head = "Subject: x\nContent-Type: text/plain; name=båt.txt\nContent-Disposition: attachment; filename=båt.txt\n\nx"
    assert "Attachments: båt.txt" in read(tmp_path, head.encode(code)).text


def test_soft_line_ends_of_a_flowed_text_are_no_blanks(tmp_path):
    head = b"Subject: x\nContent-Type: text/plain; charset=utf-8; format=flowed; delsp=yes\n\n"
    document = read(tmp_path, head + "橋は \n閉まった。\n-- \nAda".encode())
    assert body(document) == "橋は閉まった。\n-- \nAda"


@pytest.mark.parametrize("kind", ["multipart/encrypted", "application/pkcs7-mime"])
def test_an_encrypted_mail_is_skipped(tmp_path, kind):
    data = f"Subject: x\nContent-Type: {kind}; boundary=b\n\n--b\n\nhidden\n--b--\n"
    assert "is encrypted" in read(tmp_path, data.encode()).reason


def test_a_mailbox_is_its_mails_below_their_subjects(tmp_path):
    mails = []
    for number in range(3):
        message = mail(Subject=f"Fee {number}" if number else "")
        message.set_content(f"It is {number} €.\n\nFrom now on 12:00 is noon.\n")
        if number:
            message.add_attachment(b"x", "image", "png", filename=f"{number}.png")
        data = bytes(message).replace(b"\nFrom now", b"\n>From now")
        mails.append(b"From ada Tue Jun  4 10:00:00 2024\n" + data + b"\n")
    document = read(tmp_path, b"".join(mails), "all.mbox")
    assert [line for line in document.text.split("\n") if line.startswith("# ")] == [
        "# Mail 1",
        "# Fee 1",
        "# Fee 2",
    ]
    assert document.text.count("\n\nFrom now on 12:00 is noon.") == 3
    assert document.metadata["notes"] == ["attachments left out: 1.png, 2.png"]
    assert isinstance(read(tmp_path, b"no mailbox", "b.mbox"), Skipped)


def test_what_is_no_mail_is_read_as_text_with_a_note(tmp_path):
    document = read(tmp_path, b"Only a text.\n\nNo headers: none.")
    assert document.text == "Only a text.\n\nNo headers: none."
    assert document.metadata["notes"] == ["no headers of a mail: read as text"]


def test_broken_structures_are_read_or_refused(tmp_path):
    heads = (
        "Content-Type: multipart/mixed",
        "Content-Type: multipart/mixed; boundary=b",
        "Content-Type: text/plain; charset=hex",
        "Content-Type: text/plain; charset*=x",
        "Content-Transfer-Encoding: base64",
        "Content-Type: message/rfc822",
        "Content-Type: ;;;",
    )
    for number, head in enumerate(heads):
        text = f"Subject: x\n{head}\n\n--b\nContent-Type: text/html\n\n<p>Text"
        found = read(tmp_path, text.encode(), f"{number}.eml")
        assert found.reason if isinstance(found, Skipped) else found.title == "x"
