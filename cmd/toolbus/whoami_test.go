package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/caller"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
)

// minted writes a credential of agent://a that it has signed with the deployment's keys.
func minted(t *testing.T, operator string, p auth.Principal) (file string) {
	t.Helper()
	keys, err := deployment.Load(filepath.Join(filepath.Dir(operator), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := keys.Signer()
	if err != nil {
		t.Fatal(err)
	}
	p.Tenant, p.Actor, p.Role, p.ID, p.Family = "default", "agent://a", auth.Agent, auth.NewID(), auth.NewID()
	token, err := signer.Mint(p)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func expired(t *testing.T, operator string) string {
	now := time.Now().Truncate(time.Second)
	return minted(t, operator, auth.Principal{Issued: now.Add(-time.Hour), Expires: now.Add(-time.Minute)})
}

// The command renews a valid or an expired credential, which keeps its family.
func TestRenew(t *testing.T) {
	s, operator := deployed(t)
	agent := filepath.Join(t.TempDir(), "agent")
	s.must("credentials", "issue", "--actor", "agent://a", "--out", agent, "--credentials", operator)
	now := time.Now().Truncate(time.Second)
	late := minted(t, operator, auth.Principal{
		Issued: now.Add(-time.Hour), Expires: now.Add(-time.Minute), RenewUntil: now.Add(time.Hour),
	})
	for _, args := range [][]string{{agent}, {"--credentials", agent}, {agent, "--json"}, {late}} {
		file := args[0]
		if file == "--credentials" {
			file = args[1]
		}
		before, err := heldBy(file)
		if err != nil {
			t.Fatal(err)
		}
		said := s.must(append([]string{"credentials", "renew"}, args...)...)
		after, err := heldBy(file)
		if err != nil || after.Token() == before.Token() || after.Principal().Family != before.Principal().Family ||
			!strings.Contains(said, after.Principal().Family) || after.Expired() {
			t.Errorf("%v: %s, %v", args, said, err)
		}
		s.must("call", "hello", "--input", `"you"`, "--credentials", file)
	}
	never := minted(t, operator, auth.Principal{Issued: now, Expires: now.Add(time.Minute)})
	for says, args := range map[string][]string{
		"A-AUTH-FORBIDDEN": {never}, "A-AUTH-EXPIRED": {expired(t, operator)}, "name the file": nil,
		"one file": {agent, "--credentials", agent}, "no such file": {filepath.Join(t.TempDir(), "none")},
	} {
		code, stdout, stderr := s.do(append([]string{"credentials", "renew"}, args...)...)
		if code == 0 || !strings.Contains(stdout+stderr, says) {
			t.Errorf("%v: exit %d, %s%s", args, code, stdout, stderr)
		}
	}
}

// whoami shows the claims of a token, and whether the bus accepts it.
func TestWhoami(t *testing.T) {
	s, operator := deployed(t)
	agent := filepath.Join(t.TempDir(), "agent")
	s.must("credentials", "issue", "--actor", "agent://a", "--scope", "read", "--run", "r1", "--lane", "l1",
		"--out", agent, "--credentials", operator)
	asked := func(file string) (code int, is identified) {
		t.Helper()
		code, stdout, stderr := s.do("credentials", "whoami", file, "--json")
		if err := json.Unmarshal([]byte(stdout), &is); err != nil {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
		return code, is
	}
	code, is := asked(agent)
	if code != 0 || is.Accepted != acceptedYes || is.Tenant != "default" || is.Actor != "agent://a" ||
		is.Role != "agent" ||
		len(is.Scopes) != 1 || is.Run != "r1" || is.Lane != "l1" || is.Family == "" || is.Expires.IsZero() ||
		is.RenewUntil.IsZero() || is.Error != nil {
		t.Errorf("exit %d: %+v", code, is)
	}
	if said := s.must("credentials", "whoami", "--credentials", operator); !strings.Contains(said, "operator") ||
		!strings.Contains(said, "accepted by the bus: yes") {
		t.Error(said)
	}
	s.must("credentials", "revoke", agent, "--credentials", operator)
	if code, is = asked(agent); code != exitTerminal || is.Accepted != acceptedNo || is.Run != "r1" ||
		is.Error.Code != envelope.CodeRevoked {
		t.Errorf("exit %d: %+v", code, is)
	}
	if code, is = asked(expired(t, operator)); code != exitRetryable || is.Accepted != acceptedNo ||
		is.Error.Code != envelope.CodeExpired {
		t.Errorf("exit %d: %+v", code, is)
	}
	s.url = "nats://127.0.0.1:1"
	if code, is = asked(agent); code != 1 || is.Accepted != acceptedUnknown {
		t.Errorf("exit %d: %+v", code, is)
	}
}

// A family that is not listed is revoked, too, and the output says that it is not listed.
func TestRevokeUnlisted(t *testing.T) {
	s, operator := deployed(t)
	agent := filepath.Join(t.TempDir(), "agent")
	s.must("credentials", "issue", "--actor", "agent://billing", "--out", agent, "--credentials", operator)
	held, err := heldBy(agent)
	if err != nil {
		t.Fatal(err)
	}
	family := held.Principal().Family
	wrong := family[:len(family)-1] + "0"
	offline := minted(t, operator, auth.Principal{Issued: time.Now(), Expires: time.Now().Add(time.Minute)})
	for _, c := range []struct {
		args   []string
		code   int
		says   string
		answer string
	}{
		{[]string{wrong}, 1, "did you mean " + family, `"families": 0`},
		{[]string{"--actor", "billing"}, 1, "did you mean agent://billing?", `"families": 0`},
		{[]string{"--actor", "agent://biling"}, 1, "did you mean agent://billing?", `"families": 0`},
		{[]string{"--actor", "agent://nobody-like-that"}, 1, "credentials list", `"families": 0`},
		{[]string{"--actor", "agent://billing", "--tenant", "other"}, 1, "in tenant default", `"families": 0`},
		{[]string{"no.such.file"}, 2, "no.such.file", ""},
		{[]string{"nofile"}, 2, "neither a file nor a family", ""},
		{[]string{offline}, 0, "not listed", `"families": 0`},
		{[]string{family}, 0, "1 listed family", `"families": 1`},
		{[]string{"--actor", "agent://billing"}, 0, "of 1 listed family, 1 was revoked already", `"already": 1`},
	} {
		args := append([]string{"credentials", "revoke", "--credentials", operator}, c.args...)
		code, stdout, stderr := s.do(args...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%v: exit %d, %s%s", c.args, code, stdout, stderr)
		}
		code, stdout, stderr = s.do(append(args, "--json")...)
		if code != c.code || !strings.Contains(stdout, c.answer) {
			t.Errorf("%v --json: exit %d, %s%s", c.args, code, stdout, stderr)
		}
	}
	if code, stdout, stderr := s.do("call", "hello", "--credentials", offline); code != exitTerminal {
		t.Errorf("what is not listed is not revoked: exit %d, %s%s", code, stdout, stderr)
	}
}

// A token with --life is valid for that time.
func TestLongLife(t *testing.T) {
	s, operator := deployed(t)
	for _, more := range [][]string{{"--credentials", operator},
		{"--secrets-dir", filepath.Join(filepath.Dir(operator), "keys")}} {
		file := filepath.Join(t.TempDir(), "agent")
		s.must(append([]string{"credentials", "issue", "--actor", "agent://a", "--life", "24h", "--out", file}, more...)...)
		held, err := heldBy(file)
		if err != nil {
			t.Fatal(err)
		}
		if p := held.Principal(); p.Expires.Sub(p.Issued) != 24*time.Hour {
			t.Errorf("%v: %s", more, p.Expires.Sub(p.Issued))
		}
		for _, wrong := range [][]string{{"--life", "25h"}, {"--life", "0"}, {"--for", "9000h"}, {"--for", "-1h"}} {
			args := append([]string{"credentials", "issue", "--actor", "agent://a"}, append(wrong, more...)...)
			if code, _, stderr := s.do(args...); code != exitUsage || !strings.Contains(stderr, wrong[0]) {
				t.Errorf("%v: exit %d, %s", wrong, code, stderr)
			}
		}
	}
	if _, _, stderr := s.do("credentials", "issue", "--actor", "billing", "--credentials", operator); !strings.Contains(
		stderr, "agent://billing") {
		t.Errorf("no warning: %s", stderr)
	}
}

// wantFix wants that a Go program and a client of MCP get the fix with the refusal of a credential.
func (s shell) wantFix(file string, code envelope.Code) {
	s.t.Helper()
	_, err := caller.Connect(s.t.Context(), s.url, caller.Options{CredentialsFile: file})
	if _, fix, _ := strings.Cut(fmt.Sprint(err), "\n"); caller.CodeOf(err) != code ||
		!strings.Contains(fix, "credentials issue") ||
		strings.Contains(fix, "the file that this bus prints") != (code == envelope.CodeRevoked) {
		s.t.Errorf("a Go program: %v", err)
	}
	var out bytes.Buffer
	first := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize"}` + "\n")
	env := environment{stdin: first, stdout: &out, stderr: io.Discard, url: s.url, home: s.t.TempDir()}
	run(s.t.Context(), env, []string{"mcp", "--credentials", file})
	if !strings.Contains(out.String(), `"id":1`) || !strings.Contains(out.String(), "credentials issue") {
		s.t.Errorf("a client of MCP: %s", &out)
	}
}

// Calls and other requests with a revoked or expired credential are refused, and the error says which of the two it is.
func TestRefusedCredentials(t *testing.T) {
	s, operator := deployed(t)
	revoked := filepath.Join(t.TempDir(), "agent")
	s.must("credentials", "issue", "--actor", "agent://a", "--out", revoked, "--credentials", operator)
	s.must("credentials", "revoke", revoked, "--credentials", operator)
	for _, c := range []struct {
		credential string
		code       envelope.Code
		exit       int
		says       string
	}{
		{revoked, envelope.CodeRevoked, exitTerminal, "it was revoked"},
		{expired(t, operator), envelope.CodeExpired, exitRetryable, "expired at"},
	} {
		code, stdout, stderr := s.do("call", "hello", "--input", `"you"`, "--json", "--credentials", c.credential)
		r, bad := envelope.DecodeResponse(envelope.ContentJSON, []byte(stdout))
		if code != c.exit || bad != nil || r.Error.Code != c.code || r.Provenance.Final || !r.Provenance.NotStarted ||
			r.Error.Details.Effect != envelope.EffectNone {
			t.Errorf("exit %d: %v, %s%s", code, bad, stdout, stderr)
		}
		s.wantFix(c.credential, c.code)
		code, stdout, _ = s.do("doctor", "--credentials", c.credential)
		if code != 1 || !strings.Contains(stdout, string(c.code)) || strings.Contains(stdout, "--credentials") {
			t.Errorf("doctor: exit %d, %s", code, stdout)
		}
		for _, ask := range []string{
			"call hello", "tools list", "tools show hello", "result hello.x", "why hello.x", "cancel hello.x",
			"audit replay", "dead list", "credentials list", "credentials narrow",
			"credentials revoke 4reidtfrk20p8kjm8sc1",
		} {
			args := append(strings.Fields(ask), "--credentials", c.credential)
			code, stdout, stderr := s.do(args...)
			if said := stdout + stderr; code != c.exit || !strings.Contains(said, string(c.code)) ||
				!strings.Contains(said, c.says) || !strings.Contains(said, "credentials issue") ||
				strings.Contains(said, "--credentials") {
				t.Errorf("%s: exit %d, %s", ask, code, said)
			}
			if code, stdout, stderr = s.do(append(args, "--json")...); code != c.exit ||
				!strings.Contains(stdout, `"code": "`+string(c.code)+`"`) {
				t.Errorf("%s --json: exit %d, %s%s", ask, code, stdout, stderr)
			}
		}
	}
}

// A caller whose token is revoked while its call runs does not wait for the deadline.
func TestRevokedWhileItWaits(t *testing.T) {
	s, operator := deployed(t)
	agent := filepath.Join(t.TempDir(), "agent")
	s.must("credentials", "issue", "--actor", "agent://a", "--out", agent, "--credentials", operator)
	for _, more := range [][]string{{"--json"}, {"--json", "--stream"}} {
		accepted, code := make(chan struct{}), make(chan int, 1)
		var out bytes.Buffer
		said := &until{text: "ref: ", then: sync.OnceFunc(func() { close(accepted) })}
		go func() {
			env := environment{stdin: strings.NewReader(""), stdout: &out, stderr: said, url: s.url, home: t.TempDir()}
			code <- run(t.Context(), env, append([]string{"call", "wait", "--credentials", agent}, more...))
		}()
		<-accepted
		began := time.Now()
		s.must("credentials", "revoke", agent, "--credentials", operator)
		if got := <-code; got != exitTerminal {
			t.Errorf("exit %d: %s%s", got, &out, said)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it waits for %s", took)
		}
		last := out.String()[strings.LastIndex(strings.TrimSpace(out.String()), "\n")+1:]
		if more[len(more)-1] == "--json" {
			last = out.String()
		}
		r, bad := envelope.DecodeResponse(envelope.ContentJSON, []byte(strings.TrimSpace(last)))
		if bad != nil || r.Error.Code != envelope.CodeRevoked || r.Provenance.Final ||
			r.Error.Details.Effect != envelope.EffectUnknown {
			t.Errorf("%v: %s%s", bad, &out, said)
		}
		agent = filepath.Join(t.TempDir(), "agent")
		s.must("credentials", "issue", "--actor", "agent://a", "--out", agent, "--credentials", operator)
	}
}

// If no dispatcher answers, the error says this, and does not blame the credentials.
func TestNoDispatcherToAsk(t *testing.T) {
	t.Parallel()
	srv, dir := unserved(t)
	s := shell{t: t, url: srv.URL}
	for command, want := range map[string]int{
		"credentials whoami": 1, "doctor": 1, "tools list": 1, "call hello --json --timeout 20s": exitRetryable,
	} {
		args := append(strings.Fields(command), "--credentials", filepath.Join(dir, "operator.token"))
		code, stdout, stderr := s.do(args...)
		if said := stdout + stderr; code != want || !strings.Contains(said, "start a dispatcher") ||
			strings.Contains(said, "--credentials") {
			t.Errorf("%s: exit %d, %s", command, code, said)
		}
	}
}
