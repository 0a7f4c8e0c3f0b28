//go:build linux

package process_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
)

// manifest returns the manifest of a tool that is this binary in the role part.
func manifest(part string, args ...string) *tool.Manifest {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return &tool.Manifest{
		ToolID: "test." + part, Semver: "1.2.3", Status: tool.StatusActive, Class: call.Idempotent,
		Transport: process.Transport,
		Endpoint:  process.Endpoint{Command: append([]string{self, "play", part}, args...)},
		Limits: envelope.ToolLimits{
			TimeoutDefaultMS: 60_000, TimeoutMaxMS: 60_000, MemoryMB: 512, Concurrency: 8,
			OutputBytes: 4 << 20, StderrBytes: 8 << 10,
		},
	}
}

func newAdapter(t *testing.T, opts process.Options) *process.Adapter {
	t.Helper()
	a, err := process.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// callOf returns an invocation of fn.
func callOf(fn, input string) tool.Invocation {
	return tool.Invocation{
		CallID: "c", ToolID: "t", ToolVersion: "1.2.3", Fn: fn, Input: jsontext.Value(input), Attempt: 1,
		Deadline: time.Now(),
	}
}

// execute runs a role of this binary to its end.
func execute(t *testing.T, part string, args ...string) (tool.Result, error) {
	t.Helper()
	m := manifest(part, args...)
	m.Dir = t.TempDir()
	return newAdapter(t, process.Options{}).Execute(t.Context(), m, callOf("f", "{}"), &tooltest.Recorder{})
}

// whenStarted is a sink that calls f with the first chunk.
func whenStarted(f func()) *tooltest.Recorder {
	return &tooltest.Recorder{OnEmit: func(tooltest.Emitted) error { f(); return nil }}
}

func TestConformance(t *testing.T) {
	tooltest.Run(t, func(t *testing.T) tooltest.Fixture {
		m := manifest("behave")
		m.Dir = t.TempDir()
		return tooltest.Fixture{Adapter: newAdapter(t, process.Options{}), Manifest: m, Processes: true}
	})
}

// TestEnds checks the error for each way in which a tool ends.
func TestEnds(t *testing.T) {
	const good = `{"type":"output","output":1}` + "\n"
	const luck = `{"type":"error","error":{"code":"no_luck","message":"none"}}` + "\n"
	tests := []struct {
		name, stdout, stderr, status string
		want                         envelope.Code // "" for success
		say                          string        // in the message, cause or stderr
	}{
		{"output", good, "", "0", "", ""},
		{"output without line end", strings.TrimSpace(good), "", "0", "", ""},
		{"nothing", "", "", "0", envelope.CodeToolProtocol, "without an output or error line"},
		{"only a log", `{"type":"log","data":1}` + "\n", "", "0", envelope.CodeToolProtocol,
			"without an output or error line"},
		{"half a line", good[:10], "", "0", envelope.CodeToolProtocol, `within line 1: "{\"type\":\"o"`},
		{"half a line and a crash", good[:10], "trace", "3", envelope.CodeToolFault, "exit status 3"},
		{"garbage", "Hello World\n", "", "0", envelope.CodeToolProtocol,
			`line 1 of standard output is "Hello World": it is not a JSON object`},
		{"two outputs", good + good, "", "0", envelope.CodeToolProtocol,
			`line 2 of standard output is "{\"type\":\"output\",\"output\":1}": it comes after the output line`},
		{"crash", "", "the reason", "3", envelope.CodeToolFault, "the reason"},
		{"crash with a reason", "", "trace\nerror: no room", "3", envelope.CodeToolFault, "no room; exit status 3; trace"},
		{"reason before other lines", "", "error: no room\ntrace", "3", envelope.CodeToolFault,
			"the tool ended without an answer; exit status 3; standard error ends: trace; error: no room"},
		{"output and then a reason", good, "error: no room", "3", envelope.CodeToolFault,
			"the tool wrote its answer and then failed; exit status 3"},
		{"signal", "", "", "kill", envelope.CodeToolFault, "signal: killed"},
		{"output and then a crash", good, "", "3", envelope.CodeToolFault,
			"the tool wrote its answer and then failed; exit status 3"},
		{"output and then a signal", good, "", "kill", envelope.CodeToolFault,
			"the tool wrote its answer and then failed; signal: killed"},
		{"no output and a crash", "", "", "3", envelope.CodeToolFault, "the tool ended without an answer; exit status 3"},
		{"error", luck, "", "0", "S-TOOL-NO_LUCK", "none"},
		{"error and a status", luck, "", "1", "S-TOOL-NO_LUCK", "none"},
		{"absent", `{"type":"absent"}` + "\n", "", "0", envelope.CodeToolProtocol, "absent"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			result, err := execute(t, "say", test.stdout, test.stderr, test.status)
			if test.want == "" {
				if err != nil || string(result.Output) != "1" {
					t.Errorf("%s, %v", result.Output, err)
				}
				return
			}
			got := tool.Classify(manifest("say"), err)
			all := got.Message + "; " + got.Cause + "; " + got.Details.Stderr
			if got.Code != test.want || !strings.Contains(all, test.say) {
				t.Errorf("got %v, cause %q, stderr %q", got, got.Cause, got.Details.Stderr)
			}
			if test.want == envelope.CodeToolProtocol && !strings.Contains(got.Fix, `lines such as {"type":"output"`) {
				t.Errorf("the fix is %q", got.Fix)
			}
		})
	}
}

