package clock

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
)

// system is a server, two dispatchers and two executors: processes that have clocks.
type system struct {
	t                 *testing.T
	role              string
	dir, tools        string
	ledger            string
	port              int
	via               string // URL at which processes and clients reach the server
	ofServer, ofOther processtest.Wall
	server            *processtest.Process
	dispatchers       []*processtest.Process
}

// tools has a tool for each effect class.
var classes = []string{"pure", "idempotent", "side_effectful"}

const manifest = `tool_id: %[1]s
semver: 1.0.0
owner: "@test"
title: T
description: It commits an effect.
status: active
determinism: %[1]s
transport: native
endpoint: {native: %[1]s}
functions:
  run: {description: d, request: any.json, response: any.json}
limits: {timeout_ms_default: 20000, timeout_ms_max: 120000, concurrency_max: 64}
retention_s: 86400
`

func newSystem(t *testing.T, role string) *system {
	t.Helper()
	s := &system{
		t: t, role: role, dir: t.TempDir(), tools: t.TempDir(), port: processtest.FreePort(t),
		ofServer: processtest.NewWall(t), ofOther: processtest.NewWall(t),
	}
	s.ledger = filepath.Join(s.dir, "ledger")
	s.via = "nats://" + s.host()
	for _, class := range classes {
		dir := filepath.Join(s.tools, class)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, dir, "tool.yaml", fmt.Appendf(nil, manifest, class))
		write(t, dir, "any.json", []byte(`{"type":"object"}`))
	}
	return s
}

func (s *system) host() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// start starts a process by the given clock, and waits until it is ready.
func (s *system) start(by processtest.Wall, args ...string) *processtest.Process {
	s.t.Helper()
	cmd := exec.Command(s.role, args...)
	cmd.Env = by.Env()
	p := processtest.Launch(s.t, cmd)
	p.Await(s.t, "ready")
	return p
}

func (s *system) serve() {
	s.t.Helper()
	s.server = s.start(s.ofServer, "server", filepath.Join(s.dir, "store"), strconv.Itoa(s.port))
}

// startAll starts the server, unless it runs, and all other processes.
func (s *system) startAll() {
	s.t.Helper()
	if s.server == nil {
		s.serve()
	}
	for range 2 {
		s.dispatchers = append(s.dispatchers, s.start(s.ofOther, "dispatcher", s.via, s.tools))
	}
	for range 2 {
		s.start(s.ofOther, "executor", s.via, s.tools, s.ledger)
	}
}

func (s *system) client() *clientlib.Client {
	s.t.Helper()
	nc, err := nats.Connect(s.via, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	c, err := clientlib.New(nc, clientlib.Options{Actor: "agent"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func write(t *testing.T, dir, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}
