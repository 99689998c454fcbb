"""Documents with tables, made by rule, and questions about their cells: a set for `prepare`.

    python -m examples.train_adapter.tables -o $HWDAG_DATA/train/tables.jsonl

Other sets are about prose. A small reader that has learned from these alone takes its answer from any row
that is alike. Here a question names a row and a column, and most rows look like the right one.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from examples.train_adapter.lines import Json
from hwdag.text.tables import table_lines

Draw = Callable[[random.Random], str]


class Column(NamedTuple):
    """Names that it may have, its values, and questions about it; `{}` is the row."""

    names: str
    draw: Draw
    questions: tuple[str, ...]


class Table(NamedTuple):
    """A kind of rows, and the columns that a table of it may have."""

    titles: str
    row_names: str
    rows: Draw
    columns: tuple[Column, ...]


def one_of(words: str) -> Draw:
    """Return one of some words that bars part."""
    some = words.split("|")
    return lambda chance: chance.choice(some)


def number(low: int, high: int, form: str = "{}", digits: int = 0) -> Draw:
    """Return a number between two bounds."""
    unit = 10**digits

    def draw(chance: random.Random) -> str:
        value = chance.randint(low * unit, high * unit)
        return form.format(f"{value / unit:.{digits}f}" if digits else f"{value:,}")

    return draw


def plain_number(low: int, high: int, width: int = 0) -> Draw:
    """Return a whole number between two bounds, without commas, with zeros in front of it up to a width."""
    return lambda chance: f"{chance.randint(low, high):0{width}}"


def joined(*parts: Draw, by: str = " ") -> Draw:
    """Ask for several values at once."""
    return lambda chance: by.join(part(chance) for part in parts)


def any_of(*parts: Draw) -> Draw:
    """Return one of several kinds of values."""
    return lambda chance: chance.choice(parts)(chance)


FIRST = one_of(
    "Ada|Agnes|Ahmed|Aino|Bao|Beatrix|Carlos|Chiara|Dagmar|Dmitri|Edith|Elif|Emeka|Esther|Farid|Fiona|Gero|"
    "Hana|Henrik|Ilse|Ivo|Jamal|Joana|Kenji|Kirsten|Lars|Leila|Mateo|Mira|Nikolai|Noor|Olga|Pablo|Priya|"
    "Quentin|Rosa|Samir|Sigrid|Tariq|Tilda|Uma|Victor|Wanda|Xenia|Yara|Zoltan"
)
LAST = one_of(
    "Abara|Almeida|Baker|Bergstrom|Castro|Chen|Danso|Eriksen|Falk|Fontaine|Gallo|Haddad|Horvat|Ito|Jansen|"
    "Kaplan|Keller|Lange|Lopez|Madsen|Moreau|Mueller|Nagy|Nwosu|Oliveira|Orlov|Park|Quinn|Rahman|Rossi|Sato|"
    "Schmidt|Silva|Tanaka|Thorne|Urban|Vargas|Weber|Wood|Yilmaz|Zeman"
)
PERSON = any_of(joined(FIRST, LAST), joined(one_of("Mr|Mrs|Ms|Dr."), LAST), joined(FIRST, LAST))
TOWN = one_of(
    "Aberlin|Arden|Bellport|Brixham|Cadenza|Carrow|Deepwell|Dunmore|Eastfield|Elmstead|Farrowdale|Gilden|"
    "Halford|Harrowgate|Inverby|Jarrow|Kelso|Kingsbay|Larkhill|Lowmoor|Maryport|Norwell|Oakham|Overton|"
    "Penrith|Quarley|Ravenna|Redhill|Selby|Stonebridge|Thornby|Upwell|Vernon|Westbrook|Yarm"
)
MONTH = one_of(
    "January|February|March|April|May|June|July|August|September|October|November|December"
)
PLAIN_YEAR = plain_number(1890, 2030)
DAY = number(1, 28)
DATE = any_of(
    joined(DAY, MONTH),
    joined(DAY, MONTH, PLAIN_YEAR),
    joined(PLAIN_YEAR, plain_number(1, 12, 2), plain_number(1, 28, 2), by="-"),
)
WEEKDAY = one_of("Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday")
TIME = joined(plain_number(5, 23, 2), one_of("00|05|10|15|20|30|35|40|45|50|55"), by=":")
MONEY = any_of(
    number(2, 900, "€{}"), number(1, 80, "${}", 2), number(3, 400, "£{}", 2), number(1, 900, "{} euros"), number(1, 600, "{}", 2)
)  # fmt: skip
CODE = joined(one_of("A|B|C|D|E|F|G|H|K|L|M|P|R|S|T|R-|S-|T-"), plain_number(1, 99, 2), by="")
COLOUR = one_of("black|blue|brown|cream|green|grey|orange|pink|red|silver|white|yellow")
MAKER = one_of(
    "Alvera|Bastion|Cormo|Delphi|Ertan|Fellow|Grado|Hoxton|Ionic|Juno|Kasei|Lumo|Marlin|Nordia|Orbis|Pico|Rondo|"
    "Solis|Tempo|Umbra|Vela|Wega|Zenta"
)
PRODUCT = joined(
    MAKER, any_of(number(2, 95), CODE, one_of("Air|Classic|Home|Max|Mini|Plus|Pro|S|X"))
)
THING = joined(
    COLOUR,
    one_of("armchair|bicycle|blanket|bowl|cabinet|carpet|clock|coat|desk|drum|guitar|jacket|kettle|lamp|mirror|radio|rucksack|scarf|shelf|sofa|stool|teapot|tent|vase"),
)  # fmt: skip
WORK = one_of(
    "A Winter Abroad|Ashes and Tin|Broken Compass|City of Gulls|Dust Road|Eleven Doors|Far Meadow|Glass Harbour|"
    "House of Salt|Iron Lullaby|Junction|Kingfisher|Last Ferry|Midnight Orchard|Night Train North|Open Water|"
    "Paper Moons|Quiet Engines|River Letters|Small Hours|The Bell Tower|The Cartographer|The Long Field|"
    "Under the Viaduct|Violet Hour|White Stairs|Yesterday's Bread"
)
PART = one_of(
    "air hose|battery|belt|bulb|chain|clutch plate|cog|drain plug|fan blade|filter|float|fuse|gasket|handle|"
    "hinge|nozzle|pedal|piston|pump|relay|rotor|seal|spindle|spring|switch|thermostat|valve|wheel bearing"
)
WHY = one_of(
    "no power|low pressure|sensor broken|door open|water missing|overheated|filter blocked|motor stuck|"
    "cable loose|wrong voltage|tank empty|lid not closed|drum too full|signal lost"
)

COST = Column("Price|Cost|Fee|Total", MONEY, ("How much does {} cost?", "What is the price of {}?", "What does {} cost?", "How much is {}?"))  # fmt: skip
WHO = Column("Contact|In charge|Responsible|Person", PERSON, ("Who is responsible for {}?", "Who is in charge of {}?", "Whom do I ask about {}?"))  # fmt: skip
WHERE = Column("Place|Location|Town", TOWN, ("Where is {}?", "In which town is {}?", "Where does {} take place?"))  # fmt: skip
WHEN = Column("Date|Day", DATE, ("When is {}?", "On which day is {}?", "What is the date of {}?"))  # fmt: skip

TABLES = (
    Table("Staff|Who does what|Team", "Name|Person", PERSON, (
        Column("Role|Job|Position", one_of("accountant|archivist|baker|caretaker|cook|designer|driver|editor|electrician|engineer|gardener|librarian|nurse|painter|secretary|teacher|welder"), ("What is the job of {}?", "What does {} do?", "Which role does {} have?")),
        Column("Room|Office", CODE, ("In which room is {}?", "Which office does {} have?", "Where does {} sit?")),
        Column("Since|Started|Hired", PLAIN_YEAR, ("Since when has {} worked here?", "When did {} start?")),
        Column("Hours", number(8, 40, "{} hours"), ("How many hours does {} work?",)),
        Column("Town|Home", TOWN, ("Where does {} live?", "In which town does {} live?")))),
    Table("Fixtures|Matches|Season", "Match|Game", joined(TOWN, one_of("v|-"), TOWN), (
        WHEN._replace(questions=("When was {} played?", "On which date was {}?")),
        Column("Result|Score", joined(number(0, 6), number(0, 6), by=":"), ("What was the result of {}?", "How did {} end?")),
        Column("Referee", PERSON, ("Who was the referee of {}?", "Who refereed {}?")),
        Column("Spectators|Attendance", number(90, 45000), ("How many people watched {}?", "How many spectators did {} have?")))),
    Table("Timetable|Departures|Ferries and buses", "Line|Connection|To", any_of(joined(one_of("bus|ferry|tram"), number(1, 99)), joined(TOWN, one_of("to|via"), TOWN)), (
        Column("Departs|Departure|Leaves", TIME, ("When does {} depart?", "When does {} leave?", "What time does {} go?")),
        Column("Arrives|Arrival", TIME, ("When does {} arrive?", "What is the arrival time of {}?")),
        Column("Platform|Stop|Pier", any_of(number(1, 20), CODE), ("From which platform does {} go?", "Where does {} leave from?")),
        Column("Fare|Ticket", MONEY, ("How much is a ticket for {}?", "What is the fare of {}?")),
        Column("Days|Runs", one_of("daily|Mon-Fri|Sat and Sun|not on Sundays|Mondays only|in summer"), ("On which days does {} run?",)))),
    Table("Stock|Catalogue|Price list|Shop", "Item|Article|Product", any_of(THING, PRODUCT, PART), (
        COST,
        Column("In stock|Left|Quantity", number(0, 400), ("How many {} are left?", "How many of {} are in stock?")),
        Column("Supplier|Maker|From", any_of(MAKER, joined(LAST, one_of("& Sons|Ltd|GmbH|Supplies"))), ("Who supplies {}?", "From whom is {}?", "Who makes {}?")),
        Column("Weight|kg", number(1, 90, "{} kg", 1), ("How much does {} weigh?", "What is the weight of {}?")),
        Column("Size|Pack", any_of(number(5, 200, "{} cm"), one_of("S|M|L|XL"), number(2, 50, "{} pieces")), ("What size is {}?", "How large is {}?")),
        Column("Ordered|Delivered|Bought", DATE, ("When was {} ordered?", "When was {} delivered?", "When was {} bought?")))),
    Table("Technical data|Models|Specifications", "Model|Type", PRODUCT, (
        Column("Power|Output", number(1, 90, "{} kW", 1), ("What is the power of the {}?", "How many kW does the {} have?")),
        Column("Weight", number(1, 300, "{} kg"), ("How heavy is the {}?", "How much does the {} weigh?")),
        Column("Voltage", one_of("12 V|24 V|110 V|230 V|400 V"), ("What voltage does the {} need?",)),
        Column("Noise", number(20, 90, "{} dB"), ("How loud is the {}?",)),
        Column("Warranty|Guarantee", number(1, 12, "{} years"), ("How long is the warranty of the {}?",)),
        Column("Range|Reach", number(2, 800, "{} km"), ("What is the range of the {}?", "How far does the {} go?")))),
    Table("Error codes|Messages|Faults", "Code|Message", CODE, (
        Column("Meaning|Cause", WHY, ("What does {} mean?", "What does error {} say?", "What is the cause of {}?")),
        Column("Remedy|What to do", joined(one_of("check|clean|replace|tighten|reset"), one_of("the"), PART), ("What should I do at {}?", "What is done about {}?")))),
    Table("Maintenance|Repairs|Workshop", "Job|Work|Repair", joined(one_of("adjust|change|clean|oil|replace|test"), PART), (
        Column("Done|Date|Last", DATE, ("When was the last time to {}?", "When was it done to {}?")),
        Column("Every|Interval", any_of(number(2, 60, "{} months"), number(2, 90, "{},000 km"), one_of("yearly|monthly|every two years|weekly")), ("How often must one {}?", "What is the interval to {}?")),
        Column("By|Workshop|Mechanic", any_of(PERSON, joined(LAST, one_of("Garage|Motors|Brothers"))), ("Who had to {}?", "Which workshop was to {}?")),
        COST._replace(questions=("What did it cost to {}?", "How much was paid to {}?")))),
    Table("Visitors|Figures|Statistics|Sales", "Month|Period", joined(MONTH, PLAIN_YEAR), (
        Column("Visitors|Guests", number(100, 9000), ("How many visitors came in {}?", "How many guests were there in {}?")),
        Column("Rain mm|Rain", number(0, 240), ("How much rain fell in {}?",)),
        Column("Income|Revenue", MONEY, ("What was the income in {}?", "How much was earned in {}?")),
        Column("Sold|Orders", number(10, 5000), ("How many were sold in {}?", "How many orders came in {}?")),
        Column("Mean temperature|Temperature", number(-9, 31, "{}", 1), ("How warm was it in {}?", "What was the temperature in {}?")))),
    Table("Courses|Workshops|Clubs|Classes", "Course|Class|Club", joined(one_of("beginners'|advanced|evening|weekend|children's"), one_of("pottery|chess|Italian|yoga|drawing|sewing|swimming|choir|dance|photography|judo|coding")), (
        Column("Teacher|Led by|With", PERSON, ("Who teaches {}?", "Who leads the {}?")),
        Column("Day", WEEKDAY, ("On which day is {}?", "When in the week is the {}?")),
        Column("Time|Begins", TIME, ("At what time does {} begin?", "When does the {} start?")),
        Column("Room|Hall", any_of(CODE, number(1, 40, "room {}")), ("In which room is {}?", "Where is the {}?")),
        Column("Places|Max", number(4, 40), ("How many people can take part in {}?", "How many places does {} have?")),
        COST)),
    Table("Loans|Books|Library|Films", "Title|Work", WORK, (
        Column("Author|By|Director", PERSON, ("Who wrote {}?", "By whom is {}?", "Who made {}?")),
        Column("Year|Published|Released", PLAIN_YEAR, ("When was {} published?", "From which year is {}?")),
        Column("Pages|Minutes", number(60, 900), ("How long is {}?",)),
        Column("Borrowed by|Reader", PERSON, ("Who has borrowed {}?", "Who has {}?")),
        Column("Back by|Due", DATE, ("When is {} due?", "By when must {} be back?")))),
    Table("Trip|Stages|Hotels|Rooms", "Place|Stop", TOWN, (
        Column("Hotel|Stay", joined(one_of("Hotel|Guesthouse|Pension|Hostel"), any_of(LAST, MAKER)), ("Where do we stay in {}?", "Which hotel do we have in {}?")),
        Column("Nights", number(1, 9), ("How many nights do we stay in {}?",)),
        Column("Arrival|Arrive", DATE, ("When do we arrive in {}?",)),
        Column("Cancel by|Free until", DATE, ("Until when can {} be cancelled?",)),
        Column("Seats|Coach", joined(one_of("coach"), number(1, 30), one_of("seat|seats"), number(1, 90)), ("Which seats do we have to {}?",)),
        COST._replace(questions=("What does the night in {} cost?", "How much is the stay in {}?")))),
    Table("Budget|Expenses|Invoices|Spending", "What|For|Purpose", any_of(THING, joined(one_of("repair of the|new|rent of the"), PART)), (
        Column("Amount|Sum|Paid", MONEY, ("How much was paid for the {}?", "What did the {} cost?", "How much did the {} cost?")),
        Column("Paid by|Payer|Who", any_of(FIRST, PERSON), ("Who paid for the {}?",)),
        Column("Shop|Paid to|Seller", any_of(joined(LAST, one_of("Store|Market|Tools|Trade")), MAKER), ("Where was the {} bought?", "To whom was the {} paid?", "From whom is the {}?")),
        Column("On|Date", DATE, ("When was the {} paid?", "When was the {} bought?")))),
    Table("Projects|Tasks|Open points", "Task|Topic|Item", joined(one_of("new|old|second|revised"), one_of("website|roof|logo|survey|contract|archive|newsletter|fence|database|exhibition|playground|server")), (
        WHO,
        Column("Due|Deadline|Until", DATE, ("When is the {} due?", "What is the deadline of the {}?")),
        Column("State|Status", one_of("done|half done|not begun|waiting for an offer|cancelled|in review|ordered"), ("What is the state of the {}?", "How far is the {}?")),
        COST)),
    Table("Members|Patients|Animals|Horses", "Name", FIRST, (
        Column("Born|Year of birth", PLAIN_YEAR, ("When was {} born?", "In which year was {} born?")),
        Column("Kind|Breed|Group", one_of("Arab|Frisian|Haflinger|donkey|goat|sheep|terrier|spaniel|seniors|juniors|guests"), ("What kind is {}?", "To which group does {} belong?")),
        Column("Owner|Parent", PERSON, ("Who owns {}?", "Whose is {}?")),
        Column("Food|Diet", one_of("hay only|no oats|no nuts|vegan|no gluten|twice daily|soft food|no milk"), ("What may {} eat?", "What does {} get to eat?")),
        Column("Last seen|Last visit|Vaccinated", DATE, ("When was the last visit of {}?", "When was {} vaccinated?")))),
    Table("Buildings|Sites|Bridges|Halls", "Name|Site", joined(any_of(TOWN, LAST), one_of("Bridge|Hall|House|Mill|Tower|Works|School|Station")), (
        Column("Built|Opened", PLAIN_YEAR, ("When was {} built?", "When was {} opened?")),
        Column("Height|Length", number(4, 400, "{} m"), ("How high is {}?", "How long is {}?")),
        Column("Architect|Builder", PERSON, ("Who built {}?", "Who was the architect of {}?")),
        WHERE, WHO._replace(questions=("Who looks after {}?", "Who is responsible for {}?")))),
)  # fmt: skip

PROSE = (
    "Please tell the office of any mistake.",
    "All figures are without tax.",
    "The list is brought up to date every spring.",
    "What is not listed here has to be asked for.",
    "Changes are marked in the copy on the wall.",
    "The first version of this page was written by {person}.",
    "Questions go to {person}, who keeps the originals in {town}.",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--questions", type=int, default=3, help="of each document")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    made = documents(options.documents, options.questions, random.Random(options.seed))
    with options.output.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(one, ensure_ascii=False) + "\n" for one in made)


def documents(count: int, questions: int, chance: random.Random) -> Iterator[Json]:
    """Make documents with one to three tables and a number of questions about the cells of each."""
    for i in range(count):
        lines = [f"# {TOWN(chance)}: {chance.choice(TABLES).titles.split('|')[0].lower()}"]
        paragraphs, asked = list[Json](), list[Json]()
        for table in chance.sample(TABLES, chance.randint(1, 3)):
            title = chance.choice(table.titles.split("|"))
            lines += ["", f"## {title}", *_prose(chance), ""]
            made = list(_rows(table, chance))
            shown, texts = _shown(table, made, chance)
            lines += shown
            for values, text in zip(made, texts, strict=True):
                key = f"p{len(paragraphs)}"
                paragraphs.append({"id": key, "title": title, "text": text})
                asked += [
                    {"question": question, "answers": [answer], "evidence": [key]}
                    for question, answer in _asked(values, chance)
                ]
        chosen = chance.sample(asked, min(questions, len(asked)))
        yield {
            "id": f"tables:{i}",
            "dataset": "tables",
            "title": "",
            "text": "\n".join(lines) + "\n",
            "paragraphs": paragraphs,
            "questions": [
                q | {"id": f"tables:{i}:{n}", "type": "cell"} for n, q in enumerate(chosen)
            ],
        }


class Row(NamedTuple):
    """Return the name of a row, and its values by the names of the columns."""

    name: str
    cells: dict[str, tuple[Column, str]]


def _rows(table: Table, chance: random.Random) -> Iterator[Row]:
    columns = chance.sample(table.columns, chance.randint(2, min(5, len(table.columns))))
    names = [chance.choice(column.names.split("|")) for column in columns]
    rows = dict.fromkeys(table.rows(chance) for _ in range(chance.randint(4, 24)))
    for name in rows:
        yield Row(name, {n: (c, c.draw(chance)) for n, c in zip(names, columns, strict=True)})


def _shown(table: Table, rows: Sequence[Row], chance: random.Random) -> tuple[list[str], list[str]]:
    """Lines of a table, as a file is read or as somebody types it, and the line or lines of each row."""
    head = [chance.choice(table.row_names.split("|")), *rows[0].cells]
    cells = [[row.name, *(value for _, value in row.cells.values())] for row in rows]
    style = chance.random()
    if style < 0.6:
        lines = table_lines([head, *cells], has_header=True)
        return lines, lines[-len(rows) :]
    if style < 0.75:
        texts = [f"| {' | '.join(row)} |" for row in cells]
        return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *texts], texts
    comma = chance.choice([", ", "; ", " - "])
    texts = [
        f"- {row[0]}: " + comma.join(f"{n} {v}" for n, v in zip(head[1:], row[1:], strict=True))
        for row in cells
    ]
    return texts, texts


def _asked(row: Row, chance: random.Random) -> Iterator[tuple[str, str]]:
    for name, (column, value) in row.cells.items():
        own = f"What is the {name.lower()} of {{}}?"
        question = chance.choice(
            [*column.questions, own] if chance.random() < 0.3 else column.questions
        )
        yield question.format(row.name), value


def _prose(chance: random.Random) -> list[str]:
    if chance.random() < 0.5:
        return []
    some = chance.sample(PROSE, chance.randint(1, 2))
    return ["", " ".join(s.format(person=PERSON(chance), town=TOWN(chance)) for s in some)]


if __name__ == "__main__":
    main()
