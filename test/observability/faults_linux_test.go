package observability

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// fault is a fault of the runbook.
type fault struct {
	title      string // of its section
	profile    string // of the deployment; "" is single
	slots      int    // of the executor; 0 is 1
	dispatcher []string
	server     func(*rehearsal) *exec.Cmd // nil is that of the deployment

	// make makes the fault, and returns what has to be done each second for it to go on.
	make func(*rehearsal) (again func())
}

func faults() []fault {
	return []fault{
		{title: "Slow upstream", slots: 8, make: func(r *rehearsal) func() { return func() { r.ask(1, 2.5) } }},
		{title: "Poison call", make: poison},
		{title: "Full disk", server: unable, make: fillDisk},
		{title: "Lost pool", dispatcher: []string{"--pool-absence", "2s"}, make: func(r *rehearsal) func() {
			r.executor.Kill()
			return func() { r.ask(1, 0) }
		}},
		{title: "Flood", dispatcher: []string{"--open-per-actor", "10"},
			make: func(r *rehearsal) func() { return func() { r.ask(100, 300) } }},
		{title: "Expired key", make: expire},
		{title: "Clock skew", server: ahead, make: func(*rehearsal) func() { return func() {} }},
		{title: "Stuck queue", make: func(r *rehearsal) func() {
			r.ask(3, 300)
			return func() {}
		}},
		{title: "Lagging record", dispatcher: []string{"--audit-bytes", "1048576", "--audit-full", "refuse"},
			make: fillRecord},
		{title: "Lost leader", profile: "standard", make: func(r *rehearsal) func() { return r.kill(1) }},
		{title: "No leader", profile: "standard", make: func(r *rehearsal) func() { return r.kill(2) }},
	}
}

// poison makes a call whose executor is killed whenever it has begun. Another executor takes its place.
func poison(r *rehearsal) func() {
	r.ask(1, 300)
	seen := 0
	return func() {
		begun, _ := os.ReadFile(filepath.Join(r.bus.Tools, "shop_2eask", "begun")) // it is missing before the first run
		if n := strings.Count(string(begun), "\n"); n > seen {
			seen = n
			r.executor.Kill()
			r.execute(1)
		}
	}
}

var serve = flag.String("serve", "", "configuration of the server that TestServer is")

// TestServer is a server that goes on when it cannot write, in a process of TestRehearsal.
func TestServer(t *testing.T) {
	if *serve == "" {
		t.Skip("a process of TestRehearsal")
	}
	signal.Ignore(syscall.SIGXFSZ) // a write beyond the limit returns an error then
	o, err := server.ProcessConfigFile(*serve)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.WaitForShutdown()
}

// unable is the command of a server that goes on when it cannot write.
func unable(r *rehearsal) *exec.Cmd {
	return exec.Command(os.Args[0], "-test.run=^TestServer$", "-serve", r.bus.Conf(0))
}

// fillDisk lets no file of the server grow beyond 2 MiB, as if its disk was full for the call log.
func fillDisk(r *rehearsal) func() {
	size := unix.Rlimit{Cur: 2 << 20, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(r.bus.Servers[0].Cmd.Process.Pid, unix.RLIMIT_FSIZE, &size, nil); err != nil {
		r.Fatal(err)
	}
	large := fmt.Sprintf(`{"seconds":0,"pad":%q}`, strings.Repeat("x", 200<<10))
	return func() { r.askWith(1, large) }
}

// expire starts an executor whose credential cannot be renewed any more soon.
func expire(r *rehearsal) func() {
	file := filepath.Join(r.TempDir(), "late.token")
	processtest.Output(r, r.toolbus, append([]string{"credentials", "issue", "--role", "executor", "--actor",
		"executor://late", "--pool", "default", "--life", "5s", "--for", "10s", "--out", file}, r.access...)...)
	r.process("works for pool", "executor", "--credentials", file)
	return func() {}
}

// ahead is the command of a server whose clock is half a minute ahead.
func ahead(r *rehearsal) *exec.Cmd {
	wall := processtest.NewWall(r)
	wall.Set(30 * time.Second)
	cmd := exec.Command(processtest.BuildWithWall(r, "../..", "github.com/nats-io/nats-server/v2"), "-c", r.bus.Conf(0))
	cmd.Env = wall.Env()
	return cmd
}

// fillRecord uses up what room AUDIT has, which may drop nothing.
func fillRecord(r *rehearsal) func() {
	js := r.jetstream()
	for size := 64 << 10; size > 0; {
		if _, err := js.Publish(r.Context(), subjects.JournalSubject("other", "t"), make([]byte, size)); err != nil {
			size /= 4
		}
	}
	return func() { r.ask(1, 0) }
}

// jetstream connects with the rights of a dispatcher.
func (r *rehearsal) jetstream() jetstream.JetStream {
	r.Helper()
	public, err := r.bus.Keys.Dispatcher.PublicKey()
	if err != nil {
		r.Fatal(err)
	}
	nc, err := nats.Connect(r.bus.URL, nats.Nkey(public, r.bus.Keys.Dispatcher.Sign))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		r.Fatal(err)
	}
	return js
}

// kill kills the server that leads the call log, and n-1 others.
func (r *rehearsal) kill(n int) (again func()) {
	r.Helper()
	stream, err := r.jetstream().Stream(r.Context(), subjects.Partition(0).Stream())
	if err != nil {
		r.Fatal(err)
	}
	var first int
	if _, err := fmt.Sscanf(stream.CachedInfo().Cluster.Leader, "nats-%d", &first); err != nil {
		r.Fatal(err)
	}
	for i := range n {
		r.bus.Servers[(first-1+i)%len(r.bus.Servers)].Kill()
	}
	return func() {}
}
