"""Four small worlds for conversations: four documents each, and twelve questions that need the turn before.

The search was made with `TOWN`, `SHIPS` and `GARDENS`; `HOUSE` was written before anything was measured there.
The questions of the last two refer to persons, things, places, dates, several things, or to no word of the turn
before at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from hwdag import Document


@dataclass(frozen=True)
class Pair:
    """A question, its answer, a follow-up, and words of the one sentence that answers the follow-up."""

    first: str
    answer: str
    then: str
    wanted: str


TOWN = [
    Document(
        "waterworks.md",
        """# The waterworks

The waterworks of Brightwater were built in 1874 by the engineer Ada Lindqvist. Two steam engines \
pumped water from the lake to the upper town. The old boiler house is a cafe today.

Ada Lindqvist was born in Karlstad in 1839. Before she came to the town she had worked on canals in \
Holland for nine years. She died in March 1911 of pneumonia.
""",
    ),
    Document(
        "theatre.md",
        """# The theatre

The theatre on the market square has six hundred seats. It was designed and built by Emil Sand between \
1888 and 1891. The curtain was painted in Vienna, and the ceiling shows the nine muses.

## The architect

Emil Sand was born in 1850 as the son of a carpenter. He studied in Dresden and won a prize for a \
railway station that was never built. He died in 1923 in his house by the river.
""",
    ),
    Document(
        "bridge.txt",
        """The iron bridge over the Elm was opened in 1903. Its builder was Martha Krogh, who had won the \
competition against eleven others. It has three arches and carries two tram lines.

Martha Krogh came from a family of smiths and was born in 1866 in the village of Vik. She never \
married. In 1940 she died during the first winter of the war.
""",
    ),
    Document(
        "observatory.md",
        """# The observatory

The observatory stands on the hill above the town. Its dome turns on cannon balls. It was built by \
Johan Falk with the money of a brewer, and opened in 1857.

Falk was born in 1811 and learned to grind lenses from his uncle. He was the first in the country who \
photographed the moon. He died in 1879, and the asteroid 8211 carries his name.
""",
    ),
]

TOWN_PAIRS = [
    Pair("Who built the waterworks?", "Ada Lindqvist", "When was she born?", "in Karlstad in 1839"),
    Pair(
        "Who built the waterworks?", "the engineer Ada Lindqvist", "When did she die?", "March 1911"
    ),
    Pair("Who built the waterworks?", "Ada Lindqvist", "Where had she worked before?", "canals"),
    Pair("Who built the theatre?", "Emil Sand", "When was he born?", "born in 1850"),
    Pair("Who built the theatre?", "Emil Sand", "When did he die?", "died in 1923"),
    Pair("Who designed the theatre?", "Emil Sand", "Where did he study?", "studied in Dresden"),
    Pair("Who built the iron bridge?", "Martha Krogh", "When was she born?", "born in 1866"),
    Pair("Who built the iron bridge?", "Martha Krogh", "When did she die?", "In 1940"),
    Pair("Who built the bridge?", "Martha Krogh", "And where was she born?", "village of Vik"),
    Pair("Who built the observatory?", "Johan Falk", "When was he born?", "born in 1811"),
    Pair("Who built the observatory?", "Johan Falk", "When did he die?", "died in 1879"),
    Pair("Who built the observatory?", "Johan Falk", "Who taught him?", "grind lenses"),
]

SHIPS = [
    Document(
        "aurora",
        "The Aurora was launched at Bergen in 1926. The captain on her first voyage was Sigrid Moe, a "
        "farmer's daughter. The ship carried coal and later passengers.\n\nMoe was born in 1889 on the "
        "island of Runde. She retired in 1950 and wrote a book about fog. She is buried in Alesund, "
        "where she died in 1962.",
        "Aurora",
    ),
    Document(
        "petrel",
        "# Petrel\n\nThe Petrel was a survey ship with a crew of forty. Her captain for eleven years was "
        "Tomas Grey.\n\n## Tomas Grey\n\nBorn in Hull in 1901, he went to sea at fourteen. He charted "
        "the coast of Labrador. He lost an eye in a fire on board. His death in 1977 was reported in "
        "all newspapers.",
    ),
    Document(
        "condor",
        "The Condor, a barque of four masts, sank off Valparaiso in 1911. Captain Inez Duarte was the "
        "last to leave the ship.\n\nInez Duarte was born in Lisbon in 1870, and her father was a pilot "
        "there. She had sailed around Cape Horn thirty times. After the wreck she opened a school of "
        "navigation. She died in 1936.",
        "Condor",
    ),
    Document(
        "lotte",
        "The Lotte is the oldest ferry on the river. Her first captain was Heinrich Baum, a quiet man. "
        "Today she runs on batteries.\n\nHeinrich Baum was born in 1833. He played the organ on Sundays. "
        "He died in 1904 after a fall on the ice, and his son took over the ferry.",
        "The Lotte",
    ),
]

SHIPS_PAIRS = [
    Pair("Who was the captain of the Aurora?", "Sigrid Moe", "When was she born?", "born in 1889"),
    Pair("Who was the captain of the Aurora?", "Sigrid Moe", "When did she die?", "died in 1962"),
    Pair(
        "Who was the captain of the Aurora?", "Sigrid Moe", "What did she write?", "book about fog"
    ),
    Pair("Who commanded the Petrel?", "Tomas Grey", "When was he born?", "Born in Hull in 1901"),
    Pair("Who commanded the Petrel?", "Tomas Grey", "When did he die?", "death in 1977"),
    Pair("Who commanded the Petrel?", "Tomas Grey", "What did he chart?", "coast of Labrador"),
    Pair(
        "Who was the captain of the Condor?", "Inez Duarte", "Where was she born?", "born in Lisbon"
    ),
    Pair("Who was the captain of the Condor?", "Inez Duarte", "When did she die?", "died in 1936"),
    Pair("Who was the captain of the Condor?", "Inez Duarte", "What did she open?", "school of"),
    Pair(
        "Who was the first captain of the Lotte?",
        "Heinrich Baum",
        "When was he born?",
        "born in 1833",
    ),
    Pair(
        "Who was the first captain of the Lotte?",
        "Heinrich Baum",
        "How did he die?",
        "fall on the ice",
    ),
    Pair(
        "Who was the first captain of the Lotte?", "Heinrich Baum", "What did he play?", "the organ"
    ),
]

GARDENS = [
    Document(
        "minutes",
        """# Minutes of the garden club, 9 March 2021

