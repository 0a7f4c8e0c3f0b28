#!/bin/sh
# Installs the clients and servers that test/agents needs, unless they are there, and runs it: npm packages of package.json,
# and four environments of Python, of requirements-*.txt. MCP_AGENTS is the folder for them; by default it is in the user's
# cache. Arguments are those of `go test`, for example -run TestAgents/equality. With --frameworks first it also installs
# more agent frameworks, the packages of frameworks/package-lock.json and of two more environments, and runs the tests of
# all eight alone.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=${MCP_AGENTS:-${XDG_CACHE_HOME:-$HOME/.cache}/toolbus/mcp-agents}
missing() {
	echo "mcp-agents: $1" >&2
	exit 2
}
# installed tells whether what was installed from a list is of the list as it is now; done_with notes that it is.
installed() { cmp -s "$here/$1" "$dir/$1"; }
done_with() { cp "$here/$1" "$dir/$1"; }

mkdir -p "$dir"
for version in $(sed -n 's/.*server-[a-z]*": "\(.*\)".*/\1/p' "$here/package.json"); do
	grep -qx "version=$version" "$here/../mcpservers/run.sh" || missing "test/mcpservers/run.sh has other servers than $version"
done
if ! installed package.json; then
	command -v npm >/dev/null || missing "npm is not on the PATH: install Node.js 20 or newer, which brings it"
	rm -rf "$dir/node_modules" "$dir/npm"
	mkdir "$dir/npm"
	cp "$here/package.json" "$dir/npm/"
	npm install --prefix "$dir/npm" --ignore-scripts --no-audit --no-fund --no-package-lock
	mv "$dir/npm/node_modules" "$dir/node_modules"
	rm -r "$dir/npm"
	done_with package.json
fi
environments="one two google-adk pydantic-ai" timeout=25m
frameworks=
if [ "${1:-}" = --frameworks ]; then
	shift
	frameworks=-frameworks environments="$environments llama-index mcp-agent" timeout=2h
	set -- -run TestFrameworks "$@"
	if ! cmp -s "$here/frameworks/package-lock.json" "$dir/frameworks/package-lock.json"; then
		rm -rf "$dir/frameworks" "$dir/npm"
		mkdir "$dir/npm"
		cp "$here/frameworks/package.json" "$here/frameworks/package-lock.json" "$dir/npm/"
		npm ci --prefix "$dir/npm" --ignore-scripts --no-audit --no-fund
		mv "$dir/npm" "$dir/frameworks"
	fi
fi
command -v python3 >/dev/null || missing "python3 is not on the PATH: install Python 3.11 or newer"
for environment in $environments; do
	if ! installed requirements-$environment.txt || ! "$dir/$environment/bin/python" -c '' 2>/dev/null; then
		rm -rf "${dir:?}/$environment"
		python3 -m venv "$dir/$environment" || missing "python3 has no venv: install python3-venv"
		"$dir/$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps \
			--requirement "$here/requirements-$environment.txt" || missing "pip could not install requirements-$environment.txt"
		done_with requirements-$environment.txt
	fi
done
cd "$here/../.."
exec "${GO:-go}" test -count=1 -timeout $timeout ./test/agents "$@" -args -installed "$dir" $frameworks
