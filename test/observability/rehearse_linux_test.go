package observability

import (
	"cmp"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
)

var rehearse = flag.Bool("rehearse", false, "make the faults of docs/runbook.md; Prometheus must be installed")

// The tool of the rehearsals, and who calls it.
const (
	toolID = "shop.ask"
	agent  = "agent://shop"

	// script notes each run in a file, and takes the time that its input says.
	script = `#!/bin/sh
echo begun >> begun
sleep "$(sed -n 's/.*"seconds":\([0-9.]*\).*/\1/p')"
echo '{"type":"output","output":{}}'
`
	manifest = `tool_id: shop.ask
semver: 1.0.0
owner: "@test"
title: Shop
description: It asks a shop.
status: active
tier: T4
slo: {p95_latency_ms_max: 1000}
determinism: idempotent
transport: process
endpoint: {command: [./ask.sh]}
functions:
  run: {description: d, request: any.json, response: any.json}
limits: {timeout_ms_default: 60000, timeout_ms_max: 600000, concurrency_max: 64}
`
)

// rehearsal is a bus of processes with a fault, and a Prometheus that reads their metrics.
type rehearsal struct {
	*world
	bus      *processtest.Deployment
	executor *processtest.Process
	targets  []string // addresses of metrics, quoted
	client   *toolbus.Client
	calls    sync.WaitGroup
}

// Each fault of the runbook fires its alert, shows in its panel, and its command prints what the runbook says.
func TestRehearsal(t *testing.T) {
	prometheus := program(t, *rehearse, "prometheus")
	of := processtest.Build(t, "../..")
	dir := filepath.Join(of.Tools, "shop_2eask")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "tool.yaml"), manifest)
	write(t, filepath.Join(dir, "any.json"), `{"type":"object"}`)
	if err := os.WriteFile(filepath.Join(dir, "ask.sh"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	sections, _ := runbook(t)
	for _, f := range faults() {
		t.Run(f.title, func(t *testing.T) {
			at := slices.IndexFunc(sections, func(s section) bool { return s.title == f.title })
			r := begin(t, of, f)
			r.scrape(prometheus, of.Tools, r.targets...)
			r.await(sections[at], f.make(r))
		})
	}
}

// begin starts the servers, a dispatcher and an executor of a bus, and connects an agent.
func begin(t *testing.T, of processtest.Programs, f fault) *rehearsal {
	t.Helper()
	r := &rehearsal{world: &world{T: t, toolbus: of.Toolbus()}}
	r.bus = processtest.Prepare(t, processtest.Options{Programs: of, Profile: cmp.Or(f.profile, "single")})
	if f.server != nil {
		r.bus.ServeBy(0, f.server(r))
	} else {
		var all []int
		for i := range r.bus.Servers {
			all = append(all, i)
		}
		r.bus.Serve(all...)
	}
	r.process("is serving", append([]string{"dispatcher", "--secrets-dir", filepath.Join(r.bus.Dir, "keys"),
		"--replicas", fmt.Sprint(len(r.bus.Servers)), "--lease", "1s"}, f.dispatcher...)...)
	r.bus.AllowAll()
	operator, _ := r.bus.Credential(auth.Principal{Actor: "operator://o", Role: auth.Operator})
	r.access = append(r.bus.Access(), "--credentials", operator)
	r.execute(f.slots)
	r.connect()
	return r
}

// process starts a process of the bus with metrics.
func (r *rehearsal) process(ready string, args ...string) *processtest.Process {
	r.Helper()
	at := fmt.Sprint("127.0.0.1:", processtest.FreePort(r))
	r.targets = append(r.targets, fmt.Sprintf("%q", at))
	return processtest.Start(r, ready, r.toolbus, append(args, "--server", r.bus.URL, "--tools", r.bus.Tools,
		"--http-listen", at)...)
}

// execute starts an executor.
func (r *rehearsal) execute(slots int) {
	r.Helper()
	credential, _ := r.bus.Credential(auth.Principal{Actor: "executor://x", Role: auth.Executor, Pool: "default"})
	r.executor = r.process("works for pool", "executor", "--credentials", credential, "--slots", fmt.Sprint(max(slots, 1)))
}

func (r *rehearsal) connect() {
	r.Helper()
	_, token := r.bus.Credential(auth.Principal{Actor: agent, Role: auth.Agent})
	conn, err := toolbus.Connect(r.Context(), r.bus.URL, toolbus.Options{
		Actor: agent, NATS: []nats.Option{nats.Token(token)}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(conn.Close)
	r.client, err = conn.Client(toolbus.ClientOptions{Actor: agent, Token: func() string { return token }})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = r.client.Close() })
	r.Cleanup(r.calls.Wait)
}

// ask makes calls that take a number of seconds. What becomes of them, the metrics say.
func (r *rehearsal) ask(n int, seconds float64) { r.askWith(n, fmt.Sprintf(`{"seconds":%v}`, seconds)) }

func (r *rehearsal) askWith(n int, input string) {
	for range n {
		r.calls.Go(func() {
			_, _ = r.client.Call(r.Context(), toolbus.Call{Tool: toolID, Input: []byte(input), Timeout: 10 * time.Minute,
				Retry: &envelope.RetryPolicy{MaxAttempts: 1}})
		})
	}
}

// await waits until all of a section is so. It calls again each second, which goes on with the fault.
func (r *rehearsal) await(s section, again func()) {
	r.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for late := time.After(3 * time.Minute); ; {
		again()
		lacks := r.lacks(s)
		if lacks == "" {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			r.Fatal(lacks)
		}
	}
}

// lacks returns what of a section is not so, or "".
func (r *rehearsal) lacks(s section) string {
	r.Helper()
	if command := r.fires(s.alert); command == "" {
		return s.alert + " does not fire"
	} else if command != s.command {
		return fmt.Sprintf("%s has the command %q, and the runbook %q", s.alert, command, s.command)
	}
	shows := func(expr string) bool {
		return slices.ContainsFunc(r.values(expr, toolID), func(v string) bool { return v != "NaN" && v != "0" })
	}
	if !slices.ContainsFunc(queries(r.T, s.dashboard, s.panel), shows) {
		return fmt.Sprintf("the panel %q shows nothing", s.panel)
	}
	cmd := exec.CommandContext(r.Context(), r.toolbus, append(strings.Fields(s.command)[1:], r.access...)...)
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+r.bus.Dir) // without a context of the user
	said, _ := cmd.CombinedOutput()                              // doctor fails because of the fault
	for line := range strings.Lines(s.prints) {
		if !strings.Contains(plain(string(said)), plain(line)) {
			return fmt.Sprintf("%s prints no line %q, but\n%s", s.command, line, said)
		}
	}
	return ""
}

// plain returns a text with one space between words, and # in place of those with a digit.
func plain(text string) string {
	words := strings.Fields(text)
	for i, w := range words {
		if strings.ContainsAny(w, "0123456789") {
			words[i] = "#"
		}
	}
	return strings.Join(words, " ")
}

// fires returns the command of an alert that fires, or "".
func (r *rehearsal) fires(name string) string {
	r.Helper()
	var got struct {
		Data struct {
			Alerts []struct {
				State       string
				Labels      struct{ Alertname string }
				Annotations struct{ Command string }
			}
		}
	}
	r.get("alerts", &got)
	for _, a := range got.Data.Alerts {
		if a.State == "firing" && a.Labels.Alertname == name {
			return a.Annotations.Command
		}
	}
	return ""
}
