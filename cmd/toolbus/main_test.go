package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// The test binary is also the tool of its bus.
func TestMain(m *testing.M) {
	supervisor.SupervisorMain()
	if len(os.Args) == 2 && os.Args[1] == "tool" {
		os.Exit(play(os.Stdin, os.Stdout))
	}
	if len(os.Args) > 2 && slices.Contains([]string{"dev", "dispatcher", "executor"}, os.Args[1]) { // dev: an example tool
		env := environment{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
		cli.Main(func(ctx context.Context) int { return run(ctx, env, os.Args[1:]) })
	}
	goleak.VerifyTestMain(m)
}

// play is a tool that, as its input says, returns a text, fails, or takes time.
func play(in io.Reader, out io.Writer) int {
	var r struct {
		Input struct {
			Say  string `json:"say"`
			Fail string `json:"fail"`
			Work int    `json:"work_ms"`
		} `json:"input"`
	}
	if json.UnmarshalRead(in, &r) != nil {
		return 1
	}
	fmt.Fprintln(out, `{"type":"progress","data":"starting"}`)
	<-time.After(time.Duration(r.Input.Work) * time.Millisecond)
	if r.Input.Fail != "" {
		fmt.Fprintf(out, `{"type":"error","error":{"code":%q,"message":"as asked","effect":"none","retry_after_ms":%d}}`+"\n",
			r.Input.Fail, patience[r.Input.Fail])
		return 0
	}
	said, err := jsontext.AppendQuote(nil, r.Input.Say)
	if err != nil {
		return 1
	}
	fmt.Fprintf(out, `{"type":"chunk","data":%s}`+"\n", said)
	fmt.Fprintf(out, `{"type":"output","output":{"said":%s}}`+"\n", said)
	return 0
}

// patience is the retry delay of an error, in milliseconds, by error name.
var patience = map[string]int{"patient": 20_000}

const playManifest = `tool_id: play
semver: 1.0.0
owner: "@test"
title: Play
description: does as it is told
status: active
determinism: pure
transport: process
endpoint: {command: [%q, tool]}
functions:
  play: {description: d, request: request.json, response: response.json}
capabilities: {streaming: true}
errors:
  - {code: upstream, class: R-UPSTREAM, http_status: 502, message: m, fix: f}
  - {code: patient, class: R-CAP, http_status: 429, message: m, fix: f}
  - {code: broken, class: D-DATA, http_status: 422, message: m, fix: f}
  - {code: bank_busy, class: R-UPSTREAM, message: m, fix: f}
`

const (
	playRequest = `{"type":"object","properties":{"say":{"type":"string"},"fail":{"type":"string"},` +
		`"work_ms":{"type":"integer"}},"additionalProperties":false}`
	playResponse = `{"type":"object","properties":{"said":{"type":"string"}},"required":["said"]}`
)

// shell runs command lines against a bus.
type shell struct {
	t    *testing.T
	url  string
	home string // home of the user who started the bus; "" for another user
	keys string // folder of its secrets

	credentials string // TOOLBUS_CREDENTIALS

	environ []string
}

// insider connects as dispatchers do, with all permissions.
func (s shell) insider() *link.Link {
	s.t.Helper()
	keys, err := deployment.Load(s.keys)
	if err != nil {
		s.t.Fatal(err)
	}
	keyed, err := app.Options{Options: link.Options{URL: s.url}, Keys: keys}.Keyed()
	if err != nil {
		s.t.Fatal(err)
	}
	l, err := link.Establish(s.t.Context(), keyed)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(l.Close)
	return l
}

// do runs one command line and returns its exit code and what it printed.
func (s shell) do(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	var out, problems bytes.Buffer
	env := environment{stdin: strings.NewReader(`{"say":"piped"}`), stdout: &out, stderr: &problems, url: s.url,
		environ: s.environ, credentials: s.credentials, home: cmp.Or(s.home, s.t.TempDir())}
	code = run(ctx, env, args)
	return code, out.String(), problems.String()
}

// startDev runs `toolbus dev` on the state directory until stop.
func startDev(t *testing.T, state string) (s shell, stop func()) {
	t.Helper()
	s, stop, _ = startDevAt(t, t.TempDir(), state, "0")
	return s, stop
}

// startDevAt is startDev with the home of a user and a port. The returned output may be read after stop.
func startDevAt(t *testing.T, home, state, port string, flags ...string) (s shell, stop func(), said *bytes.Buffer) {
	t.Helper()
	return startDevOf(t, playTools(t), home, append([]string{"--data-dir", state, "--port", port}, flags...)...)
}

// startDevOf is startDevAt with a folder of tools. The flags name the state directory, if it is not the default.
func startDevOf(t *testing.T, tools, home string, flags ...string) (s shell, stop func(), said *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r, w := io.Pipe()
	done := make(chan int, 1)
	var log bytes.Buffer
	var rest chan []byte // of standard output
	go func() {
		defer w.Close()
		env := environment{stdin: strings.NewReader(""), stdout: w, stderr: &log, home: home}
		args := []string{"dev"}
		if !slices.Contains(flags, "--examples") {
			args = append(args, "--tools", tools)
		}
		done <- run(ctx, env, append(args, flags...))
	}()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if code := <-done; code != 0 {
				t.Errorf("dev ended with %d: %s", code, &log)
			}
			if rest != nil {
				log.Write(<-rest)
			}
			r.Close()
		})
	}
	t.Cleanup(stop)
	line := make([]byte, 200)
	n, err := r.Read(line)
	_, url, ok := strings.Cut(strings.TrimSpace(strings.Split(string(line[:n]), "\n")[0]), " at ")
	if err != nil || !ok {
		t.Fatalf("dev said %q, %v; %s", line[:n], err, &log)
	}
	rest = make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(r) // ends with the pipe
		rest <- append(line[:n], all...)
	}()
	state := (&environment{home: home}).devState()
	if at := slices.Index(flags, "--data-dir"); at >= 0 {
		state = flags[at+1]
	}
	return shell{t: t, url: url, home: home, keys: filepath.Join(state, "keys")}, stop, &log
}