The pump in the north field broke in the frost. Mr Okafor offered to repair the pump for 340 euros. The \
board accepted the offer on 2 March.

The tool shed was moved to the car park in May. The drain under its old place had burst twice.

Petra Voss has been treasurer since 2020. Until then Anton Reis kept the accounts. Next year there will be \
elections for all offices.

The next meeting is on 14 September at seven in the evening.
""",
        "Minutes of March 2021",
    ),
    Document(
        "rules",
        """# House rules

## Gate

In summer the gate is closed at nine in the evening. From November to February it is locked at five.

## Tools

Members may borrow the shredder and the roller. Both must be brought back within three days, cleaned. \
Damage is reported to the board.

## Service

The pump is serviced every two years. The boiler of the club house is checked each autumn by the firm \
Halden. Fire extinguishers are replaced after ten years.

## Burning

Leaves may be burned on the plots in October only, and never after dark.
""",
        "House rules",
    ),
    Document(
        "chronicle",
        """The greenhouse was built in 1998 by the firm Halden. A bequest of Miss Amundsen paid for the \
whole greenhouse. It has been heated since 2005.

In 2019 the club went on an excursion to the island of Texel. The members visited a seal station and a \
brewery. The bus was late on the way home.

The Moreaus and the Nakamuras keep bees. Their hives are next to the orchard wall. In a good year the two \
families sell ninety jars of honey.

The new fence was paid by the city in 2012. The old one had been eaten by rust.
""",
        "Chronicle of the club",
    ),
    Document(
        "wege",
        """# Die Wege

Die Wege werden von Familie Brandt gemäht. Das geschieht alle zwei Wochen, im Winter gar nicht. Das Gras \
kommt auf den Kompost hinter dem Tor.

