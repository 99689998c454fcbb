#!/usr/bin/env bash
# tokenizers 0.23.3 (2026-11-28)
# Expected: a WordPiece tokenizer with all letters in its vocabulary can spell any word; only unknown
#   letters become [UNK].
# Seen: a word of more than 100 characters is one [UNK] (`max_input_chars_per_word`, a limit from
#   BERT's code). Thai, Khmer, Lao and Burmese write sentences without blanks, and the pre-tokenizers
#   of BERT divide only Chinese letters: a clause of 101 characters is one word, and nothing is left
#   of it. One character fewer, and every piece is there. Two such passages have equal tokens, so
#   equal vectors.
# Costs: a multilingual model (LaBSE, distiluse, mBERT) seems bad at Thai; the longer a passage, the
#   less of it is read.
. "$(dirname "$0")/lib/setup.sh" tokenizers==0.23.3
python - <<'PY'
from still import still
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

RIVER = "แม่น้ำเจ้าพระยาไหลผ่านกรุงเทพมหานครลงสู่อ่าวไทยและเป็นเส้นทางคมนาคมที่สำคัญมาตั้งแต่สมัยกรุงศรีอยุธยา"
LAND = "ประเทศไทยเป็นประเทศในเอเชียตะวันออกเฉียงใต้มีกรุงเทพมหานครเป็นเมืองหลวงและเป็นเมืองที่ใหญ่ที่สุดของประเทศ"
tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=False)
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=["[UNK]"], show_progress=False)
tokenizer.train_from_iterator([RIVER, LAND], trainer)
for text in (RIVER, LAND):
    still(tokenizer.encode(text).tokens, ["[UNK]"], f"tokens of {len(text)} Thai characters")
    pieces = tokenizer.encode(text[:100]).tokens
    spelled = "".join(piece.removeprefix("##") for piece in pieces)
    still(spelled == text[:100], True, f"100 of them are spelled by {len(pieces)} tokens")
PY
