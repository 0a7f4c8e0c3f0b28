package cli_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

func TestMain(m *testing.M) {
	supervisor.SupervisorMain()
	if len(os.Args) == 2 && os.Args[1] == "stubborn" {
		stubborn()
		return
	}
	goleak.VerifyTestMain(m)
}

type command = func(cli.Env, func() (cli.Access, error)) *cobra.Command

// Only a process with a dispatcher has the flags for the retention of audit records.
func TestRunOfWrongRetention(t *testing.T) {
	for flag, says := range map[string]string{
		"--audit-age=1s": "1m or more", "--denied-age=-1m": "1m or more", "--audit-bytes=1": "1048576 or more",
		"--denied-bytes=-1": "1048576 or more", "--audit-full=ask": "forget or refuse",
	} {
		var out bytes.Buffer
		code := cli.Run(t.Context(), cli.Env{Stdout: &out, Stderr: &out}, cli.Dispatcher, []string{flag})
		if code != 2 || !strings.Contains(out.String(), says) {
			t.Errorf("%s: exit code %d, and it says %q, want %q", flag, code, &out, says)
		}
	}
}

var commands = map[string]command{"dispatcher": cli.Dispatcher, "executor": cli.Executor}

// with returns the arguments of a command of commands: a dispatcher of these tests has no secrets.
func with(name string, args ...string) []string {
	if name == "dispatcher" {
		args = append(args, "--insecure-no-auth")
	}
	return args
}

// A dispatcher starts with secrets or with --insecure-no-auth, and says how to get the first. It connects to no server
// before.
func TestDispatcherNeedsSecrets(t *testing.T) {
	for says, args := range map[string][]string{
		"toolbus keys init": nil,
		"contradicts":       {"--insecure-no-auth", "--secrets-dir", t.TempDir()},
	} {
		var out bytes.Buffer
		code := cli.Run(t.Context(), cli.Env{Stdout: &out, Stderr: &out, URL: "nats://127.0.0.1:1"}, cli.Dispatcher,
			append(args, "--tools", t.TempDir()))
		if code != 2 || !strings.Contains(out.String(), says) {
			t.Errorf("exit code %d, and it says %q, want %q", code, &out, says)
		}
	}
}

func TestRunOfWrongCommandLines(t *testing.T) {
	nobody := "nats://127.0.0.1:1"
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"flag", []string{"--nope"}, 2, "unknown flag: --nope"},
		{"argument", []string{"extra"}, 2, "expected no arguments, got 1"},
		{"duration", []string{"--lease", "soon"}, 2, "invalid argument"},
		{"lease", []string{"--lease", "0", "--tools", t.TempDir()}, 2, "100ms or more"},
		{"replicas", []string{"--replicas", "6", "--tools", t.TempDir()}, 2, "1 to 5"},
		{"tools", []string{"--tools", "nowhere"}, 1, "nowhere"},
		{"server", []string{"--tools", t.TempDir(), "--server", nobody}, 1, nobody},
		{"no server", []string{"--tools", t.TempDir(), "--server", ""}, 2, "--server is empty"},
		{"version", []string{"--version"}, 0, cli.Version()},
		{"help", []string{"--help"}, 0, "--ready-file"},
	} {
		for name, command := range commands {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				var out bytes.Buffer
				code := cli.Run(t.Context(), cli.Env{Stdout: &out, Stderr: &out}, command, with(name, c.args...))
				if code != c.code || !strings.Contains(out.String(), c.says) {
					t.Errorf("exit code %d, want %d; it says %q, want %q", code, c.code, &out, c.says)
				}
			})
		}
	}
}

