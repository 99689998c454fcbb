"""Question answering with LlamaIndex over a few documents, on the embedded models: no key, no GPU.

pip install "hwdag[llama-index]" && python examples/llama_index_quickstart.py
"""

import tempfile

from llama_index.core import Document, StorageContext, load_index_from_storage

from llama_index_hwdag import HWDAGIndex

TEXTS = {
    "mechanism": """\
In the spring of 1900 sponge divers from the island of Symi sheltered from a storm off Antikythera
and found a Roman wreck on the sea floor. Among the bronze and marble that was raised in the next
year lay a corroded lump that nobody looked at twice. In May 1902 Valerios Stais saw that a gear
wheel was embedded in it. X-ray images made in the 1970s by Derek de Solla Price showed some thirty
wheels, and tomography in 2005 uncovered the inscriptions. The device was turned by a hand crank. It
showed the positions of sun and moon, foretold eclipses by the Saros cycle of 223 months, and kept
the four-year calendar of the Greek games.""",
    "sewers": """\
The summer of 1858 was hot, and the Thames, which took in the waste of two and a half million
people, stank so badly that curtains in the Houses of Parliament were soaked in chloride of lime.
Within eighteen days a bill was passed that gave Joseph Bazalgette the money for his plan. He laid
82 miles of main sewers that ran beside the river instead of into it, and carried their contents to
outfalls far to the east. When he worked out the diameter of the pipes he assumed the densest
population he could imagine and then doubled it, because, he said, we are only going to do this
once. Cholera, which had killed more than ten thousand Londoners in 1853, did not return after
1866.""",
    "kew": """\
In 1876 Henry Wickham brought some seventy thousand seeds of the rubber tree from the Tapajos in
Brazil to the Royal Botanic Gardens at Kew. Fewer than three thousand germinated. The seedlings were
sent in glass cases to Ceylon and Singapore, where Henry Ridley showed planters how a tree can be
tapped every other day without being killed. Nobody wanted his seeds until the price of coffee fell
and the motor car needed tyres. By 1912 the plantations of Asia sold more rubber than the Amazon,
and the opera house of Manaus stood empty.""",
    "krakatoa": """\
At two minutes past ten on the morning of 27 August 1883 the island of Krakatoa blew itself apart.
The sound was heard on Rodrigues, nearly three thousand miles away, where the chief of police took
it for the guns of a ship in distress. The wave that followed drowned more than thirty-six thousand
people on the shores of the Sunda Strait. Barographs all over the world recorded the pressure wave,
seven times, as it ran around the globe and back. For years the dust in the upper air gave
sunsets so red that fire engines were called out in Poughkeepsie.""",
}


def main() -> str:
    documents = [
        Document(id_=name, text=text.replace("\n", " "), metadata={"subject": name})
        for name, text in TEXTS.items()
    ]
    index = HWDAGIndex.from_documents(documents)
    question = "What did the device from Antikythera show?"

    print(f"{question}\n\nRetrieved:")
    for found in index.as_retriever(k=4).retrieve(question):
        where = found.node.metadata["hwdag"]
        print(
            f"  {found.score:.3f} {where['document_id']} level {where['level']}: {found.text[:70]}"
        )

    # everything is in the framework's own stores; loading needs no model
    with tempfile.TemporaryDirectory() as folder:
        index.storage_context.persist(folder)
        index = load_index_from_storage(StorageContext.from_defaults(persist_dir=folder))

    # the answer is decoded from the KV cache that the walk has filled
    response = index.as_query_engine(answer_mode="walk").query(question)
    print(f"\nAnswer: {response}\n\nIt rests on:")
    for citation in response.metadata["hwdag"]["citations"]:
        print(f"  {citation['weight']:.0%} {citation['document_id']}: {citation['text']}")

    # or with any LLM and any response synthesizer of LlamaIndex; without `llm` it is the reader
    response = index.as_query_engine(k=3, returns="sources").query(question)
    print(f"\nBy LlamaIndex's own synthesizer: {response}")
    return str(response)


if __name__ == "__main__":
    main()