// playTools writes a folder of tools with play, which is this test program.
func playTools(t *testing.T) string {
	t.Helper()
	tools := filepath.Join(t.TempDir(), "tools")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"tool.yaml": fmt.Sprintf(playManifest, self), "request.json": playRequest, "response.json": playResponse,
	} {
		path := filepath.Join(tools, "play", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return tools
}

// Every status has its exit code. Standard output is for programs, and standard error for people.
func TestCall(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	for _, c := range []struct {
		args         string
		code         int
		stdout, says string
	}{
		{`call play --input {"say":"hi"}`, 0, `"said": "hi"`, "success · play 1.0.0"},
		{`call play play --input -`, 0, `"said": "piped"`, "success"},
		{`call play --input {"say":"hi"} --json`, 0, `"status": "success"`, ""},
		{`call play --input {"say":"hi"} --stream`, 0, `"said": "hi"`, "starting"},
		{`call play --input {"fail":"upstream"} --attempts 1`, exitRetryable, "", "R-UPSTREAM"},
		{`call play --input {"fail":"broken"}`, exitTerminal, "", "D-DATA"},
		{`call play --input {"fail":"broken"} --key auto`, exitTerminal, "", "repaired, call with a new key"},
		{`call play --input {"work_ms":60000} --timeout 300ms --attempts 1`, exitRetryable, "", "R-TIMEOUT-001"},
		{`call play --input {"say":1,"x":2}`, exitInvalid, "", "/input/say"},
		{`call play --input {"say":"a","x":9007199254740993}`, exitInvalid, "", "I-REQ-SCHEMA"},
		{`call play --input {"say":1} --json`, exitInvalid, `"status": "invalid_request"`, ""},
		{`call nosuch`, exitInvalid, "", "toolbus tools"},
		{`call play --input {"say"`, exitUsage, "", "not JSON"},
		{`call play --input {"say":"a","say":"b"}`, exitUsage, "", "duplicate"},
		{`call play --input @/nonexistent`, exitUsage, "", "/nonexistent"},
		{`call play --priority urgent`, exitUsage, "", "low, normal or high"},
		{`call play --key-scope world`, exitUsage, "", "actor, session or global"},
		{`call play --key-scope session`, exitUsage, "", "--session"},
		{`call play --input {"say":"hi"} --key-scope session --session s1 --key auto`, 0, `"said": "hi"`, "success"},
		{`call play --attempts 0`, exitUsage, "", "1 or more"},
		{`call play --call-id x`, exitUsage, "", "UUID"},
		{`call play --timeout -1s`, exitUsage, "", "--timeout is -1s: use 1ms to 10m, or"},
		{`call play --timeout 0`, exitUsage, "", "--timeout is 0s"},
		{`call play --timeout 11m`, exitUsage, "", "--timeout is 11m:"},
		{`call play --key short`, exitUsage, "", "--key has 5 characters: use 16 to 256"},
		{`call play --nosuch`, exitUsage, "", "unknown flag"},
		{`call play --role agent`, exitUsage, "", "unknown flag: --role: did you mean --role-id?"},
		{`call play --timeout-ms 5`, exitUsage, "", "unknown flag: --timeout-ms: did you mean --timeout?"},
		{`call play --inptu {}`, exitUsage, "", "unknown flag: --inptu: did you mean --input?"},
		{`dev --tool tools`, exitUsage, "", "unknown flag: --tool: did you mean --tools?"},
		{`call`, exitUsage, "", "expected a tool, and its function if it has several, as in `toolbus call text.search"},
		{`calll`, exitUsage, "", "did you mean call"},
		{`deev --examples`, exitUsage, "", `unknown command "deev": did you mean dev?`},
		{`tools lst --all`, exitUsage, "", `unknown command "lst": did you mean list`},
		{`--examples dev`, exitUsage, "", "unknown flag: --examples"},
		{`call list`, exitInvalid, "", "`toolbus tools list` lists the tools, and `toolbus calls list --open`"},
		{`tools lst`, exitUsage, "", "did you mean list"},
		{`frobnicate`, exitUsage, "", "--help"},
		{`frobnicate --help`, exitUsage, "", "unknown command"},
		{`import --help`, exitUsage, "", "unknown command"},
		{`tools lst -h`, exitUsage, "", "did you mean list"},
		{`help frobnicate`, exitUsage, "", "unknown command"},
		{`tools --help`, 0, "toolbus tools [command]", ""},
		{`result x`, exitInvalid, "", "give the reference"},
		{`audit replay --event nosuch`, exitUsage, "", "tool_denied"},
		{`audit replay --event tool_deny`, exitUsage, "", `did you mean "tool_denied"?`},
		{`audit replay --status nosuch`, exitUsage, "", "terminal_error"},
		{`audit replay --code nosuch`, exitUsage, "", "R-TIMEOUT, "},
		{`audit tail --last 0`, exitUsage, "", "use 1 or more"},
		{`__complete audit tail --status ret`, 0, "retryable_error", ""},
		{`__complete audit replay --code P-PRECOND-C`, 0, "P-PRECOND-CANCELLED", ""},
		{`audit replay --since 1d`, 0, "play", ""},
		{`audit replay --since yesterday`, exitUsage, "", "is not a time"},
		{`dead show x`, exitUsage, "", "dead list"},
		{`tools list`, 0, "play", ""},
		{`tools show play`, 0, `"additionalProperties": false`, ""},
		{`tools show play`, 0, "memory        512 MB, not enforced\noutcomes      kept for 86400 s", ""},
		{`tools show play`, 0, "D-DATA-BROKEN (HTTP 422): m", ""},
		{`tools show play`, 0, "R-UPSTREAM-BANK_BUSY (HTTP 502): m", ""}, // the status of its class
		{`tools show play --json`, 0, `"concurrency_max": 8`, ""},
		{`doctor`, 0, "dispatchers", ""},
		{`doctor --scrub`, exitUsage, "", s.home + "/.local/state/toolbus/latest/keys of `toolbus dev`, or keys in"},
		{`version`, 0, "toolbus", ""},
		{`__complete call pl`, 0, "play", ""},
		{`__complete tools show pl`, 0, "play", ""},
		{`__complete audit replay --tool pl`, 0, "play", ""},
		{`__complete call play --priority h`, 0, "high", ""},
	} {
		code, stdout, stderr := s.do(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit %d, want %d\nstdout: %s\nstderr: %s", c.args, code, c.code, stdout, stderr)
		}
	}
	_, stdout, _ := s.do("doctor")
	reach, warned := supervisor.HostReach(), strings.Contains(stdout, "a tool cannot signal processes")
	if warned != (reach != supervisor.ReachOwn) {
		t.Errorf("runs have the reach %q, and doctor prints %s", reach, stdout)
	}
	if strings.Contains(stdout, "redundancy") {
		t.Errorf("doctor wants a second dispatcher of `toolbus dev`: %s", stdout)
	}
}

// A call is found again by its reference, also after a restart of everything.
func TestReferences(t *testing.T) {
	state := t.TempDir()
	s, stop := startDev(t, state)
	const key = "cli-test-0123456789abcdef"
	code, _, stderr := s.do("call", "play", "--input", `{"say":"once"}`, "--key", key)
	_, rest, _ := strings.Cut(stderr, "accepted: ")
	ref, _, _ := strings.Cut(rest, " ")
	if code != 0 || ref == "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if code, stdout, _ := s.do("audit", "replay", "--call", ref, "--json"); code != 0 || strings.Count(stdout, "\n") != 3 {
		t.Errorf("the record of a call that has just ended: exit %d\n%s", code, stdout)
	}
	stop()
	s, _ = startDev(t, state)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"result", ref, "--json"}, 0, `"said": "once"`},
		{[]string{"why", ref}, 0, "succeeded"},
		{[]string{"cancel", ref}, exitTooLate, "ended already, with success"},
		{[]string{"call", "play", "--input", `{"say":"once"}`, "--key", key}, 0, "replayed"},
		{[]string{"call", "play", "--input", `{"say":"twice"}`, "--key", key}, exitInvalid, "I-REQ-KEY_REUSED"},
		{[]string{"result", ref, "--actor", "agent://other"}, exitTerminal, "NOT_FOUND"},
	} {
		code, stdout, stderr := s.do(c.args...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%v: exit %d, want %d\nstdout: %s\nstderr: %s", c.args, code, c.code, stdout, stderr)
		}
	}
}

