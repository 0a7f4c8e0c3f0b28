#!/bin/sh
# Installs the reference servers of MCP and an authorization server with npm, unless they are there, and runs the tests
# that call them through a bus. MCP_SERVERS is the folder for them; by default it is in the user's cache.
set -eu
cd "$(dirname "$0")/../.."
lock=test/mcpservers/oidc/package-lock.json
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
if ! cmp -s $lock "$dir/oidc/installed"; then
	mkdir -p "$dir/oidc"
	cp test/mcpservers/oidc/package.json $lock "$dir/oidc/"
	npm ci --prefix "$dir/oidc" --ignore-scripts --no-audit --no-fund
	cp $lock "$dir/oidc/installed"
fi
exec "${GO:-go}" test -count=1 -timeout 10m ./test/mcpservers -args -servers "$dir" -oidc "$dir/oidc"
