#!/usr/bin/env bash
# outlines-core 0.2.14, jsonschema 4.26.0 (2026-11-28)
# Expected: an expression built from a JSON schema lets through what the schema allows, or building
#   it fails, as it does for some keywords.
# Seen: `minimum`, `maximum`, `multipleOf`, `uniqueItems` and `not` are ignored without a word, while
#   `minLength` and `minItems` are kept. `{"minimum": 1, "maximum": 5}` lets -70 through.
#   Numbers that are allowed are kept out: "1e5" needs a sign ("1e+5").
# Costs: "guaranteed to follow the schema": scores out of range, twice the same choice; who trusts it
#   and leaves out validation stores them.
. "$(dirname "$0")/lib/setup.sh" outlines-core==0.2.14 jsonschema==4.26.0
python - <<'PY'
import json
import re

from jsonschema import Draft202012Validator
from outlines_core.json_schema import build_regex_from_schema
from still import still

CASES = [
    ({"type": "integer", "minimum": 1, "maximum": 5}, "-70", True),
    ({"type": "integer", "multipleOf": 10}, "7", True),
    ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[1,1]", True),
    ({"type": "string", "not": {"const": "no"}}, '"no"', True),
    ({"type": "string", "minLength": 3}, '"no"', False),
    ({"type": "number"}, "1e5", False),
]
for schema, value, expected in CASES:
    passes = re.fullmatch(build_regex_from_schema(json.dumps(schema)), value) is not None
    still(passes, expected, f"{schema} lets {value} pass")
valid = [Draft202012Validator(schema).is_valid(json.loads(value)) for schema, value, _ in CASES]
still(valid, [False] * 5 + [True], "what jsonschema says of the same values")
PY
