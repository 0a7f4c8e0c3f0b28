package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
)

// Stored calls survive starts with and without tokens, in any order. Without credentials or the user's configuration, a
// client can connect only to an open bus.
func TestDevOpen(t *testing.T) {
	state, home := t.TempDir(), t.TempDir()
	for i, flags := range [][]string{{"--insecure-no-auth"}, nil, {"--insecure-no-auth"}, nil} {
		s, stop, _ := startDevAt(t, home, state, "0", flags...)
		code, _, stderr := s.do("call", "play", "--input", `{"say":"once"}`, "--key", "dev-test-0123456789abcdef")
		if code != 0 || strings.Contains(stderr, "replayed") != (i > 0) {
			t.Errorf("start %d: exit %d: %s", i, code, stderr)
		}
		conn, err := toolbus.Connect(t.Context(), s.url, toolbus.Options{})
		if open := len(flags) > 0; (err == nil) != open {
			t.Errorf("start %d: %v", i, err)
		}
		if conn != nil {
			conn.Close()
		}
		stop()
	}
}

// Dev prints a line for each call that failed or was refused, and none for a success.
func TestDevFailedCalls(t *testing.T) {
	s, stop, said := startDevAt(t, t.TempDir(), t.TempDir(), "0")
	s.must("call", "play", "--input", `{"say":"good"}`, "--key", "dev-test-0123456789abcdef")
	for _, input := range []string{`{"fail":"terminal"}`, `{"sya":"x"}`} {
		if code, _, stderr := s.do("call", "play", "--input", input, "--attempts", "1"); code == 0 {
			t.Error(stderr)
		}
	}
	stop()
	const line = "a call failed"
	if n := strings.Count(said.String(), line); n != 2 || !strings.Contains(said.String(), `"ref":"play.`) ||
		!strings.Contains(said.String(), `"error.code":"I-REQ-`) || strings.Contains(said.String(), "ended") {
		t.Errorf("%d lines: %s", n, said)
	}
}

// Further executors of the user join the bus without configuration, also for other pools.
func TestDevFurtherExecutors(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	tools := t.TempDir()
	for _, pool := range []string{"default", "other"} {
		works := make(chan struct{})
		said := &until{text: "works for pool " + pool, then: sync.OnceFunc(func() { close(works) })}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		ended := make(chan int, 1)
		go func() {
			env := environment{stdin: strings.NewReader(""), stdout: said, stderr: said, url: s.url, home: s.home}
			ended <- run(ctx, env, []string{"executor", "--pool", pool, "--tools", tools})
		}()
		select {
		case <-works:
			cancel()
			if code := <-ended; code != 0 {
				t.Errorf("%s: exit %d: %s", pool, code, said)
			}
		case code := <-ended:
			t.Errorf("%s: exit %d: %s", pool, code, said)
		}
		cancel()
	}
}