// TestRunServes runs both programs against a server whose address comes from the environment, until they are stopped.
// They say where their metrics are, or warn once that nobody sees them.
func TestRunServes(t *testing.T) {
	srv := natstest.Start(t)
	dispatch(t, srv.URL)
	for name := range commands {
		t.Run(name, func(t *testing.T) {
			if said := serves(t, cli.Env{URL: srv.URL}, name); strings.Count(said, "no metrics leave this process") != 1 {
				t.Error(said)
			}
			for _, event := range []string{"started", "stopped"} {
				_, line, _ := strings.Cut(serves(t, cli.Env{URL: srv.URL}, name), `"msg":"`+event+`"`)
				line, _, _ = strings.Cut(line, "\n")
				if !strings.Contains(line, `"version":"`+toolbus.Version+`"`) || !strings.Contains(line, `"instance":"`) {
					t.Errorf("%s: %s", event, line)
				}
			}
			said := serves(t, cli.Env{URL: srv.URL}, name, "--http-listen", "127.0.0.1:0")
			if !strings.Contains(said, "metrics: http://127.0.0.1:") || strings.Contains(said, "no metrics leave") {
				t.Error(said)
			}
		})
	}
}

// serves runs a program until it serves, and returns what it prints.
func serves(t *testing.T, env cli.Env, name string, flags ...string) string {
	t.Helper()
	return servesUntil(t, env, name, func() bool { return true }, flags...)
}

// servesUntil runs a program until it serves and something is so, and returns what it prints.
func servesUntil(t *testing.T, env cli.Env, name string, isSo func() bool, flags ...string) string {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &buffer{}
	env.Stdout, env.Stderr = out, out
	code := make(chan int, 1)
	go func() { // waited for below
		code <- cli.Run(ctx, env, commands[name],
			with(name, append(flags, "--tools", t.TempDir(), "--ready-file", ready)...))
	}()
	await(t, out, func() bool {
		at, err := os.ReadFile(ready)
		return err == nil && strings.TrimSpace(string(at)) == env.URL
	})
	await(t, out, func() bool { return strings.Contains(out.String(), env.URL) })
	await(t, out, isSo)
	stop()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d: %s", got, out)
	}
	return out.String()
}

// systemd learns once when a process serves, and then again and again that it lives. A process that cannot say that it
// serves ends, because systemd would wait.
func TestTellsSystemd(t *testing.T) {
	srv := natstest.Start(t)
	dispatch(t, srv.URL)
	for name, command := range commands {
		socket := filepath.Join(t.TempDir(), "notify")
		manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		env := cli.Env{URL: srv.URL, Environ: []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=2000"}}
		heard, lives := make(chan map[string]int), atomic.Bool{}
		go func() { heard <- hear(manager, &lives) }()
		servesUntil(t, env, name, lives.Load)
		if last, err := net.Dial("unixgram", socket); err != nil {
			t.Fatal(err)
		} else if _, err = last.Write([]byte("END")); err != nil || last.Close() != nil {
			t.Fatal(err)
		}
		if n := <-heard; n["READY=1"] != 1 || n["WATCHDOG=1"] == 0 || len(n) != 2 {
			t.Errorf("%s says %v", name, n)
		}
		if err := manager.Close(); err != nil {
			t.Error(err)
		}
		var out bytes.Buffer
		env.Stdout, env.Stderr = &out, &out
		if code := cli.Run(t.Context(), env, command, with(name, "--tools", t.TempDir())); code != 1 ||
			!strings.Contains(out.String(), "systemd: ") {
			t.Errorf("%s: exit code %d: %s", name, code, &out)
		}
	}
}

// hear counts what a service manager is told before END. It sets lives when it hears a sign of life.
func hear(manager net.Conn, lives *atomic.Bool) map[string]int {
	heard, room := map[string]int{}, make([]byte, 100)
	for {
		n, err := manager.Read(room)
		if err != nil || string(room[:n]) == "END" {
			return heard
		}
		heard[string(room[:n])]++
		lives.Store(heard["WATCHDOG=1"] > 0)
	}
}

// dispatch runs a dispatcher until the test ends: executors serve once one has answered them.
func dispatch(t *testing.T, url string) {
	t.Helper()
	conn, err := toolbus.Connect(t.Context(), url, toolbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := conn.Dispatcher(toolbus.NewToolset(), toolbus.DispatcherOptions{InsecureNoAuth: true, AllowAll: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }() // waited for below
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		conn.Close()
	})
}

// A dispatcher that starts on a bus without a policy warns once that it refuses every call.
func TestNoPolicyIsWarnedOf(t *testing.T) {
	srv := natstest.Start(t)
	const warning = "the bus has no policy"
	if said := serves(t, cli.Env{URL: srv.URL}, "dispatcher"); strings.Count(said, warning) != 1 {
		t.Error(said)
	}
	dispatch(t, srv.URL)
	serves(t, cli.Env{URL: srv.URL}, "executor") // now that dispatcher serves, with a policy
	if said := serves(t, cli.Env{URL: srv.URL}, "dispatcher"); strings.Contains(said, warning) {
		t.Errorf("with a policy: %s", said)
	}
}

// A process that cannot write its ready file ends, because a process that waits for the file would wait forever. The
// ready file of an earlier process is removed before the process serves.
func TestReadyFile(t *testing.T) {
	srv := natstest.Start(t)
	dispatch(t, srv.URL)
	for name, command := range commands {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			code := cli.Run(t.Context(), cli.Env{Stdout: &out, Stderr: &out, URL: srv.URL}, command,
				with(name, "--tools", t.TempDir(), "--ready-file", filepath.Join(t.TempDir(), "none", "ready")))
			if code != 1 || !strings.Contains(out.String(), "ready file") || strings.Contains(out.String(), srv.URL) {
				t.Errorf("exit code %d: %s", code, &out)
			}
			stale := filepath.Join(t.TempDir(), "ready")
			if err := os.WriteFile(stale, []byte("nats://127.0.0.1:1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			code = cli.Run(t.Context(), cli.Env{Stdout: &out, Stderr: &out}, command,
				with(name, "--tools", t.TempDir(), "--ready-file", stale, "--server", "nats://127.0.0.1:1"))
			if _, err := os.Stat(stale); code != 1 || !os.IsNotExist(err) {
				t.Errorf("exit code %d, stale file: %v", code, err)
			}
		})
	}
}