// TestBounds checks that no tool exceeds its limits, whatever it writes.
func TestBounds(t *testing.T) {
	_, err := execute(t, "flood")
	if e := tool.Classify(manifest(""), err); e.Code != envelope.CodeOutputLimit ||
		!strings.Contains(e.Message, "output, chunks, progress and log, as the tool wrote them, are larger than 4194304 "+
			"bytes") {
		t.Errorf("flooded output: %v", e)
	}
	if _, err := execute(t, "flood-line"); tool.Classify(manifest(""), err).Code != envelope.CodeOutputLimit {
		t.Errorf("an endless line: %v", err)
	}
	_, err = execute(t, "flood-stderr")
	var crash *tool.CrashError
	if !errors.As(err, &crash) {
		t.Fatal(err)
	}
	for _, part := range []string{"the first words", "bytes left out", "the last words"} {
		if !strings.Contains(crash.Stderr, part) {
			t.Errorf("stderr lacks %q", part)
		}
	}
	shown := tool.Classify(manifest(""), err).Details.Stderr
	if len(shown) > 9<<10 || !utf8.ValidString(shown) || strings.ContainsRune(shown, 0x1b) {
		t.Errorf("stderr of %d bytes is not fit to show", len(shown))
	}
}

func TestCloseStdout(t *testing.T) {
	start := time.Now()
	_, err := execute(t, "close-stdout")
	if tool.Classify(manifest(""), err).Code != envelope.CodeToolProtocol {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("a tool that can say nothing any more held on for %v", took)
	}
}

