#!/bin/sh
# Installs the reference servers of MCP with npm, unless they are there, and runs the tests that call them through a
# bus. MCP_SERVERS is the folder for them; by default it is in the user's cache.
set -eu
cd "$(dirname "$0")/../.."
dir=${MCP_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/toolbus/mcp-servers}
version=2026.8.31
for program in npm node; do
	if ! command -v $program >/dev/null; then
		echo "mcp-servers: $program is not on the PATH: install Node.js 20 or newer, which brings it" >&2
		exit 2
	fi
done
packages=
for name in everything filesystem memory sequential-thinking; do
	package=@modelcontextprotocol/server-$name
	packages="$packages $package@$version"
	grep -qs "\"version\": *\"$version\"" "$dir/node_modules/$package/package.json" || missing=yes
done
if test -n "${missing:-}"; then
	mkdir -p "$dir"
	# shellcheck disable=SC2086 # each is a word of its own
	npm install --prefix "$dir" --ignore-scripts --no-audit --no-fund $packages
fi
exec "${GO:-go}" test -count=1 -timeout 5m ./test/mcpservers -args -servers "$dir"
