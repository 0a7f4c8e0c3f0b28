# Run the tests with `sh test.sh`.
set -eu
cd "$(dirname "$0")"

# last serves one call as an executor does, and prints the last line of the answer.
last() {
	jq -nc --arg name "$1" '{op: "execute", fn: "run", input: {name: $name}}' | sh ./main.sh | tail -n 1
}

test "$(last Ada)" = '{"type":"output","output":{"text":"Hello Ada"}}'
test "$(last nobody | jq -r .error.code)" = unknown_name
echo ok