// TestNeverRead checks that a tool that does not read its input does not block the run.
func TestNeverRead(t *testing.T) {
	big := `"` + strings.Repeat("x", 4<<20) + `"`
	a, m := newAdapter(t, process.Options{}), manifest("never-read")
	m.Dir = t.TempDir()
	result, err := a.Execute(t.Context(), m, callOf("f", big), &tooltest.Recorder{})
	if err != nil || string(result.Output) != `"deaf"` {
		t.Errorf("%s, %v", result.Output, err)
	}
	m = manifest("stubborn")
	m.Dir = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err = a.Execute(ctx, m, callOf("f", big), whenStarted(cancel))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestGrace checks what a tool may do between SIGTERM and SIGKILL.
func TestGrace(t *testing.T) {
	tests := map[string]struct {
		grace  time.Duration
		part   string
		args   []string
		effect envelope.Effect // of the error; "" for success
		low    time.Duration   // the least the end may take
	}{
		"ends with an output": {time.Minute, "say-on-term", []string{`{"type":"output","output":1}`}, "", 0},
		"ends with an error": {
			time.Minute, "say-on-term",
			[]string{`{"type":"error","error":{"code":"interrupted","message":"as asked","effect":"none"}}`},
			envelope.EffectNone, 0,
		},
		"ends with garbage": {time.Minute, "say-on-term", []string{`bye`}, envelope.EffectUnknown, 0},
		"does not end":      {300 * time.Millisecond, "stubborn", nil, envelope.EffectUnknown, 300 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a, m := newAdapter(t, process.Options{Grace: test.grace}), manifest(test.part, test.args...)
			m.Dir = t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var start time.Time
			_, err := a.Execute(ctx, m, callOf("f", "{}"), whenStarted(func() { start = time.Now(); cancel() }))
			if took := time.Since(start); took < test.low || took > test.low+20*time.Second {
				t.Errorf("the end took %v", took)
			}
			if test.effect == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if got := tool.ClassifyError(a, m, err); got.Code != envelope.CodeCancelled || got.Details.Effect != test.effect {
				t.Errorf("got %v, effect %s", got, got.Details.Effect)
			}
			var stopped *tool.StoppedError
			if errors.As(err, &stopped) && stopped.Killed != (test.part == "stubborn") {
				t.Errorf("killed %t", stopped.Killed)
			}
		})
	}
}

// TestLastWord checks that the terminal line counts after the sink has stopped taking chunks, and that an output with
// lost chunks does not count as the whole result.
func TestLastWord(t *testing.T) {
	// more than the pipe holds
	chunks := strings.Repeat(`{"type":"chunk","data":"`+strings.Repeat("x", 1000)+`"}`+"\n", 100)
	for word, effect := range map[string]envelope.Effect{
		`{"type":"error","error":{"code":"interrupted","message":"as asked","effect":"none"}}`:    envelope.EffectNone,
		`{"type":"error","error":{"code":"interrupted","message":"as asked","effect":"applied"}}`: envelope.EffectApplied,
		`{"type":"output","output":1}`: envelope.EffectApplied,
	} {
		a, m := newAdapter(t, process.Options{Grace: time.Minute}), manifest("say-on-term", chunks+word)
		m.Dir = t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		sink := &tooltest.Recorder{OnEmit: func(e tooltest.Emitted) error {
			if e.Kind == envelope.ChunkLog { // it has started
				cancel()
				return nil
			}
			return ctx.Err()
		}}
		_, err := a.Execute(ctx, m, callOf("f", "{}"), sink)
		if err == nil {
			t.Errorf("%s: a success without its chunks", word)
			continue
		}
		if got := tool.ClassifyError(a, m, err); got.Code != envelope.CodeCancelled || got.Details.Effect != effect {
			t.Errorf("%s: got %v, effect %s", word, got, got.Details.Effect)
		}
		if n := len(sink.All()); n != 2 {
			t.Errorf("%d chunks were offered", n)
		}
	}
}