// A call prints its reference whether it was accepted, replayed or not answered. The JSON output contains only the
// outcome.
func TestReferenceOfEveryOutcome(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	const stable, mine, session = "--key auto", "--key mine-0123456789abcdef --key-scope global",
		"--key mine-0123456789abcdef --key-scope session --session s1"
	for _, flags := range []string{stable, mine, session, "--key auto --actor agent://other", "--key auto --tenant acme"} {
		args := strings.Fields(`call play --input {"say":"once"} ` + flags)
		_, _, stderr := s.do(args...)
		_, rest, _ := strings.Cut(stderr, "accepted: ")
		ref, _, _ := strings.Cut(rest, " ")
		if ref == "" {
			t.Fatalf("%v: %s", args, stderr)
		}
		if _, _, stderr = s.do(args...); !strings.Contains(stderr, "replayed · ref "+ref) {
			t.Errorf("%v, replayed: %s", args, stderr)
		}
		_, stdout, stderr := s.do(append(args, "--json")...)
		if stderr != "ref: "+ref+"\n" || !jsontext.Value(stdout).IsValid() {
			t.Errorf("%v, replayed: %s\n%s", args, stdout, stderr)
		}
	}
	_, stdout, stderr := s.do("call", "play", "--json")
	if ref, ok := strings.CutPrefix(stderr, "ref: "); !ok || !jsontext.Value(stdout).IsValid() {
		t.Errorf("accepted: %s\n%s", stdout, stderr)
	} else if code, _, stderr := s.do("result", strings.TrimSpace(ref)); code != 0 {
		t.Errorf("result of %s: exit %d, %s", ref, code, stderr)
	}
	if _, _, stderr := s.do("call", "nosuch"); strings.Contains(stderr, "ref ") {
		t.Errorf("a refused request has a reference: %s", stderr)
	}
}

