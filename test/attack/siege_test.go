package attack

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/bench/usage"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

var builds = flag.String("builds", "", "measure toolbus and toolbus-supervisor of this folder, and fail for nothing")

// scale is how much of everything there is.
type scale struct {
	profile     string
	tls         bool
	connections int           // of one token
	readers     int           // that never read
	flood       time.Duration // of each kind
}

func scaled() scale {
	if *full {
		return scale{profile: "standard", tls: true, connections: 10_000, readers: 40, flood: 10 * time.Second}
	}
	return scale{profile: "single", connections: 600, readers: 10, flood: 3 * time.Second}
}

// crowding is the flood in which calls of a bystander may time out, and the server may take a tenth more than its
// limit: it fills the connection of the dispatcher, which the server then closes.
const crowding = "large calls"

// What floods may cost, in MB.
const (
	serverGrowth     = 1024.0 // above an idle server
	dispatcherMemory = 300.0
)

// siege is a deployment of processes, an attacker with one token, and a bystander of another tenant.
type siege struct {
	*processtest.Deployment
	*testing.T
	scale
	dispatcher *processtest.Process
	attacker   string         // the token of an agent, a new one for each flood
	rogue      auth.Principal // an executor of a pool of its own
	rogueToken string
	bystander  *clientlib.Client
	idle       float64 // MB of the largest server
	figures    []string
}

// TestSiege floods a deployment of processes. Each kind of flood comes from one valid credential. Meanwhile the calls
// of a bystander succeed, and no process uses more memory than the limits above. With -full it attacks three servers
// with TLS.
func TestSiege(t *testing.T) {
	s := besiege(t)
	for _, flood := range []struct {
		name string
		run  func(*siege, context.Context) string
	}{
		{"connections of one token", (*siege).connect},
		{"readers that never read", (*siege).neverRead},
		{"permission violations", (*siege).violate},
		{"payloads", (*siege).store},
		{"requests of an executor", (*siege).ask},
		{crowding, (*siege).callLarge},
	} {
		t.Run(strings.ReplaceAll(flood.name, " ", "-"), func(t *testing.T) { s.under(t, flood.name, flood.run) })
	}
	t.Logf("%s, idle server %.0f MB\n%s", s.profile, s.idle, strings.Join(s.figures, "\n"))
}

func besiege(t *testing.T) *siege {
	t.Helper()
	s := &siege{T: t, scale: scaled()}
	s.files()
	of := processtest.Build(t, "../..", "transcript_2eclean")
	heavyTool(t, of.Tools)
	if *builds != "" {
		of.Dir = s.replaced(of)
	}
	s.Deployment = processtest.Prepare(t, processtest.Options{Programs: of, Profile: s.profile, TLS: s.tls})
	var all []int
	for i := range s.Servers {
		all = append(all, i)
	}
	if *builds == "" {
		s.Memory = unitLimit(t)
	}
	s.Serve(all...)
	s.dispatcher = s.startDispatcher()
	s.startExecutor("default")
	s.rogue = auth.Principal{Tenant: "default", Actor: "executor://rogue", Role: auth.Executor, Pool: "other"}
	_, s.rogueToken = s.Credential(s.rogue)
	s.bystander = s.agent(bob)
	for range 20 {
		s.must(s.call(s.Context()))
	}
	for _, server := range s.Servers {
		s.idle = max(s.idle, s.memory(server))
	}
	return s
}

// unitLimit returns the GOMEMLIMIT of the unit of servers.
func unitLimit(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/systemd/toolbus-nats@.service")
	if err != nil {
		t.Fatal(err)
	}
	_, limit, ok := strings.Cut(string(text), "\nEnvironment=GOMEMLIMIT=")
	if !ok {
		t.Fatal("the unit of servers has no GOMEMLIMIT")
	}
	limit, _, _ = strings.Cut(limit, "\n")
	return limit
}

