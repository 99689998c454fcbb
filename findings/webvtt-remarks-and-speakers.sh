#!/usr/bin/env bash
# pysubs2 1.8.1, webvtt-py 0.6.0 (2026-11-28)
# Expected: a WebVTT transcript keeps its speakers, and a NOTE, the format's comment, is not
#   part of the text.
# Seen: pysubs2 puts a NOTE at the end of the cue before it, as if it were spoken, and drops the
#   names of the speakers (`name` is empty). webvtt-py leaves the NOTE out, but `.voice` is the first
#   speaker of the cue and `.text` has all of them without names, so the second one's "No" is the
#   first one's. Both leave "R&amp;D" as it is.
# Costs: minutes that quote the editor's remarks, and answers attributed to the person who asked.
. "$(dirname "$0")/lib/setup.sh" pysubs2==1.8.1 webvtt-py==0.6.0
cat >a.vtt <<'VTT'
WEBVTT

00:00.000 --> 00:04.000
<v Ann>Do we sell R&amp;D?</v>
<v Bob>No.</v>

NOTE check this with the lawyer

00:05.000 --> 00:06.000
<v Ann>Next item.</v>
VTT
python - <<'PY'
import pysubs2
import webvtt
from still import still

event = pysubs2.load("a.vtt")[0]
still(event.name, "", "pysubs2's speaker")
still(event.plaintext, "Do we sell R&amp;D?\nNo.\n\nNOTE check this with the lawyer", "its text")
cue = webvtt.read("a.vtt")[0]
still((cue.voice, cue.text), ("Ann", "Do we sell R&amp;D?\nNo."), "webvtt-py's speaker and text")
PY