// A client that connects as soon as the bus of `toolbus dev` accepts connections is authenticated. The bus does not
// reject earlier ones.
func TestDevOpensWhenReady(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close() // dev listens there
	home := t.TempDir()
	type answer struct {
		code   int
		stderr string
	}
	answers := make(chan answer, 1)
	go func() {
		for !greeted(at) {
			select {
			case <-t.Context().Done():
				return
			case <-time.After(time.Millisecond):
			}
		}
		s := shell{t: t, url: "nats://" + at, home: home}
		code, _, stderr := s.do("tools", "list")
		answers <- answer{code, stderr}
	}()
	_, stop, said := startDevAt(t, home, t.TempDir(), strings.TrimPrefix(at, "127.0.0.1:"))
	if got := <-answers; got.code != 0 {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	stop()
	if strings.Contains(said.String(), "auth") || strings.Contains(said.String(), `"level":"error"`) {
		t.Errorf("dev said %s", said)
	}
}

// greeted reports whether a NATS server listens at the address. Another process may have listened there for a moment.
func greeted(at string) bool {
	conn, err := net.Dial("tcp", at)
	if err != nil {
		return false
	}
	defer conn.Close()
	info := make([]byte, 4)
	_, err = io.ReadFull(conn, info)
	return err == nil && string(info) == "INFO"
}

// The example tools need neither a clone nor a build: this program is each of them.
func TestDevExamples(t *testing.T) {
	state := t.TempDir()
	s, _, _ := startDevAt(t, t.TempDir(), state, "0", "--examples")
	for _, call := range [][2]string{
		{"fs.write", `{"path":"note.txt","content":"hello"}`},
		{"text.search", `{"pattern":"tool_id"}`},
		{"transcript.clean", `{"text":"[00:01] Anna: So, um, the the plan."}`},
	} {
		if code, _, stderr := s.do("call", call[0], "--input", call[1]); code != 0 {
			t.Errorf("%s: exit %d: %s", call[0], code, stderr)
		}
	}
	if code, _, stderr := s.do("call", "web.fetch", "--input", `{"url":"http://127.0.0.1/"}`); code != 11 ||
		!strings.Contains(stderr, "P-PRECOND-NOT_FETCHABLE") {
		t.Errorf("web.fetch: exit %d: %s", code, stderr)
	}
	written, err := os.ReadFile(filepath.Join(state, "examples", "fs_2ewrite", "data", "note.txt"))
	if err != nil || string(written) != "hello" {
		t.Errorf("fs.write has written %q, %v", written, err)
	}
}

// Without --data-dir, the examples lie below the state folder of the user, and not in the folder of the command.
func TestDevExamplesAtHome(t *testing.T) {
	home := t.TempDir()
	s, _, _ := startDevOf(t, "", home, "--examples", "--port", "0")
	s.must("call", "fs.write", "--input", `{"path":"note.txt","content":"hello"}`)
	state := filepath.Join(home, ".local", "state", "toolbus")
	for _, at := range []string{"examples", "latest"} {
		if _, err := os.Stat(filepath.Join(state, at, "examples", "fs_2ewrite", "data", "note.txt")); err != nil {
			t.Error(err)
		}
	}
}

// Without a folder of tools, `toolbus dev` names the ways to have one. It does not start with a folder of one tool,
// or without any.
func TestDevWithoutTools(t *testing.T) {
	none, s := filepath.Join(t.TempDir(), "none"), shell{t: t}
	code, _, stderr := s.do("dev", "--data-dir", t.TempDir(), "--tools", none)
	if code != 1 || !strings.Contains(stderr, "--tools") || !strings.Contains(stderr, "--examples") ||
		!strings.Contains(stderr, "`toolbus tools new NAME --lang python`") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if code, _, stderr := s.do("dev", "--data-dir", t.TempDir(), "--tools", none, "--examples"); code != 2 {
		t.Errorf("two folders: exit %d: %s", code, stderr)
	}
	if code, _, stderr := s.do("dev", "tool", "none"); code != 1 || !strings.Contains(stderr, "unknown program") {
		t.Errorf("an unknown program: exit %d: %s", code, stderr)
	}
	tools, _ := sayTools(t)
	for folder, says := range map[string]string{
		filepath.Join(tools, "say"): "is the folder of one tool: name the folder that contains it, `toolbus dev --tools " +
			tools + "`",
		t.TempDir(): "contains no tool: each one is a folder with a tool.yaml",
	} {
		code, _, stderr := s.do("dev", "--data-dir", t.TempDir(), "--port", "0", "--tools", folder)
		if code != 1 || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit %d: %s", folder, code, stderr)
		}
	}
}