// replaced returns a folder with the server of this build and the programs of another one.
func (s *siege) replaced(of processtest.Programs) string {
	s.Helper()
	dir := s.TempDir()
	for name, from := range map[string]string{
		"nats-server": of.Dir, "toolbus": *builds, "toolbus-supervisor": *builds,
	} {
		from, err := filepath.Abs(filepath.Join(from, name))
		s.must(err)
		s.must(os.Symlink(from, filepath.Join(dir, name)))
	}
	return dir
}

func (s *siege) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// files checks that this process may have as many open files as the attack needs.
func (s *siege) files() {
	s.Helper()
	var limit syscall.Rlimit
	s.must(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)) // Go has raised it to the hard limit
	if need := uint64(s.connections + 1000); limit.Cur < need {
		s.Fatalf("this process may have %d open files, and %d connections need %d: raise the hard limit (ulimit -Hn)",
			limit.Cur, s.connections, need)
	}
}

func (s *siege) startDispatcher() *processtest.Process {
	s.Helper()
	args := append([]string{"dispatcher", "--secrets-dir", filepath.Join(s.Dir, "keys"), "--tools", s.Tools, "--replicas",
		strconv.Itoa(len(s.Servers))}, s.Access()...)
	p := processtest.Start(s.T, "is serving", s.Toolbus(), args...)
	if *builds == "" { // an earlier build has no policy
		s.AllowAll()
	}
	return p
}

// startExecutor starts an executor of a pool, at full scale as another user if this process may.
func (s *siege) startExecutor(pool string) *processtest.Process {
	s.Helper()
	file, _ := s.Credential(auth.Principal{Actor: "executor://x", Role: auth.Executor, Pool: pool})
	other := *full && os.Geteuid() == 0
	access := append([]string{"--credentials", file}, s.Access()...)
	if other {
		access = s.Handed(file, nobody)
	}
	cmd := exec.Command(s.Toolbus(), append([]string{"executor", "--pool", pool, "--tools", s.Tools}, access...)...)
	if other {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		cmd.Env = append(os.Environ(), "HOME=/nonexistent")
	} else if *full {
		s.Log("NOT root: executors have the same user as all other processes")
	}
	p := processtest.Launch(s.T, cmd)
	p.Await(s.T, "works for pool")
	return p
}

// encrypted returns options of a connection, with TLS where the deployment has it.
func (s *siege) encrypted(more ...nats.Option) []nats.Option {
	if s.tls {
		more = append(more, nats.Secure(s.TLS()))
	}
	return more
}

// agent is a client of an agent, with a token of its own.
func (s *siege) agent(actor string) *clientlib.Client {
	s.Helper()
	return s.agentAt(s.URL, actor)
}

// agentAt is agent, connected to servers.
func (s *siege) agentAt(servers, actor string, more ...nats.Option) *clientlib.Client {
	s.Helper()
	_, token := s.Credential(auth.Principal{Actor: actor, Role: auth.Agent})
	return s.client(servers, token, more...)
}