// An interrupted call prints commands that find it, with flags if the caller is not the default one.
func TestInterrupt(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	said := &until{text: "accepted: ", then: stop}
	env := environment{stdin: strings.NewReader(""), stdout: io.Discard, stderr: said, url: s.url, home: s.home}
	args := []string{"call", "play", "--input", `{"work_ms":20000}`, "--actor", "agent://it's me"}
	if code := run(ctx, env, args); code != exitInterrupted {
		t.Errorf("exit %d: %s", code, said)
	}
	_, rest, _ := strings.Cut(said.String(), "`toolbus cancel ")
	command, _, _ := strings.Cut(rest, "`")
	ref, flags, _ := strings.Cut(command, " ")
	if flags != `--actor 'agent://it'\''s me'` {
		t.Fatalf("it says %s", said)
	}
	if code, stdout, stderr := s.do("cancel", ref, "--actor", "agent://it's me"); code != 0 ||
		!strings.Contains(stdout, "cancelled") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
}

// until records its input, and calls then when the input contains text. It is for concurrent use.
type until struct {
	bytes.Buffer
	text string
	then func()
	mu   sync.Mutex
}

// Write implements io.Writer.
func (u *until) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, err := u.Buffer.Write(p)
	if strings.Contains(u.String(), u.text) {
		u.then()
	}
	return n, err
}

