#!/usr/bin/env bash
# pylatexenc 2.11 (2026-11-29)
# Expected: `LatexNodes2Text`, the usual way from LaTeX to text in Python (bibliographies, sources of
#   arXiv), keeps the text that a macro sets, and a formula that it cannot show remains a formula.
# Seen: the text of \texttt, \verb, \mbox, \textsf and verbatim is dropped. \SI{5}{\milli\gram}
#   is 5 without its unit. A fraction loses its brackets, so that (a+b)/c is a+b/c, two and a half is
#   21/2, half of x and one over 2x are the same text, and a cube root is a square root. No warning.
# Costs: names of commands and functions are never found, a condition disappears ("not more than 5" is
#   "not 5"), doses have no unit, and a model computes with other formulas than the paper's.
. "$(dirname "$0")/lib/setup.sh" pylatexenc==2.11
python - <<'PY'
from pylatexenc.latex2text import LatexNodes2Text
from still import still

text = LatexNodes2Text().latex_to_text
LOST = {
    r"Run \texttt{make all} now": "Run  now",
    r"Run \verb|make all| now": "Run  now",
    r"not \mbox{more than} 5": "not  5",
    r"5 \textsf{if sunny}": "5 ",
    "\\begin{verbatim}\nmake all\n\\end{verbatim}": "",
    r"\SI{5}{\milli\gram} a day": "5 a day",
    r"\qty{70}{\percent}": "70",
}
OTHERS = {
    r"$\frac{a+b}{c}$": "a+b/c",
    r"$2\frac{1}{2}$": "21/2",
    r"$\frac{1}{2x}$": "1/2x",
    r"$\frac{1}{2}x$": "1/2x",
    r"$\sqrt[3]{8}$": "√(8)",
    r"$\binom{n}{k}$": "nk",
}
for source, seen in (LOST | OTHERS).items():
    still(text(source), seen, source.replace("\n", " "))
PY