// TestTimeoutMax shows that no run outlives the tool's own maximum.
func TestTimeoutMax(t *testing.T) {
	m := manifest("stubborn")
	m.Dir, m.Limits.TimeoutMaxMS = t.TempDir(), 50
	_, err := newAdapter(t, process.Options{}).Execute(t.Context(), m, callOf("f", "{}"), &tooltest.Recorder{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// A program that does not exit is ended at its deadline. The error says whether it had answered.
func TestAnsweredAndStayed(t *testing.T) {
	const output, fault = `{"type":"output","output":1}`, `{"type":"error","error":{"code":"a","message":"b"}}`
	for line, answered := range map[string]bool{output: true, fault: true, `{"type":"log","data":1}`: false} {
		m := manifest("f")
		m.Dir, m.Limits.TimeoutMaxMS = t.TempDir(), 1000
		m.Endpoint = process.Endpoint{Command: []string{"sh", "-c", "echo '" + line + "'; sleep 60"}}
		_, err := newAdapter(t, process.Options{}).Execute(t.Context(), m, callOf("f", "{}"), &tooltest.Recorder{})
		var stopped *tool.StoppedError
		if !errors.As(err, &stopped) || stopped.Answered != answered || stopped.Killed {
			t.Errorf("%s: %+v", line, err)
		}
	}
}

// TestSurroundings checks the environment, working directory and descriptors of a tool.
func TestSurroundings(t *testing.T) {
	leaked, err := syscall.Dup(1) // not close-on-exec, as from careless C code
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leaked)
	a := newAdapter(t, process.Options{Environ: []string{"TOKEN=t", "SECRET=s", "LD_PRELOAD=/evil.so", "PATH=/opt/bin",
		"odd", "TOOLBUS_CREDENTIALS=/etc/toolbus/executor"}})
	m := manifest("status", "a b", "$HOME;*")
	m.Dir = t.TempDir()
	m.Capability.Env = []string{"TOKEN", "LD_PRELOAD", "MISSING", "TOOLBUS_CREDENTIALS"}
	told := m.Endpoint.(process.Endpoint)
	told.Env = map[string]string{"LANG": "de_DE", "OWN": "x=y", "TRACEPARENT": "not of this run"}
	m.Endpoint = told
	inv := callOf("f", "{}")
	inv.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	result, err := a.Execute(t.Context(), m, inv, &tooltest.Recorder{})
	if err != nil {
		t.Fatal(err)
	}
	type status struct {
		Args     []string `json:"args"`
		Env      []string `json:"env"`
		FDs      []string `json:"fds"`
		Dir      string   `json:"dir"`
		Nonblock bool     `json:"nonblock"`
		Leads    bool     `json:"leads"`
		Group    bool     `json:"group"`
		NNP      bool     `json:"unprivileged"`
	}
	var got status
	if err := json.Unmarshal(result.Output, &got); err != nil {
		t.Fatal(err)
	}
	want := status{
		Args: []string{"a b", "$HOME;*"},
		Env: []string{"LANG=de_DE", "OWN=x=y", "PATH=/usr/local/bin:/usr/bin:/bin", "TOKEN=t",
			"TRACEPARENT=" + inv.Traceparent},
		FDs: []string{"0", "1", "2"}, Dir: m.Dir, Leads: true, Group: true, NNP: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("surroundings (-want +got):\n%s", diff)
	}
	if result.Metrics.MemoryPeakMB == 0 {
		t.Error("no memory was measured")
	}
}

// TestDaemonAfterEnd shows that a daemon that a tool leaves, and that holds its output open,
// neither delays the result nor survives it.
func TestDaemonAfterEnd(t *testing.T) {
	witness := tooltest.Witness(t)
	a, m := newAdapter(t, process.Options{}), manifest("linger", witness.Path)
	m.Dir = t.TempDir()
	done := make(chan error, 1)
	go func() {
		_, err := a.Execute(t.Context(), m, callOf("f", "{}"), &tooltest.Recorder{})
		done <- err
	}()
	witness.Alive(t, 1)
	if err := os.WriteFile(witness.Path+".ready", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	witness.Gone(t)
}

// TestExecutorKilled checks that the tools of an executor end when it gets SIGKILL.
func TestExecutorKilled(t *testing.T) {
	witness := tooltest.Witness(t)
	executor := again("executor", witness.Path)
	executor.Stdin, executor.Stdout, executor.Stderr = nil, nil, nil
	if err := executor.Start(); err != nil {
		t.Fatal(err)
	}
	witness.Alive(t, 2)
	if err := executor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = executor.Wait()
	witness.GoneWithin(t, 30*time.Second)
}

// TestForkBomb checks that a run that forks without end, in new sessions and ignoring SIGTERM, ends within a second.
func TestForkBomb(t *testing.T) {
	script := "trap '' TERM\n" +
		"[ $1 -gt 0 ] || exec sleep 1000\n" +
		"while :; do setsid sh $0 $(($1-1)) & setsid sh $0 $(($1-1)) & wait; done\n"
	a, m := newAdapter(t, process.Options{}), manifest("")
	m.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(m.Dir, "bomb.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	mark := filepath.Base(filepath.Dir(m.Dir)) // differs between runs of this test
	m.Endpoint = process.Endpoint{Command: []string{"sh", "bomb.sh", "5"}, Env: map[string]string{"BOMB": mark}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := a.Execute(ctx, m, callOf("f", "{}"), &tooltest.Recorder{})
		done <- err
	}()
	deadline := time.Now().Add(30 * time.Second)
	for range time.Tick(time.Millisecond) {
		if marked(t, "BOMB="+mark) >= 60 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the bomb does not go off")
		}
	}
	watch := timertest.StartStallMeter()
	defer watch.End()
	cancel()
	start := time.Now()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	took := time.Since(start)
	t.Logf("the bomb burnt for %v, of which %v are the grace", took, process.DefaultGrace)
	if took > time.Second+watch.Late() {
		t.Errorf("the bomb burnt for %v", took)
	}
	if n := marked(t, "BOMB="+mark); n > 0 {
		t.Errorf("%d processes are left", n)
	}
}

// marked counts the processes that have a variable in their environment.
func marked(t *testing.T, variable string) int {
	t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range environs {
		raw, err := os.ReadFile(name)
		if err == nil && strings.Contains("\x00"+string(raw), "\x00"+variable+"\x00") {
			n++
		}
	}
	return n
}

// TestOtherRuns lets a tool attack another run of its executor, that run's supervisor, and the executor. If the
// kernel is too old for that, the test checks what package supervisor says that it leaves open.
func TestOtherRuns(t *testing.T) {
	over, pids, ended := filepath.Join(t.TempDir(), "over"), make(chan string, 1), make(chan error, 1)
	m := manifest("victim", over)
	m.Dir = t.TempDir()
	sink := &tooltest.Recorder{OnEmit: func(e tooltest.Emitted) error { pids <- e.Data; return nil }}
	go func() {
		got, err := newAdapter(t, process.Options{}).Execute(t.Context(), m, callOf("f", "{}"), sink)
		if err == nil && string(got.Output) != `"unharmed"` {
			err = fmt.Errorf("it answered %s", got.Output)
		}
		ended <- err
	}()
	var victim, watcher int
	select {
	case said := <-pids:
		if _, err := fmt.Sscanf(said, "[%d,%d]", &victim, &watcher); err != nil {
			t.Fatal(err)
		}
	case err := <-ended:
		t.Fatal(err)
	}
	result, err := execute(t, "attack", fmt.Sprint(victim), fmt.Sprint(watcher), fmt.Sprint(os.Getpid()))
	var got attacked
	if err != nil || json.Unmarshal(result.Output, &got) != nil {
		t.Fatalf("the attack: %s, %v", result.Output, err)
	}
	t.Logf("runs on this kernel have the reach %q", got.Reach)
	var signals []string
	for _, pid := range []int{victim, watcher, os.Getpid()} {
		signals = append(signals, fmt.Sprint("signal of ", pid))
	}
	slices.Sort(signals)
	switch {
	case got.Reach == supervisor.ReachOwn && len(got.Done) > 0,
		got.Reach == supervisor.ReachSignals && !slices.Equal(got.Done, signals):
		t.Errorf("reach %q, and a tool could do %q", got.Reach, got.Done)
	case got.Reach == supervisor.ReachAll && !slices.Contains(got.Done, fmt.Sprint("environ of ", victim)):
		t.Errorf("without Landlock, a tool could do only %q", got.Done)
	}
	if err := os.WriteFile(over, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the attacked run: %v", err)
	}
}

// TestKillSupervisor shows that a program that kills its own supervisor dies with it.
func TestKillSupervisor(t *testing.T) {
	_, err := execute(t, "kill-parent")
	var crash *tool.CrashError
	if !errors.As(err, &crash) || !strings.Contains(crash.How, "supervisor") {
		t.Errorf("got %v", err)
	}
}

// A signal from another process, such as a service manager, is a crash of the tool, so that the call may run again. It
// does not count as a breach of the protocol.
func TestForeignSignal(t *testing.T) {
	for name, kill := range map[string]string{
		"to the tool": "kill -TERM $$; sleep 30", "to the supervisor": "kill -TERM $PPID; sleep 30",
		"to both": "kill -TERM $PPID $$; sleep 30",
	} {
		for range 20 {
			m := manifest("f")
			m.Dir, m.Endpoint = t.TempDir(), process.Endpoint{Command: []string{"sh", "-c", kill}}
			_, err := newAdapter(t, process.Options{}).Execute(t.Context(), m, callOf("f", "{}"), &tooltest.Recorder{})
			var crash *tool.CrashError
			if !errors.As(err, &crash) || !strings.HasPrefix(crash.How, "signal: ") {
				t.Fatalf("%s: got %v", name, err)
			}
		}
	}
}

// TestStoppedSupervisor: a tool that stops its supervisor is ended like any other.
func TestStoppedSupervisor(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := manifest("stop-parent")
	m.Dir = t.TempDir()
	_, err := newAdapter(t, process.Options{}).Execute(ctx, m, callOf("f", "{}"), whenStarted(cancel))
	var stopped *tool.StoppedError
	if !errors.As(err, &stopped) {
		t.Errorf("got %v", err)
	}
}

// TestNotStarted checks the error of a tool that cannot be started.
func TestNotStarted(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"data": 0o644, "noise": 0o755} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("\x00\x01\x02"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte("import sys\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	a := newAdapter(t, process.Options{})
	command := func(argv ...string) func(*tool.Manifest) {
		return func(m *tool.Manifest) { m.Endpoint = process.Endpoint{Command: argv} }
	}
	tests := map[string]struct {
		change   func(*tool.Manifest)
		say      string
		validate bool // Validate sees it too
	}{
		"no such file":    {command("./missing"), "no such file", true},
		"not executable":  {command("./data"), "not an executable file: chmod +x", true},
		"without #!":      {command("./script"), "script has no #! line", true},
		"a folder":        {command(dir), "not an executable file", true},
		"not on the PATH": {command("no-such-program"), "no-such-program is not in", true},
		"an odd PATH": {func(m *tool.Manifest) {
			m.Endpoint = process.Endpoint{Env: map[string]string{"PATH": ".:"}, Command: []string{"sh"}}
		}, "is not in", true},
		"no command":         {command(), "no command", true},
		"no folder":          {func(m *tool.Manifest) { m.Dir = "" }, "no folder", true},
		"another transport":  {func(m *tool.Manifest) { m.Transport = native.Transport }, "no process tool", true},
		"not a program":      {command("./noise"), "exec format error", false},
		"too large for exec": {command("sh", strings.Repeat("x", 1<<20)), "argument list too long", false},
		"too large at all":   {command("sh", strings.Repeat("x", 5<<20)), "larger than", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := manifest("say", "", "", "0")
			m.Dir = dir
			m.Class = call.SideEffectful
			test.change(m)
			if err := a.Validate(m); (err != nil) != test.validate {
				t.Errorf("Validate: %v", err)
			}
			_, err := a.Execute(t.Context(), m, callOf("f", "{}"), &tooltest.Recorder{})
			got := tool.ClassifyError(a, m, err)
			if got.Code != envelope.CodeUnavailable || got.Details.Effect != envelope.EffectNone ||
				!strings.Contains(got.Cause, test.say) {
				t.Errorf("got %v, effect %s, cause %q", got, got.Details.Effect, got.Cause)
			}
		})
	}
}

// folder is a tool's folder on disk, with the tool that was loaded from it.
type folder struct {
	*testing.T
	dir     string
	adapter *process.Adapter
	tool    *tool.Manifest
}

// load writes a folder with these files and loads the tool, whose command is a list in YAML.
func load(t *testing.T, command string, files map[string]string) *folder {
	t.Helper()
	dir := t.TempDir()
	f := &folder{T: t, dir: filepath.Join(dir, "t"), adapter: newAdapter(t, process.Options{})}
	if err := os.Mkdir(f.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f.write("any.json", "{}")
	f.write("tool.yaml", `{tool_id: t, semver: 1.0.0, owner: "@test", title: T, description: d, status: active,
  determinism: pure, transport: process, endpoint: {command: `+command+`},
  functions: {f: {description: d, request: any.json, response: any.json}},
  limits: {timeout_ms_default: 20000, timeout_ms_max: 20000}}`)
	for name, content := range files {
		f.write(name, content)
	}
	tools, err := tool.Load(dir, process.Describe())
	if err != nil {
		t.Fatal(err)
	}
	f.tool = tools.List()[0]
	return f
}

func (f *folder) write(name, content string) {
	f.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(f.dir, name)), 0o755); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(content), 0o755); err != nil {
		f.Fatal(err)
	}
}

// ends runs the tool and checks the cause of its error, or that it succeeds.
func (f *folder) ends(want string) {
	f.Helper()
	got := "success"
	if _, err := f.adapter.Execute(f.Context(), f.tool, callOf("f", "{}"), &tooltest.Recorder{}); err != nil {
		got = tool.ClassifyError(f.adapter, f.tool, err).Cause
	}
	if !strings.Contains(got, want) {
		f.Errorf("it ends with %q, want %q", got, want)
	}
}

// TestChanged checks that only the loaded program is run, because the recorded digest is of that.
func TestChanged(t *testing.T) {
	const script = "echo '{\"type\":\"output\",\"output\":1}'\n"
	f := load(t, "[sh, ./main.sh]", map[string]string{"main.sh": script})
	f.ends("success")
	f.write("main.sh", script+"# changed\n")
	f.ends("main.sh: has changed since it was loaded")
	_, err := f.adapter.Execute(f.Context(), f.tool, callOf("f", "{}"), &tooltest.Recorder{})
	if e := tool.ClassifyError(f.adapter, f.tool, err); !strings.Contains(e.Fix, "call again with a new key") {
		t.Errorf("fix: %s", e.Fix)
	}
	if err := os.Remove(filepath.Join(f.dir, "main.sh")); err != nil {
		t.Fatal(err)
	}
	f.ends("no such file")
	if err := syscall.Mkfifo(filepath.Join(f.dir, "main.sh"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.ends("not a regular file")
	if err := os.Remove(filepath.Join(f.dir, "main.sh")); err != nil {
		t.Fatal(err)
	}
	f.write("main.sh", script) // the same again
	f.ends("success")
}

// A file that an argument names is part of the build with and without ./, and no other argument is.
func TestChangedArgument(t *testing.T) {
	const script = "echo '{\"type\":\"output\",\"output\":1}'\n"
	f := load(t, "[sh, lib/main.sh, missing.txt, lib, -x, ../t/other]",
		map[string]string{"lib/main.sh": script, "other": "a"})
	f.ends("success")
	f.write("other", "b")
	f.write("missing.txt", "now there")
	f.ends("success")
	f.write("lib/main.sh", script+"# changed\n")
	f.ends("lib/main.sh: has changed since it was loaded")
}

// TestReplaced checks that a program is not run under the digest of another one that had its size and modification time
// before, be it written into the same file or moved to its path.
func TestReplaced(t *testing.T) {
	const script = "#!/bin/sh\necho '{\"type\":\"output\",\"output\":1}'\n"
	for name, program := range map[string]string{"script": script, "binary": read(t, "/bin/echo")} {
		t.Run(name, func(t *testing.T) {
			f := load(t, `[./main, '{"type":"output","output":1}']`, map[string]string{"main": program})
			at := filepath.Join(f.dir, "main")
			f.ends("success")
			before, err := os.Stat(at)
			if err != nil {
				t.Fatal(err)
			}
			restore := func() {
				t.Helper()
				if err := os.Chtimes(at, time.Time{}, before.ModTime()); err != nil {
					t.Fatal(err)
				}
			}
			last := len(program) - 1
			other := program[:last] + string([]byte{program[last] ^ 1})
			for later := false; !later; { // before Linux 6.13, change times are milliseconds apart
				f.write("main", other)
				restore()
				now, err := os.Stat(at)
				if err != nil {
					t.Fatal(err)
				}
				later = supervisor.ChangeTime(now).After(supervisor.ChangeTime(before))
			}
			f.ends("main: has changed since it was loaded")
			f.write("main", program)
			restore()
			f.ends("success")
			f.write("new", other)
			if err := os.Rename(filepath.Join(f.dir, "new"), at); err != nil {
				t.Fatal(err)
			}
			restore()
			f.ends("main: has changed since it was loaded")
		})
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestDescriptor checks that the file that was opened is executed, whatever is at its path by then.
func TestDescriptor(t *testing.T) {
	f := load(t, `[./main, '{"type":"output","output":1}']`, map[string]string{"main": read(t, "/bin/echo")})
	program, err := f.tool.OpenProgram()
	if err != nil || program == nil {
		t.Fatalf("opened %v, %v", program, err)
	}
	defer program.Close()
	at := filepath.Join(f.dir, "main")
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	f.write("main", "#!/bin/sh\necho another program\n")
	watcher, err := supervisor.Find("")
	if err != nil {
		t.Fatal(err)
	}
	run, err := supervisor.Start(watcher, supervisor.Config{
		Path: at, Args: []string{"main", "the opened program"}, Dir: f.dir, Program: program,
	}, strings.NewReader(""), 1000)
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(run.Stdout)
	if err != nil || string(said) != "the opened program\n" {
		t.Errorf("it says %q, %v", said, err)
	}
	if report, err := run.Wait(); err != nil || report.Failure != "" {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestSupervisors checks which programs New accepts as supervisors, and its errors for others.
func TestSupervisors(t *testing.T) {
	truth, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	for program, say := range map[string]string{truth: "without a report",
		filepath.Join(t.TempDir(), "none"): "no such file"} {
		if _, err := process.New(process.Options{Supervisor: program}); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", program, err)
		}
	}
	a, m := newAdapter(t, process.Options{Supervisor: smallSupervisor(t)}), manifest("never-read")
	m.Dir = t.TempDir()
	if _, err := a.Execute(t.Context(), m, callOf("f", "{}"), &tooltest.Recorder{}); err != nil {
		t.Errorf("small supervisor: %v", err)
	}
}

// TestHookMissing checks that a binary that is started as a supervisor, but does not call SupervisorMain, does not
// start further supervisors.
func TestHookMissing(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: self, Args: []string{supervisor.Name, "play", "executor", "nowhere"}}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "SupervisorMain first") {
		t.Errorf("%v: %s", err, out)
	}
}

func ExampleNew() {
	// In main, before anything else: supervisor.SupervisorMain()
	adapter, err := process.New(process.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	m := &tool.Manifest{
		ToolID: "hello", Transport: process.Transport, Dir: "/",
		Endpoint: process.Endpoint{Command: []string{"echo", `{"type":"output","output":"hello"}`}},
		Limits:   envelope.ToolLimits{TimeoutMaxMS: 60_000, OutputBytes: 1 << 20, StderrBytes: 1 << 10},
	}
	result, err := adapter.Execute(context.Background(), m, tool.Invocation{Input: jsontext.Value(`{}`)},
		&tooltest.Recorder{})
	fmt.Println(string(result.Output), err)
	// Output: "hello" <nil>
}
