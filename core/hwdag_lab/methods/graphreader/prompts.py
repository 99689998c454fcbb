"""The prompts of GraphReader, each with its place in the paper.

The paper prints its prompts as images (appendix A), so the wording is ours and follows sections 3.2
to 3.4. Fields are filled one by one, so braces in documents stay as they are.
"""

from __future__ import annotations

FACTS = """\
Text:
{text}

List the atomic facts of the text above: the smallest facts that cannot be divided, each a full \
sentence that can be understood alone, with names instead of pronouns. Keep all names, places, dates \
and numbers. After each fact give its key elements: the essential nouns, verbs and adjectives. \
Write one fact per line, in this format:

* atomic fact | key element; key element; key element

Do not explain anything, and start with the first fact."""
"""Graph construction (section 3.2, Figure 6): atomic facts and key elements of a chunk."""

FACTS_RETRY = """\


Begin every line with an asterisk and a space, then a fact, then | and its key elements."""

PLAN = """\
Question: {question}

A long document has to be read to answer the question. Do not answer it. Break it down step by step: \
which pieces of information are needed, and in which order should they be looked for? Write a plan \
of a few short sentences. Reply in this format:
Plan: ..."""
"""The rational plan (section 3.3.1, Figure 7)."""

PLAN_RETRY = "\n\nWrite the plan in one or two sentences."

INITIAL = """\
Question: {question}

Plan: {plan}

These are key elements of a long document:

{elements}

From which of them should the search for an answer start? Choose the {number} elements that are \
most relevant to the question and the plan, the best first. Write one element per line, exactly as \
it stands above, in this format:

* element
* element"""
"""Selection of the initial nodes (section 3.3.1, Figure 8)."""

INITIAL_RETRY = (
    "\n\nWrite nothing but elements of the list, one per line, each after an asterisk and a space."
)

_AGENT = """\
You read a long document step by step to answer a question, and keep a notebook of what helps.

Question: {question}

Plan: {plan}

Notebook:
{notebook}

"""

EXPLORE_FACTS = (
    _AGENT
    + """\
These are atomic facts about "{element}", in groups. A group holds facts of one chunk of the text, \
and begins with the ID of the chunk.

{facts}

First rewrite the notebook: keep what helps to answer the question, and add what these facts tell. \
Then choose one function:
read_chunk([ID, ID]): read the text of these chunks, because facts of them are worth a closer look.
stop_and_read_neighbor(): none of these chunks is worth reading; look at neighboring elements.
Reply in this format:
Notebook: ...
Reason: ...
Action: read_chunk([ID]) or stop_and_read_neighbor()"""
)
"""Exploring atomic facts (section 3.3.2, Figure 9)."""

EXPLORE_CHUNK = (
    _AGENT
    + """\
This is chunk {chunk} of the text:

{text}

First rewrite the notebook: keep what helps to answer the question, and add what this chunk tells. \
Then choose one function:
search_more(): the notebook is not enough yet; read the next chunk in the queue.
read_previous_chunk(): what comes before this chunk may help.
read_subsequent_chunk(): what comes after this chunk may help.
termination(): the notebook is enough to answer the question.
Reply in this format:
Notebook: ...
Reason: ...
Action: one of the four functions"""
)
"""Exploring chunks (section 3.3.2, Figure 10)."""

EXPLORE_NEIGHBORS = (
    _AGENT
    + """\
You have read all about "{element}". These are its neighboring elements:

{elements}

Choose one function:
read_neighbor_node(element): read about this element, which may help to answer the question.
termination(): none of these elements can help.
Reply in this format:
Reason: ...
Action: read_neighbor_node(element) or termination()"""
)
"""Exploring neighbors (section 3.3.2, Figure 11)."""

CALL_RETRY = "\n\nEnd the reply with one line that says Action: and one of: {legal}."
"""Added to the prompt after a reply without a legal function."""

ANSWER = """\
Several readers searched a long document for the answer to a question, each with a notebook of its \
own.

Question: {question}

{notebooks}

Analyze the notebooks one by one, and combine what they tell. Where they contradict each other, \
follow the majority. Say of each notebook which answer it supports, or unknown. Then give the final \
answer, as concisely as you can. Reply in this format:
{votes}
Answer: the final answer"""
"""Answer reasoning over all notebooks (section 3.4, Figure 12)."""

ANSWER_RETRY = "\n\nEnd the reply with one line that says Answer: and the final answer."

EMPTY_NOTEBOOK = "(empty)"
"""Shown for a notebook without notes."""
