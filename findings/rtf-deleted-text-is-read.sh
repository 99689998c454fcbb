#!/usr/bin/env bash
# striprtf 0.0.35 (2026-11-28)
# Expected: the text of an RTF file is what its reader sees; a footnote is kept or left out whole.
# Seen: text that tracked changes have deleted (\deleted) and hidden text (\v) come as if they were
#   there, side by side with what replaced them, while a footnote is left out.
# Costs: "The rent is 900 euro 700 euro": both sums of a contract, the dropped one first; words that
#   somebody hid before sending; and the footnote that would have explained it is not there.
. "$(dirname "$0")/lib/setup.sh" striprtf==0.0.35
python - <<'PY'
from still import still
from striprtf.striprtf import rtf_to_text

CONTRACT = r"""{\rtf1\ansi The rent is {\deleted 900 euro }{\revised 700 euro}{\super\chftn
{\footnote\pard\plain {\super\chftn} Without heating.}}{\v  we may go to 600}.\par}"""
still(rtf_to_text(CONTRACT), "The rent is 900 euro 700 euro we may go to 600.\n", "text of the RTF")
PY