Der Schlüssel zum Tor liegt bei Frau Yilmaz. Sie wohnt im Haus Nummer 7.
""",
        "Die Wege",
    ),
]

GARDENS_PAIRS = [
    Pair("Who repaired the pump?", "Mr Okafor", "How much did he ask for?", "340 euros"),
    Pair(
        "Did the board accept the offer for the pump?",
        "Yes, the board accepted it.",
        "When was that?",
        "on 2 March",
    ),
    Pair("Was the tool shed moved?", "Yes, to the car park.", "Why?", "had burst twice"),
    Pair("Who is the treasurer?", "Petra Voss, since 2020", "And before that?", "Anton Reis"),
    Pair("When is the gate closed in summer?", "at nine", "And in winter?", "locked at five"),
    Pair(
        "Which tools may be borrowed?",
        "The shredder and the roller",
        "How long may one keep them?",
        "within three days",
    ),
    Pair("How often is the pump serviced?", "Every two years", "And the boiler?", "each autumn"),
    Pair("Who built the greenhouse?", "The firm Halden", "Who paid for it?", "bequest"),
    Pair(
        "Where did the excursion of 2019 go?",
        "To the island of Texel",
        "What did they see there?",
        "seal station",
    ),
    Pair(
        "Who keeps bees?",
        "The Moreaus and the Nakamuras",
        "Where are their hives?",
        "orchard wall",
    ),
    Pair("Wer mäht die Wege?", "Familie Brandt", "Und wie oft?", "alle zwei Wochen"),
    Pair("Wer hat den Schlüssel zum Tor?", "Frau Yilmaz", "Wo wohnt sie?", "Nummer 7"),
]

STANDALONE = [
    "When was the greenhouse built?",
    "Is it allowed to burn leaves on the plots in October?",
    "When is the next meeting?",
    "Who is Petra Voss, and since when has she been treasurer?",
    "How many jars of honey are there in a good year?",
    "Wo liegt der Schlüssel zum Tor?",
    "Was the fence paid by the city?",
]
"""Questions about `GARDENS` that refer to nothing before them."""

HOUSE = [
    Document(
        "museum",
        """# The clock museum

The museum was founded by Ruben Castell in 1931. He had collected clocks since his school days. The oldest \
piece is a water clock from Fez. It was bought at an auction in Lyon.

Until 1958 the collection was shown in the town hall. Since then it has been in the old tannery. The move \
took eleven weeks.

## Visit

A ticket costs 6 euros. Children pay half. The museum is closed on Mondays, because the clocks are wound \
on that day.
""",
        "The clock museum",
    ),
    Document(
        "lease",
        """# Lease of the flat at Kiln Street 4

The tenant is Mira Solheim. The landlord is the Orr foundation. Its office is at Harbour Road 12.

The rent is 780 euros a month. It is due on the third working day. A deposit of two rents was paid on \
1 June 2022.

Cats are permitted. For dogs the written consent of the landlord is needed. The cellar is shared with the \
neighbours on the first floor.
""",
        "Lease",
    ),
    Document(
        "interview",
        """Q: Who taught you to bake?

A: My grandmother, in Oulu.

Q: What did the two of you bake first?

A: Rye bread, in a stove that was heated with birch.

Q: When did you open the bakery?

A: In the spring of 1987, with my brother Eero.

Q: Was there anything there before?

A: A shop for fishing nets. The floor still smelled of tar.
""",
        "Interview with a baker",
    ),
    Document(
        "mail",
        """From: Ines
To: Tobias

The sensors in hall 3 were replaced on Tuesday. Two of them came from Danfeld, the rest from Ostrow. The \
parts from Danfeld are guaranteed for five years, those from Ostrow for two.

The ventilation failed on Friday night. A fuse had melted. Karim found it, and he had a spare one in his \
car.
""",
        "Sensors and ventilation",
    ),
]

HOUSE_PAIRS = [
    Pair("Who founded the museum?", "Ruben Castell", "Since when had he collected?", "school days"),
    Pair("What is the oldest piece?", "A water clock from Fez", "Where was it bought?", "in Lyon"),
    Pair(
        "Where is the collection of clocks now?",
        "In the old tannery",
        "And before that?",
        "in the town hall",
    ),
    Pair("How much is a ticket to the museum?", "6 euros", "And for children?", "pay half"),
    Pair("When is the museum closed?", "On Mondays", "Why?", "are wound"),
    Pair("Who is the landlord?", "The Orr foundation", "Where is its office?", "Harbour Road"),
    Pair("How much is the rent?", "780 euros a month", "When is it due?", "third working day"),
    Pair("Was a deposit paid?", "Yes, two rents", "When was that?", "1 June 2022"),
    Pair("Are cats permitted?", "Yes", "And dogs?", "written consent"),
    Pair("When was the bakery opened?", "In 1987", "What was there before?", "fishing nets"),
    Pair(
        "Where did the new sensors come from?",
        "From Danfeld and Ostrow",
        "How long are they guaranteed?",
        "for five years",
    ),
    Pair("What failed on Friday?", "The ventilation", "How come?", "fuse had melted"),
]
