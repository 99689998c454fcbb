"""Texts in old encodings are read as they were written, and a note names the guess."""

import sys

import pytest

from hwdag_files.content import UnreadableError
from hwdag_files.encodings import decoded
from hwdag_files.read import Skipped, read_documents

CZECH = "Nájemce zaplatí příští měsíc žlutý účet, dříve než přijde čas dluhů."
POLISH = "Najemca płaci czynsz do piątego dnia miesiąca, w kasie przy głównym wejściu."
RUSSIAN = "Договор аренды. Арендатор платит 900 рублей в месяц до пятого числа."
GREEK = "Το μίσθωμα είναι 900 € τον μήνα και πληρώνεται πριν από τις πέντε."
GERMAN = "Angebot von Müller & Söhne für die Orgel, größer als bisher."

LATIN = [
    ("cp1252", "Angebot von „Müller & Söhne“ für die Orgel – 240 €"),
    ("iso8859_1", "Le locataire paie le loyer à la fin de l'été, où ça gèle."),
    ("cp1252", "Fläche 12 m², Höhe 3 m; 20 °C ± 2"),
    ("cp1252", "café"),
    ("cp1252", "ÄÖÜ"),
    ("cp1252", "He said “hello” – and left…"),
    ("iso8859_15", "40 €"),
    ("cp1250", POLISH),
    ("iso8859_2", POLISH),
    ("cp1250", CZECH),
    ("iso8859_2", CZECH),
    ("cp1250", "Nő az ár, és a fű is zöld: ez az ő kertje, nem az enyém."),
    ("cp1254", "Kiracı her ayın beşine kadar kirayı öder, depozito değişmez."),
    ("cp1252", "Það er ekki í lagi, en þú mátt ýta á öðru megin."),
    ("cp1257", "Nuomininkas moka nuomą iki penktos mėnesio dienos, užstatas grąžinamas."),
    ("cp850", GERMAN),
    ("mac_roman", GERMAN),
]
OTHER_SCRIPTS = [
    ("gb18030", "合同第十二条规定，承租人应当在每月五日前支付租金。违约金为月租的百分之十。"),
    ("big5", "合約第十二條規定，承租人應當在每月五日前支付租金。"),
    ("shift_jis", "契約書。借主は毎月五日までに家賃を支払う。敷金は三か月分とする。"),
    ("euc_jp", "船は七時に出る。"),
    ("euc_jp", "カギは七本です"),
    ("cp932", "船は七時に出る。"),
    ("euc_kr", "임차인은 매월 오일까지 임대료를 지급한다. 보증금은 석 달 치이다."),
    ("cp1251", RUSSIAN),
    ("koi8_r", RUSSIAN),
    ("cp866", RUSSIAN),
    ("iso8859_5", RUSSIAN * 9),
    ("cp1253", GREEK),
    ("iso8859_7", GREEK.replace("€", "$")),
    ("cp1255", "השוכר ישלם את שכר הדירה עד החמישי בכל חודש."),
    ("cp1256", "يدفع المستأجر الإيجار قبل اليوم الخامس من كل شهر."),
    ("cp874", "ผู้เช่าจะชำระค่าเช่าภายในวันที่ห้าของทุกเดือน"),
]


def check(encoding, text):
    assert decoded(text.encode(encoding))[0] == text
    numbers = "".join(f"{i}, 12.50, {i * i}\n" for i in range(2_000))
    long, notes = decoded((numbers + text + "\n").encode(encoding) * 3)
    assert long == (numbers + text + "\n") * 3
    assert len(notes) == 1 and notes[0].startswith("not UTF-8: read as ")
    assert notes[0].endswith(" (guessed)")


@pytest.mark.parametrize(("encoding", "text"), LATIN)
def test_latin_letters_by_the_alphabet_of_a_language(encoding, text, monkeypatch):
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    check(encoding, text)


@pytest.mark.parametrize(("encoding", "text"), OTHER_SCRIPTS)
def test_other_scripts(encoding, text):
    pytest.importorskip("charset_normalizer")
    check(encoding, text)


def test_the_guess_is_named():
    assert decoded(GERMAN.encode("cp1252"))[1] == ("not UTF-8: read as Windows-1252 (guessed)",)
    assert decoded(POLISH.encode("cp1250"))[1] == ("not UTF-8: read as Windows-1250 (guessed)",)


@pytest.mark.parametrize("text", ["Hello, world.\nBye.", GERMAN, RUSSIAN, "合同第十二条\n规定 12"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_encodings_without_a_mark(text, encoding):
    found, notes = decoded(text.encode(encoding))
    assert found == text
    assert notes == (f"no byte order mark: read as {encoding.upper()} (guessed)",)
    assert decoded(text.encode(encoding), encoding) == (text, ())


@pytest.mark.parametrize("encoding", ["cp1252", "gb18030", "cp932", "cp949", "cp1254", "cp874"])
def test_declared_encodings_are_read_as_browsers_do(encoding):
    declared, text = {
        "cp1252": ("iso-8859-1", "“40 €”"),
        "gb18030": ("gb2312", "合同𠀀"),
        "cp932": ("shift_jis", "①契約"),
        "cp949": ("euc-kr", "똠방각하"),
        "cp1254": ("iso-8859-9", "“ğ”"),
        "cp874": ("tis-620", "“ก”"),
    }[encoding]
    assert decoded(text.encode(encoding), declared) == (text, ())


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("iso2022_jp", "契約書。家賃は五日まで。"), ("iso2022_kr", "임차인은 오일까지 지급한다.")],
)
def test_encodings_of_escape_sequences(encoding, text):
    found, notes = decoded(text.encode(encoding))
    assert found == text and notes[0].startswith("escape sequences: read as ISO2022-")


def test_damaged_utf_8_stays_utf_8():
    data = GREEK.encode().replace("μή".encode(), b"\xff\xfe")
    text, notes = decoded(data)
    assert text == GREEK.replace("μή", "\ufffd\ufffd")
    assert notes == ("2 undecodable bytes replaced",)


def test_nul_bytes_of_a_damaged_log_are_left_out():
    data = "".join(f"12:{i:02} pump started\n" for i in range(60)).encode()
    text, notes = decoded(data + bytes(300) + data)
    assert text == (data + data).decode()
    assert notes == ("300 NUL bytes left out",)
    for binary in (b"\1\2\3" * 9 + b"\0\0", b"text" + bytes(40)):
        with pytest.raises(UnreadableError, match="NUL bytes"):
            decoded(binary)


def test_a_file_that_is_mostly_unreadable_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    (tmp_path / "a.txt").write_bytes(RUSSIAN.encode("koi8_r"))
    [found] = read_documents([tmp_path / "a.txt"])
    assert isinstance(found, Skipped) and "characters cannot be read" in found.reason