// When the tool runs again, the output says that earlier chunks are void.
func TestStreamOfTwoRuns(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	args := strings.Fields(`call play --input {"fail":"upstream"} --stream --attempts 2`)
	if _, _, stderr := s.do(args...); strings.Count(stderr, "starting") != 2 || strings.Count(stderr, "are void") != 1 {
		t.Errorf("two runs: %s", stderr)
	}
	if _, _, stderr := s.do("call", "play", "--input", `{"say":"hi"}`, "--stream"); strings.Contains(stderr, "are void") {
		t.Errorf("one run: %s", stderr)
	}
	if _, stdout, stderr := s.do(append(args, "--json")...); strings.Contains(stderr, "void") ||
		strings.Count(stdout, `"fence":`) < 2 {
		t.Errorf("two runs as JSON: %s%s", stdout, stderr)
	}
}

// After a retryable error, the command prints the key for another try.
func TestKeyOfARetryableError(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	for _, flags := range []string{"", "--json"} {
		args := append(strings.Fields(`call play --input {"fail":"upstream"} --attempts 1`), strings.Fields(flags)...)
		_, _, stderr := s.do(args...)
		_, rest, _ := strings.Cut(stderr, "key: ")
		key, _, _ := strings.Cut(rest, "\n")
		if key == "" {
			t.Fatalf("%v: %s", args, stderr)
		}
		if _, _, stderr = s.do("call", "play", "--input", `{"fail":"upstream"}`, "--attempts", "1", "--key",
			key); !strings.Contains(stderr, "attempt 2") {
			t.Errorf("asked again with %s: %s", key, stderr)
		}
	}
}

