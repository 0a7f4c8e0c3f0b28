# Run the tests with `sh test.sh`.
set -eu
cd "$(dirname "$0")"
EFFECTS=$(mktemp -d)
export EFFECTS
trap 'rm -rf "$EFFECTS"' EXIT

# last serves one request as an executor does, and prints the last line of the answer.
last() { # OP NAME
	jq -nc --arg op "$1" --arg name "$2" '{op: $op, fn: "run", input: {name: $name}, idempotency_key: "key1"}' |
		sh ./main.sh | tail -n 1
}

want='{"type":"output","output":{"text":"Hello Ada"}}'
test "$(last lookup Ada)" = '{"type":"absent"}'
test "$(last execute Ada)" = "$want"
test "$(last execute Ada)" = "$want"
test "$(last lookup Ada)" = "$want"
test "$(ls "$EFFECTS" | wc -l)" -eq 1
test "$(last execute nobody | jq -r .error.code)" = unknown_name
echo ok
