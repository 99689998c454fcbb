"""LangChain over an HWDAG: documents in, visited nodes out, and a chain on the same weights.

    pip install "hwdag[langchain]"
    python examples/langchain_quickstart.py

Runs on the embedded default models, on a CPU, without a network. Their language model has 135M
parameters: enough to find the passages, not enough to be trusted with an answer. For that pass
`reader=` a larger one, or end the chain with any other LangChain model.
"""

from __future__ import annotations

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import RunnablePassthrough

from hwdag.config import BuildConfig
from langchain_hwdag import HWDAGIndex

LIGHTHOUSE = """\
The Eddystone Rocks lie nine miles off Plymouth and had wrecked ships for centuries. Henry \
Winstanley, a merchant who had lost two vessels there, built the first lighthouse on them out of \
wood. Its candles were lit in November 1698. Winstanley said that he wished to be in his tower \
during the greatest storm there ever was, and he had his wish: the Great Storm of 1703 swept the \
tower and its builder away.
A second tower, by John Rudyard, was made of oak around a core of granite and brick, and stood for \
almost fifty years until its lantern caught fire in 1755. The keeper, Henry Hall, was 94 years old.
John Smeaton was then asked for a third tower. He modelled it on the trunk of an oak tree, wide at \
the root, and dovetailed every block of granite into its neighbours. To bind them under water he \
experimented with limes and found that those with clay in them set best, which led others to \
Portland cement. His tower was lit in 1759. When the rock under it was found to be eroding in the \
1870s, its upper part was taken down and rebuilt on Plymouth Hoe, where it still stands."""

FOSSILS = """\
Mary Anning was born in Lyme Regis in 1799, the daughter of a cabinet maker who sold curiosities \
from the cliffs to visitors. He died when she was eleven, in debt, and the family lived on the \
fossils that the children found after winter landslides.
In 1811 her brother Joseph saw a skull four feet long in the cliff. Mary found the rest of the \
animal some months later. It was first taken for a crocodile, and was later named Ichthyosaurus. \
In December 1823 she uncovered the first complete skeleton of a Plesiosaurus. Georges Cuvier doubted \
it, because its neck had too many bones, until a meeting of the Geological Society in London \
settled the matter in her favour. She herself could not attend: the Society admitted no women.
Anning also noticed that the stones called bezoars lay in the bellies of ichthyosaurs and held fish \
bones. William Buckland concluded that they were fossil dung and named them coprolites. In 1833 a \
landslide killed her dog Tray, who used to mark the places of her finds."""

SHIP = """\
The Fram was built for a single idea. Fridtjof Nansen believed that the ice of the Arctic Ocean \
drifts from Siberia towards Greenland, since pieces of a wreck had been found there, and he meant \
to let a ship freeze in and drift along. Colin Archer drew her round and smooth, so that the \
pressure of the ice would lift her instead of crushing her. Rudder and propeller could be \
pulled up into the hull, and a windmill drove a dynamo for electric light.
She froze in near the New Siberian Islands in September 1893. After a year and a half Nansen saw \
that she would miss the Pole, and left with Hjalmar Johansen, 28 dogs and three sledges. They \
turned back at 86 degrees north, wintered in a hut of stones on Franz Josef Land, and met the \
English explorer Frederick Jackson there by chance. The Fram came free in August 1896, undamaged.
Roald Amundsen borrowed the ship in 1910. He had announced the North Pole, but sailed to the \
Antarctic, and reached the South Pole in December 1911."""

DOCUMENTS = [
    Document(id="eddystone", page_content=LIGHTHOUSE, metadata={"source": "lighthouses.txt"}),
    Document(id="anning", page_content=FOSSILS, metadata={"source": "fossils.txt"}),
    Document(id="fram", page_content=SHIP, metadata={"source": "ships.txt"}),
]

QUESTION = "When was Smeaton's tower lit?"

PROMPT = PromptTemplate.from_template(
    "Question:\n{question}\n\nInformation:\n{information}\n\n"
    "Given the above information and question, answer the question as concisely as you can."
)


def as_list(documents: list[Document]) -> str:
    return "\n".join(f"- {document.page_content}" for document in documents)


def main() -> str:
    # short documents: smaller chunks than the papers' 300 tokens give the walk something to choose
    index = HWDAGIndex.from_documents(DOCUMENTS, config=BuildConfig(chunk_tokens=80))

    retriever = index.as_retriever(k=3)
    for document in retriever.invoke(QUESTION):
        node = document.metadata["hwdag"]
        print(f"{document.metadata['source']}  level {node['level']}  score {node['score']:.3f}")
        print(f"    {document.page_content}")

    chain = (
        {"information": retriever | as_list, "question": RunnablePassthrough()}
        | PROMPT
        | index.as_llm(max_new_tokens=48)
        | StrOutputParser()
    )
    answer = chain.invoke(QUESTION)
    print(f"\n{QUESTION}\n{answer}")
    return answer


if __name__ == "__main__":
    main()