// A call that was not sent has no reference, and the command sends no request for one after the deadline.
func TestNoDispatcher(t *testing.T) {
	s := shell{t: t, url: natstest.Start(t).URL}
	code, _, stderr := s.do(strings.Fields("call play --timeout 100ms --attempts 1")...)
	if code != exitRetryable || !strings.Contains(stderr, "was not sent") || strings.Contains(stderr, "reference") ||
		strings.Contains(stderr, "ref ") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// The audit log shows all tenants or the named one. Following it ends at --until.
func TestAuditOfTenants(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	for _, tenant := range []string{"acme", "default"} {
		if code, _, stderr := s.do("call", "play", "--tenant", tenant, "--input", `{"say":"hi"}`); code != 0 {
			t.Fatalf("exit %d: %s", code, stderr)
		}
	}
	for _, c := range []struct {
		args    string
		records int
		acme    int
	}{
		{"audit replay", 6, 5},               // and a token of an actor of acme: the intent and the result
		{"audit replay --tenant acme", 3, 0}, // no row names the tenant that was asked for
		{"audit replay --tenant default", 3, 0},
		{"audit replay --actor agent://local", 6, 5},
		{"audit replay --actor agent://other", 0, 0},
		{"audit replay --follow --until -200ms", 6, 5},
		{"audit tail --until -200ms", 0, 0},
	} {
		code, stdout, stderr := s.do(strings.Fields(c.args)...)
		if code != 0 || strings.Count(stdout, "tool_") != c.records || strings.Count(stdout, "tenant acme") != c.acme {
			t.Errorf("%s: exit %d: %s\n%s", c.args, code, stdout, stderr)
		}
	}
}

// No flag is accepted and then ignored, or leads to a process that harms others.
func TestRefusedFlags(t *testing.T) {
	s := shell{t: t, url: "nats://127.0.0.1:1"}
	serve, short := "--tools "+t.TempDir(), filepath.Join(t.TempDir(), "token")
	writeFile(t, short, "short")
	for _, c := range []struct {
		args []string
		says string
	}{
		{strings.Fields("dev --lease 99ms " + serve), "100ms or more"},
		{strings.Fields("dev --lease 0 " + serve), "100ms or more"},
		{strings.Fields("dispatcher --lease -5s " + serve), "100ms or more"},
		{strings.Fields("dispatcher --audit always " + serve), "lag or strict"},
		{strings.Fields("executor --slots 0 " + serve), "1 or more"},
		{strings.Fields("dev --slots -2 " + serve), "1 or more"},
		{strings.Fields("dev --pool A.B " + serve), "lower-case"},
		{strings.Fields("executor --pool A.B " + serve), "lower-case"},
		{strings.Fields("dev --otlp-endpoint garbage " + serve), "http or https"},
		{strings.Fields("dispatcher --otlp-endpoint ftp://x/y " + serve), "http or https"},
		{strings.Fields("dispatcher --http-listen 9464 " + serve), "HOST:PORT"},
		{strings.Fields("executor --http-listen 0.0.0.0:0 " + serve), "name its file by --http-token-file"},
		{strings.Fields("executor --http-listen 127.0.0.1:0 --http-token-file " + short + " " + serve), "16 to 4096 bytes"},
		{strings.Fields("executor --http-listen 127.0.0.1:0 --http-token-file none " + serve), "no such file"},
		{strings.Fields("executor --log-sample 0 " + serve), "--log-sample"},
		{strings.Fields("executor --http-token-file token " + serve), "--http-listen"},
		{strings.Fields("executor --pprof " + serve), "--http-listen"},
		{strings.Fields("dispatcher --replicas 6 " + serve), "1 to 5"},
		{strings.Fields("dev --server nats://bus " + serve), "server of its own"},
		{strings.Fields("nats --server nats://bus"), "server of its own"},
		{strings.Fields("demo --server nats://bus"), "server of its own"},
		{[]string{"dev", "--tools", ""}, "folder of tool manifests"},
		{[]string{"executor", "--tools", ""}, "folder of tool manifests"},
		{[]string{"dev", "--data-dir", "", "--tools", t.TempDir()}, "--data-dir is empty"},
		{[]string{"nats", "--data-dir", ""}, "--data-dir is empty"},
		{[]string{"call", "play", "--actor", ""}, "--actor is empty"},
		{[]string{"dead", "list", "--tenant", ""}, "--tenant is empty"},
		{strings.Fields("calls list --code S-TOL"), "there is no code \"S-TOL\"; did you mean \"S-TOOL\"?\n"},
		{strings.Fields("calls list --code TIMEOUT-001"), "did you mean \"R-TIMEOUT-001\"?\n"},
		{strings.Fields("calls list --code nosuch.code"), "; the first part of a code is its class: I-REQ, "},
		{strings.Fields("call play --attempts -1"), "1 or more"},
		{[]string{"tools", "list", "--server", ""}, "--server is empty"},
		{[]string{"dispatcher", "--server", ""}, "--server is empty"},
		{strings.Fields("audit replay --since 5m --until 10m"), "before"},
		{strings.Fields("completion nosuch"), "unknown command"},
		{strings.Fields("completion bash extra"), "no arguments"},
		{strings.Fields("help nosuch"), "unknown command"},
	} {
		if code, _, stderr := s.do(c.args...); code != exitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit %d, want %d with %q: %s", c.args, code, exitUsage, c.says, stderr)
		}
	}
}