// client is a client with a token, connected to servers.
func (s *siege) client(servers, token string, more ...nats.Option) *clientlib.Client {
	s.Helper()
	says, err := auth.Inspect(token)
	s.must(err)
	conn, err := link.Establish(s.Context(), link.Options{
		URL: servers, Connect: s.encrypted(append(more, nats.Token(token))...), Tenant: says.Tenant, Actor: says.Actor,
	})
	s.must(err)
	s.Cleanup(conn.Close)
	c, err := conn.Client(clientlib.Options{
		Tenant: says.Tenant, Actor: says.Actor, Token: func() string { return token },
	})
	s.must(err)
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// call makes a call of the bystander.
func (s *siege) call(ctx context.Context) error {
	r, err := s.bystander.Call(ctx, clientlib.Call{
		Tool: "transcript.clean", Input: []byte(`{"text":"a line ` + auth.NewID() + `"}`),
	})
	if err == nil && r.Status != envelope.Success {
		err = errors.New(r.Error.String())
	}
	return err
}

// raw connects an attacker to the first server.
func (s *siege) raw(token, name string) (*rawConn, error) {
	return rawConnect(rawOptions{url: "nats://" + s.Host(0), tls: s.TLS(), token: token, name: name})
}

// rawRogue connects the rogue executor, and returns which instance it is.
func (s *siege) rawRogue() (c *rawConn, instance string) {
	s.Helper()
	says, err := auth.Inspect(s.rogueToken)
	s.must(err)
	instance = auth.NewInstanceID(says)
	c, err = s.raw(s.rogueToken, auth.ConnectionName(instance))
	s.must(err)
	return c, instance
}

func (s *siege) memory(p *processtest.Process) float64 {
	s.Helper()
	mb, err := usage.ResidentMB(p.Cmd.Process.Pid)
	s.must(err)
	return mb
}

// logged returns the bytes that the servers have logged: to files beside their streams, and to standard error.
func (s *siege) logged() (bytes int64) {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(s.Dir, "store", "*.log*"))
	s.must(err)
	for _, file := range files {
		if info, err := os.Stat(file); err == nil { // one that was removed meanwhile has no bytes
			bytes += info.Size()
		}
	}
	for _, server := range s.Servers {
		bytes += server.Wrote.Load()
	}
	return bytes
}

// watched is what is measured during a flood.
type watched struct {
	server, dispatcher float64 // largest, in MB
	took               []time.Duration
	failed             []string
}

// under runs a flood while the bystander calls 20 times a second, and checks what it costs.
func (s *siege) under(t *testing.T, name string, flood func(*siege, context.Context) string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var w watched
	var watching sync.WaitGroup
	watching.Go(func() { w.watch(ctx, s) })
	logs, began := s.logged(), time.Now()
	inner := *s
	inner.T = t
	_, inner.attacker = s.Credential(auth.Principal{Actor: mallory, Role: auth.Agent})
	what := flood(&inner, ctx)
	took := time.Since(began)
	cancel()
	watching.Wait()
	slices.Sort(w.took)
	of := func(percent int) time.Duration { return w.took[len(w.took)*percent/100].Round(100 * time.Microsecond) }
	s.figures = append(s.figures, fmt.Sprintf("%s: %s in %.1f s; server %.0f MB, dispatcher %.0f MB; log %.3f MB/s; "+
		"bystander p50 %s, p99 %s, %d of %d failed", name, what, took.Seconds(), w.server, w.dispatcher,
		float64(s.logged()-logs)/1e6/took.Seconds(), of(50), of(99), len(w.failed), len(w.took)))
	if *builds != "" {
		return
	}
	if w.server > s.idle+serverGrowth && (name != crowding || w.server > 1.1*(s.idle+serverGrowth)) {
		t.Errorf("a server has %.0f MB, and %.0f MB when idle", w.server, s.idle)
	}
	if w.dispatcher > dispatcherMemory {
		t.Errorf("the dispatcher has %.0f MB", w.dispatcher)
	}
	if most := int64(len(s.Servers) * (deployment.MaxLogFiles + 1) * deployment.MaxLogBytes); s.logged() > most {
		t.Errorf("the logs have %d bytes, more than %d", s.logged(), most)
	}
	if len(w.failed) > 0 && name != crowding {
		t.Errorf("calls of a bystander failed: %q", w.failed)
	}
}

// watch calls as the bystander, and looks at the memory of the processes, until ctx ends.
func (w *watched) watch(ctx context.Context, s *siege) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for len(w.took) == 0 || ctx.Err() == nil {
		began := time.Now()
		if err := s.call(context.WithoutCancel(ctx)); err != nil {
			w.failed = append(w.failed, err.Error())
		}
		w.took = append(w.took, time.Since(began))
		for _, server := range s.Servers {
			w.server = max(w.server, s.memory(server))
		}
		w.dispatcher = max(w.dispatcher, s.memory(s.dispatcher))
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// answers is where the attacker is answered.
func answers() string { return subjects.Answers("default", mallory) }
