# Run the tests with `sh test.sh`.
set -eu
program=$(cd "$(dirname "$0")" && pwd)/main.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# last serves one request as an executor does, and prints the last line of the answer.
last() { # OP NAME
	jq -nc --arg op "$1" --arg name "$2" '{op: $op, fn: "run", input: {name: $name}, idempotency_key: "key1"}' |
		sh "$program" | tail -n 1
}

want='{"type":"output","output":{"text":"Hello Ada"}}'
test "$(last lookup Ada)" = '{"type":"absent"}'
test "$(last execute Ada)" = "$want"
test "$(last execute Ada)" = "$want"
test "$(last lookup Ada)" = "$want"
test "$(ls effects | wc -l)" -eq 1
test "$(last execute nobody | jq -r .error.code)" = unknown_name
echo ok