// The output of a tool cannot control the terminal in any format, and its JSON value stays the same.
func TestOutputIsShownNotObeyed(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	const driving = "clear\u009b2J\u007f"
	for _, flags := range []string{"", "--json", "--stream", "--stream --json"} {
		_, stdout, stderr := s.do(append([]string{"call", "play", "--input", `{"say":"` + driving + `"}`},
			strings.Fields(flags)...)...)
		if strings.ContainsAny(stdout+stderr, "\u009b\u007f") || !strings.Contains(stdout, `clear\u009b2J\u007f`) {
			t.Errorf("%s: %q", flags, stdout+stderr)
		}
		if flags == "" && !strings.Contains(string(unescaped(t, stdout)), driving) {
			t.Errorf("the output says something else: %q", stdout)
		}
	}
}

// A chunk is printed as a line of JSON, however the tool wrote it.
func TestPrintChunk(t *testing.T) {
	var out bytes.Buffer
	g := newGlobal(&environment{stdout: &out, stderr: &out})
	for kind, want := range map[envelope.ChunkKind]string{
		envelope.ChunkData: `{"a":"\u009b"}` + "\n", envelope.ChunkProgress: `progress: {"a":"\u009b"}` + "\n",
	} {
		out.Reset()
		if err := printChunk(g, envelope.Chunk{Kind: kind, Data: jsontext.Value("{\"a\":\r\"\u009b\"}")}); err != nil ||
			out.String() != want {
			t.Errorf("%s: %q, %v", kind, out.String(), err)
		}
	}
}

// unescaped returns a JSON value with its characters as they are.
func unescaped(t *testing.T, text string) jsontext.Value {
	t.Helper()
	v := jsontext.Value(text)
	if err := v.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	return v
}

// The help of every command has an example.
func TestExamples(t *testing.T) {
	for _, args := range []string{"call", "result", "cancel", "why", "trace", "tools list", "tools show", "audit replay",
		"audit tail", "dead list", "dead show", "dead replay", "doctor"} {
		if _, stdout, _ := (shell{t: t}).do(append(strings.Fields(args), "--help")...); !strings.Contains(stdout,
			"Examples:\n  toolbus "+args) {
			t.Errorf("the help of %s has no example: %s", args, stdout)
		}
	}
}

// A start with a store or port that is in use fails at once.
func TestSecondServer(t *testing.T) {
	state := t.TempDir()
	s, _ := startDev(t, state)
	port := s.url[strings.LastIndexByte(s.url, ':')+1:]
	tools, _ := sayTools(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"dev", "--data-dir", state, "--port", "0", "--tools", tools}, 1, "--data-dir"},
		{[]string{"nats", "--data-dir", filepath.Join(state, "nats"), "--port", "0"}, 1, "--data-dir"},
		{[]string{"dev", "--data-dir", t.TempDir(), "--port", port, "--tools", tools}, 1, "--port 0"},
		{[]string{"dev", "--data-dir", t.TempDir(), "--port", "65536", "--tools", tools}, exitUsage, "65535"},
		{[]string{"nats", "--data-dir", t.TempDir(), "--port", "-1"}, exitUsage, "65535"},
	} {
		if code, _, stderr := s.do(c.args...); code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit %d, %s", c.args, code, stderr)
		}
	}
}

// On a server without the streams of Toolbus, every command says what is missing.
func TestForeignServer(t *testing.T) {
	s := shell{t: t, url: natstest.Start(t).URL}
	for _, args := range []string{"audit replay", "audit tail", "dead list", "dead show 1", "tools list"} {
		if code, _, stderr := s.do(strings.Fields(args)...); code != 1 || !strings.Contains(stderr, "start") {
			t.Errorf("%s: exit %d, %s", args, code, stderr)
		}
	}
}