// A process that is stopped before it serves exits with 0.
func TestStopBeforeServing(t *testing.T) {
	srv := natstest.Start(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for name, command := range commands {
		var out bytes.Buffer
		if code := cli.Run(ctx, cli.Env{Stdout: &out, Stderr: &out, URL: srv.URL}, command,
			with(name, "--tools", t.TempDir())); code != 0 || out.Len() > 0 {
			t.Errorf("%s: exit code %d: %s", name, code, &out)
		}
	}
}

// await polls until ok, for a limited time.
func await(t *testing.T, out *buffer, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 6000 {
		if ok() {
			return
		}
		<-tick.C
	}
	t.Fatalf("it does not serve: %s", out)
}

// buffer may be written while it is read.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func TestOptions(t *testing.T) {
	n := &cli.Node{}
	cmd := &cobra.Command{}
	n.Flags(cmd)
	if err := cmd.ParseFlags([]string{"--lease", "3s", "--clock-skew", "1h", "-v", "--log-sample", "0.25",
		"--otlp-endpoint", "http://127.0.0.1:1/v1/traces"}); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	o, signals, err := n.Options(t.Context(), "test", cli.Env{Stderr: &stderr})
	if err != nil {
		t.Fatal(err)
	}
	signals.End(t.Context())
	if o.Name != "test" || o.Topology.Lease != 3*time.Second || o.Skew != time.Hour ||
		o.LogSample != 0.25 || o.TracerProvider == nil {
		t.Errorf("the options are not those of the flags: %+v", o)
	}
	if o.Logger.Debug("seen"); !strings.Contains(stderr.String(), "seen") {
		t.Error("-v does not log everything")
	}
}

func TestWriteReady(t *testing.T) {
	if err := cli.WriteReady("", "nats://bus"); err != nil {
		t.Errorf("nobody waits: %v", err)
	}
	dir := t.TempDir()
	if err := cli.WriteReady(filepath.Join(dir, "no", "folder"), "nats://bus"); err == nil {
		t.Error("a file that cannot be written is no error")
	}
	if err := cli.WriteReady(dir, "nats://bus"); err == nil {
		t.Error("a file that is a folder is no error")
	}
	file := filepath.Join(dir, "ready")
	if err := cli.WriteReady(file, "nats://me:hidden@bus:4222"); err != nil {
		t.Fatal(err)
	}
	if said, err := os.ReadFile(file); err != nil || string(said) != "nats://me:xxxxx@bus:4222\n" {
		t.Errorf("the file, which everybody may read, holds %q: %v", said, err)
	}
}
