"""Two small worlds for conversations: four documents each, and twelve questions that need the turn before.

`TOWN` is what the search was made with, `SHIPS` was written before anything was measured and left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from hwdag import Document


@dataclass(frozen=True)
class Pair:
    """A question, its answer, what is asked then, and words of the one sentence that answers that."""

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