// The bus of `toolbus dev` has a policy that allows all tools of the folder. What an operator pushes instead is still
// in force after a restart.
func TestDevPolicy(t *testing.T) {
	state := t.TempDir()
	s, stop := startDev(t, state)
	if said := s.must("policy", "show"); !strings.Contains(said, "tool_name: \"play\"") {
		t.Errorf("at the first start: %s", said)
	}
	call := []string{"call", "play", "--input", `{"say":"hi"}`}
	s.must(call...)
	s.allowAs("agent", "night")
	s.must(call...) // in the only lane that allows it
	if code, _, stderr := s.do(append(call, "--lane", "default")...); code != exitTerminal ||
		!strings.Contains(stderr, "A-AUTH-LANE") {
		t.Errorf("after the push: exit %d: %s", code, stderr)
	}
	stop()
	s, _ = startDev(t, state)
	s.must(append(call, "--lane", "night")...)
	if said := s.must("policy", "show"); !strings.Contains(said, "night") {
		t.Errorf("after a restart: %s", said)
	}
}

// The bus says at its start which policy is in force, and what that hides. A reset allows all tools again, also those
// that come later.
func TestDevPolicyReset(t *testing.T) {
	state, home := t.TempDir(), t.TempDir()
	tools, _ := sayTools(t)
	flags := []string{"--data-dir", state, "--port", "0"}
	s, stop, said := startDevOf(t, tools, home, flags...)
	s.must("policy", "push", emptySet(t), "--reason", "nothing for now")
	if code, _, stderr := s.do("call", "say"); code == 0 {
		t.Errorf("the empty policy allows say: %s", stderr)
	}
	stop()
	if !strings.Contains(said.String(), "policy: all tools are allowed") {
		t.Errorf("at the first start dev said %s", said)
	}
	s, stop, said = startDevOf(t, tools, home, flags...)
	if out := s.must("policy", "reset"); !strings.Contains(out, "is in force") {
		t.Errorf("the reset says %s", out)
	}
	s.must("call", "say")
	if out := s.must("policy", "history"); !strings.Contains(out, resetReason) {
		t.Errorf("the history is %s", out)
	}
	stop()
	for _, want := range []string{"(nothing for now)", "hides 1 of 1 tools", ": say\n", "toolbus policy reset"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("after the push dev said %s, want %q", said, want)
		}
	}
	if err := os.CopyFS(filepath.Join(tools, "play"), os.DirFS(filepath.Join(playTools(t), "play"))); err != nil {
		t.Fatal(err)
	}
	s, stop, said = startDevOf(t, tools, home, flags...)
	s.must("call", "play", "--input", `{"say":"hi"}`)
	if out := s.must("policy", "reset"); !strings.Contains(out, "nothing is pushed") {
		t.Errorf("the second reset says %s", out)
	}
	stop()
	if !strings.Contains(said.String(), "policy: all tools are allowed") {
		t.Errorf("after the reset dev said %s", said)
	}
}

// emptySet writes a policy set that allows nothing.
func emptySet(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"policy/roles.yaml": "roles: [{role_id: agent, allowed_lanes: [default]}]\n",
		"policy/lanes.yaml": "lanes: [{lane_id: default, allowed_tools: []}]\n", "tools/tool_registry.yaml": "tools: []\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Each folder of tools has a state of its own, by whatever name it is given, and latest is that of the last start.
func TestDevStates(t *testing.T) {
	home := t.TempDir()
	one, _ := sayTools(t)
	two := playTools(t)
	s, stop, _ := startDevOf(t, one, home, "--port", "0")
	s.must("policy", "push", emptySet(t))
	s.must("doctor", "--secrets-dir", s.keys)
	stop()
	s, stop, _ = startDevOf(t, two, home, "--port", "0")
	s.must("call", "play", "--input", `{"say":"hi"}`)
	// A terminal that exports the credentials of the agent, as the README says, still has the commands of operators.
	s.credentials = filepath.Join(home, ".local", "state", "toolbus", "latest", "credentials", "agent")
	s.must("call", "play", "--input", `{"say":"hi"}`)
	s.must("policy", "show")
	s.must("audit", "replay")
	stop()
	link := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(one, link); err != nil {
		t.Fatal(err)
	}
	s, _, _ = startDevOf(t, link, home, "--port", "0")
	if code, _, stderr := s.do("call", "say"); code == 0 {
		t.Errorf("the policy of the first start is gone: %s", stderr)
	}
}