// Errors with text from other processes cannot control the terminal.
func TestPlainErrors(t *testing.T) {
	s := shell{t: t}
	dying := []string{"tools", "import-mcp", "--tools", t.TempDir(), "/bin/sh", "-c", `printf '\033[2Jdying' >&2; exit 3`}
	code, _, stderr := s.do(dying...)
	if code != 1 || !strings.Contains(stderr, "exit status 3; it wrote: ·[2Jdying") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

// A command fails if its output cannot be written.
func TestFullDisk(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	for _, args := range []string{"doctor", "doctor --json", "version", "version --json", "tools list", "executors list"} {
		var problems bytes.Buffer
		env := environment{stdin: strings.NewReader(""), stdout: full{}, stderr: &problems, url: s.url, home: s.home}
		if code := run(t.Context(), env, strings.Fields(args)); code != 1 ||
			!strings.Contains(problems.String(), "no space") {
			t.Errorf("%s: exit %d, %s", args, code, &problems)
		}
	}
}

// full is a writer that always fails, such as a full disk.
type full struct{}

// Write implements io.Writer.
func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestNoBus(t *testing.T) {
	s := shell{t: t, url: "nats://127.0.0.1:1"}
	for _, args := range []string{"tools list", "result a.b", "audit replay", "dead list"} {
		code, _, stderr := s.do(strings.Fields(args)...)
		if code != 1 || !strings.Contains(stderr, "this server does not answer: `nc -zv 127.0.0.1 1`") {
			t.Errorf("%s: exit %d, %s", args, code, stderr)
		}
	}
	if code, stdout, _ := s.do("doctor", "--json"); code != 1 || !strings.Contains(stdout, `"fail"`) {
		t.Errorf("doctor: exit %d, %s", code, stdout)
	}
}

func TestExitCodes(t *testing.T) {
	for status, want := range map[envelope.Status]int{
		envelope.Success: 0, envelope.RetryableError: exitRetryable, envelope.TerminalError: exitTerminal,
		envelope.InvalidRequest: exitInvalid,
	} {
		if got := exitCode(status); got != want {
			t.Errorf("%s exits with %d, want %d", status, got, want)
		}
	}
}

// A tool that cannot run is an error at the start, before any call.
func TestToolThatCannotRun(t *testing.T) {
	tools := t.TempDir()
	if err := os.Mkdir(filepath.Join(tools, "play"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"tool.yaml": fmt.Sprintf(playManifest, "/nonexistent/program"), "request.json": playRequest,
		"response.json": playResponse,
	} {
		if err := os.WriteFile(filepath.Join(tools, "play", name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, _, stderr := shell{t: t}.do("dev", "--data-dir", t.TempDir(), "--port", "0", "--tools", tools)
	if code != 1 || !strings.Contains(stderr, "play") || !strings.Contains(stderr, "/nonexistent/program") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// An input that never comes does not keep the command from ending.
func TestSilentInput(t *testing.T) {
	silent, speak := io.Pipe()
	defer speak.Close() // ends the abandoned read
	for _, input := range []string{"-", "@" + namedPipe(t)} {
		ctx, cancel := context.WithCancel(t.Context())
		code := make(chan int, 1)
		var stderr bytes.Buffer
		go func() {
			code <- run(ctx, environment{stdin: silent, stdout: io.Discard, stderr: &stderr},
				[]string{"call", "play", "--input", input})
		}()
		cancel()
		select {
		case got := <-code:
			if got != exitInterrupted || !strings.Contains(stderr.String(), "nothing was sent") {
				t.Errorf("--input %s: exit %d, %s", input, got, &stderr)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("--input %s: the command does not end", input)
		}
	}
}

// namedPipe returns a named pipe without a writer until the test ends.
func namedPipe(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // what waits to open it may go on, and what comes to open it only now finds nothing
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Error(err)
			return
		}
		if err := errors.Join(os.Remove(name), file.Close()); err != nil {
			t.Error(err)
		}
	})
	return name
}
