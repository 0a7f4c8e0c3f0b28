# The commands of this repository; `make help` says what each is for.

GO    ?= go
# The shipped tools, as programs and as MCP servers, and where the model is: a search that needs no race detector.
TOOLS := $(patsubst %/main.go,%,$(wildcard tools/*/main.go tools/mcp/internal/*/main.go))
MODEL := ./test/model/...

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run test nightly release attack bench chaos mcp-agents mcp-conformance mcp-servers fuzz build \
	subjects format vet lint tidy model cover chaos-short

help: ## say what each command does
	@echo "Toolbus: make COMMAND"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
		printf '  %-15s %s\n' "$$name" "$$text"; done
	@echo
	@echo "Needed: Go 1.26, a C compiler (for the race detector), and once the Go module proxy."

build: ## build bin/ (toolbus, dispatcher, executor, toolbus-supervisor, toolbus-lab) and the tools into tools/*/ and tools/mcp/internal/*/
	$(GO) build -o bin/ ./cmd/...
	@for dir in $(TOOLS); do \
		program=$$(basename "$$dir" | sed 's/_2e/-/g'); \
		echo "$(GO) build -o $$dir/$$program ./$$dir"; \
		$(GO) build -o "$$dir/$$program" "./$$dir"; \
	done

run: build ## build everything and show it at work: bin/toolbus demo (about seven seconds)
	bin/toolbus demo

test: ## static checks, the small model, and the tests of all packages with the race detector; 20 minutes on two cores
	.ci/test

nightly: build attack ## what is too long for CI: full attacks, random fuzzing, 80 minutes of chaos, 200 frozen dispatchers, builds of two ages, clocks that are set, a real Prometheus (apt-get install prometheus chromium) that sees each fault of the runbook and whose dashboards are drawn, an OpenTelemetry Collector, releases of both platforms, 1,000 planned reconnects under load, agents of eight frameworks, the large model; six hours
	.ci/fuzz 60s
	$(GO) test -count=1 -timeout 1h -v -run TestBystanderOfFloods ./test/attack -args -full -flood 60s
	bin/toolbus-lab chaos --seed 1 --duration 30m
	bin/toolbus-lab chaos --seed 2 --duration 20m --servers 3
	bin/toolbus-lab chaos --seed 3 --duration 10m --identity
	bin/toolbus-lab chaos --seed 4 --duration 10m --identity --servers 3
	$(GO) test -count=1 -timeout 1h ./test/mixed -args -long
	$(GO) test -count=1 -timeout 1h ./test/clock -args -all
	$(GO) test -count=1 -timeout 1h ./test/observability -args -prometheus -collector -rehearse -pictures bin
	$(GO) test -c -o bin/workqueue.test ./internal/executor/workqueue
	.ci/image
	$(GO) test -count=1 -timeout 30m -run TestRelease ./test/release -args -all # after .ci/image, which installs buildah
	seq 5 | xargs -P 5 -I{} bin/workqueue.test -test.run '^TestPause$$' -test.count 200 -test.timeout 2h
	$(GO) test -count=1 -timeout 30m -run TestFlips ./test/blackbox -args -flips 40
	$(GO) test -count=1 -timeout 30m -run TestDamage ./test/blackbox -args -damages
	$(GO) test -count=1 -timeout 30m -run TestFrozenDispatcher ./test/deploy -args -frozen 200
	$(GO) test -count=1 -run TestDamagedLocks ./internal/policy/lockstore -args -flips 24
	GO="$(GO)" test/agents/run.sh --frameworks -v
	$(GO) test -count=1 -timeout 3h $(MODEL) -args -large

attack: ## attack and flood three servers with TLS, whose executors have a user of their own if this is root; ten minutes, 11,000 open files
	$(GO) test -count=1 -timeout 30m -v -run 'TestSiege|TestBystanderOfFloods' ./test/attack -args -full
	$(GO) test -count=1 -timeout 10m -skip 'TestSiege|TestBystanderOfFloods' ./test/attack -args -full

release: ## make bin/release: static programs for Linux on amd64 and arm64, their modules, images if buildah is there, and checksums
	.ci/release

bench: build ## measure beside the leanest pipeline and the floor of the protocol on the same server
	bin/toolbus-lab bench

chaos: build ## five minutes of faults against a bus of its own, a new seed each time
	bin/toolbus-lab chaos --seed "$$(date +%s)" --duration 5m

mcp-agents: ## clients and agents that others have written, asked directly and through a bus; needs npm and Python, which install them
	GO="$(GO)" test/agents/run.sh -v

mcp-conformance: ## the official conformance suite of MCP against the door; needs npm, which installs it
	test/conformance/run.sh

mcp-servers: ## servers of MCP that others have written, called through a bus; needs npm, which installs them
	GO="$(GO)" test/mcpservers/run.sh

fuzz: ## run every fuzz target for a minute, with random inputs
	.ci/fuzz 60s

# The stages of .ci/test and .ci/run.

subjects:
	.ci/subjects

format:
	@test -z "$$(gofmt -l .)" || { gofmt -d .; exit 1; }

vet:
	$(GO) vet ./...

lint:
	$(GO) tool staticcheck ./...

tidy:
	$(GO) mod tidy -diff
	$(GO) mod verify

chaos-short: build ## 50 seconds of faults, half of them with identity, as in CI
	bin/toolbus-lab chaos --seed 1 --duration 30s
	bin/toolbus-lab chaos --seed 3 --duration 20s --identity

cover: ## hold the coverage of each package to its floor in .ci/coverage; five minutes
	.ci/cover

model:
	$(GO) test $(MODEL)
