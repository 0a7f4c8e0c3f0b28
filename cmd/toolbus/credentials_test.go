package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// unserved returns the server of a new deployment, without a dispatcher, and the folder of the deployment.
func unserved(t *testing.T) (srv *natstest.Server, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "deployment")
	if code, _, stderr := (shell{t: t}).do("keys", "init", dir); code != 0 {
		t.Fatal(stderr)
	}
	keys, err := deployment.Load(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	public, err := keys.Public()
	if err != nil {
		t.Fatal(err)
	}
	return natstest.Start(t, func(o *server.Options) {
		text, err := deployment.Config(keys.Deployment, public, deployment.Shape{
			Server: o.ServerName, Listen: "127.0.0.1:-1", Store: o.StoreDir, MaxStore: o.JetStreamMaxStore,
		})
		if err != nil {
			t.Fatal(err)
		}
		of := server.Options{NoSigs: true, DisableJetStreamBanner: true}
		if err := of.ProcessConfigString(text); err != nil {
			t.Fatal(err)
		}
		of.Host, of.Port = o.Host, o.Port
		*o = of
	}), dir
}

// deployed returns a bus of a new deployment, with a dispatcher, and the file with the first operator's credential.
func deployed(t *testing.T) (s shell, operator string) {
	t.Helper()
	return deployedWith(t, toolbus.DispatcherOptions{AllowAll: true})
}

// deployedWith is deployed with options of the dispatcher.
func deployedWith(t *testing.T, o toolbus.DispatcherOptions) (s shell, operator string) {
	t.Helper()
	tools := toolbus.NewToolset()
	err := toolbus.Add(tools, toolbus.Tool{ID: "hello", Class: toolbus.Pure},
		func(_ context.Context, _ *toolbus.Run, in string) (string, error) { return "hello " + in, nil })
	if err != nil {
		t.Fatal(err)
	}
	err = toolbus.Add(tools, toolbus.Tool{ID: "wait", Class: toolbus.Pure, Timeout: time.Minute},
		func(ctx context.Context, _ *toolbus.Run, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
	if err != nil {
		t.Fatal(err)
	}
	return deployedTools(t, o, tools)
}

// deployedTools is deployedWith with other tools.
func deployedTools(t *testing.T, o toolbus.DispatcherOptions, tools *toolbus.Toolset) (s shell, operator string) {
	t.Helper()
	srv, dir := unserved(t)
	conn, err := toolbus.Connect(t.Context(), srv.URL, toolbus.Options{SecretsDir: filepath.Join(dir, "keys")})
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	o.Ready = func(string) { close(ready) }
	d, err := conn.Dispatcher(tools, o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() { conn.Close(); <-ended })
	<-ready
	s, operator = shell{t: t, url: srv.URL, keys: filepath.Join(dir, "keys")}, filepath.Join(dir, "operator.token")
	executor := filepath.Join(dir, "executor.token")
	s.must("credentials", "issue", "--role", "executor", "--pool", "default", "--actor", "executor://x", "--out", executor,
		"--credentials", operator)
	run, err := toolbus.Connect(t.Context(), srv.URL, toolbus.Options{CredentialsFile: executor})
	if err != nil {
		t.Fatal(err)
	}
	e, err := run.Executor(tools, (&cli.Pool{}).Options(nil))
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- e.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() { run.Close(); <-ended })
	return s, operator
}

// must runs a command that must succeed, and returns what it printed.
func (s shell) must(args ...string) string {
	s.t.Helper()
	code, stdout, stderr := s.do(args...)
	if code != 0 {
		s.t.Fatalf("%v: exit %d: %s%s", args, code, stdout, stderr)
	}
	return stdout
}

// An operator issues credentials. Their holders call with them and narrow them. A revoked credential is refused.
func TestCredentials(t *testing.T) {
	s, operator := deployed(t)
	dir := t.TempDir()
	agent, part := filepath.Join(dir, "agent.token"), filepath.Join(dir, "part.token")
	s.must("credentials", "issue", "--actor", "agent://a", "--scope", "read", "--scope", "write", "--out", agent,
		"--credentials", operator)
	if info, err := os.Stat(agent); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	calls := func(credential string) (int, string) {
		code, stdout, stderr := s.do("call", "hello", "--input", `"you"`, "--credentials", credential, "--timeout", "20s")
		return code, stdout + stderr
	}
	if code, said := calls(agent); code != 0 || !strings.Contains(said, "hello you") {
		t.Fatalf("exit %d: %s", code, said)
	}
	if code, _, stderr := s.do("call", "hello", "--credentials", agent, "--actor", "agent://b"); code != 2 ||
		!strings.Contains(stderr, "the credentials are of agent://a") {
		t.Errorf("exit code %d to a call as somebody else: %s", code, stderr)
	}
	out := s.must("call", "hello", "--input", `"you"`, "--credentials", operator, "--actor", "agent://c")
	if !strings.Contains(out, "hello you") {
		t.Errorf("an operator who acts as an agent: %s", out)
	}
	if list := s.must("credentials", "list", "--credentials", operator); !strings.Contains(list, "agent://c") {
		t.Errorf("an operator acts as an agent unseen: %s", list)
	}
	shown := s.must("credentials", "inspect", agent)
	if !strings.Contains(shown, "agent://a") || !strings.Contains(shown, "read write") || strings.Contains(shown, "eyJ") {
		t.Error(shown)
	}
	s.must("credentials", "narrow", "--part", "p", "--scope", "read", "--out", part, "--credentials", agent)
	if shown := s.must("credentials", "inspect", part); !strings.Contains(shown, "agent://a/p") {
		t.Error(shown)
	}
	if code, said := calls(part); code != 0 {
		t.Fatalf("exit %d: %s", code, said)
	}
	if list := s.must("credentials", "list", "--credentials", operator); !strings.Contains(list, "agent://a") ||
		!strings.Contains(list, "pool default") {
		t.Error(list)
	}
	said := s.must("credentials", "rotate-keys", "--credentials", operator)
	if !strings.Contains(said, "expire as before") {
		t.Error(said)
	}
	if code, said := calls(agent); code != 0 {
		t.Fatalf("after the exchange of keys: exit %d: %s", code, said)
	}
	s.must("credentials", "revoke", agent, "--credentials", operator)
	for _, credential := range []string{agent, part} {
		if code, said := calls(credential); code == 0 {
			t.Errorf("%s is good after it was revoked: %s", credential, said)
		}
	}
	said = s.must("credentials", "rotate-keys", "--distrust", "--credentials", operator)
	if !strings.Contains(said, "issue the other credentials again") {
		t.Error(said)
	}
	s.must("credentials", "list", "--credentials", operator) // the command has replaced its own token
	if said := s.must("audit", "replay", "--credentials", operator); !strings.Contains(said, "credential_revoked") {
		t.Error(said)
	}
}

// The command says until when the token in a file is valid as it is, and until when it can be renewed.
func TestIssuedTimes(t *testing.T) {
	s, operator := deployed(t)
	for life, renewal := range map[string]string{"720h": ", renewable until ", "0s": ", not renewable\n"} {
		file := filepath.Join(t.TempDir(), "a")
		said := s.must("credentials", "issue", "--actor", "agent://a", "--life", "24h", "--for", life, "--out", file,
			"--credentials", operator)
		held, err := heldBy(file)
		if err != nil {
			t.Fatal(err)
		}
		p := held.Principal()
		want := "; expires " + at(p.Expires.UTC()) + renewal
		if !p.RenewUntil.IsZero() {
			want += at(p.RenewUntil.UTC()) + "\n"
		}
		if !strings.HasSuffix(said, want) || p.Expires.Equal(p.RenewUntil) {
			t.Errorf("for %s: %s, want %s", life, said, want)
		}
	}
}

// A credential whose file is replaced stays good, and the command names it, unless it is good no more.
func TestReplacedCredential(t *testing.T) {
	s, operator := deployed(t)
	file, family := filepath.Join(t.TempDir(), "agent"), ""
	for range 2 {
		code, stdout, stderr := s.do("credentials", "issue", "--actor", "agent://a", "--out", file, "--force",
			"--credentials", operator)
		if code != 0 || strings.Contains(stderr, "toolbus credentials revoke "+family+"`") != (family != "") {
			t.Errorf("replacing %q: exit %d, %s%s", family, code, stdout, stderr)
		}
		held, err := heldBy(file)
		if err != nil {
			t.Fatal(err)
		}
		family = held.Principal().Family
	}
	s.must("credentials", "revoke", file, "--credentials", operator)
	_, _, stderr := s.do("credentials", "issue", "--actor", "agent://a", "--out", file, "--force",
		"--credentials", operator)
	if strings.Contains(stderr, "good until") {
		t.Errorf("replacing one that was revoked: %s", stderr)
	}
}

// The list says what each credential is good for.
func TestCredentialStates(t *testing.T) {
	for state, c := range map[string]admin.Credential{
		"good": {}, "revoked": {Revoked: true, Distrusted: true}, "distrusted": {Distrusted: true},
	} {
		var said strings.Builder
		if err := writeCredentials(&said, []admin.Credential{c}); err != nil || !strings.Contains(said.String(),
			"\n"+state+" ") {
			t.Errorf("%s: %s, %v", state, said.String(), err)
		}
	}
}

// Errors about credentials say what to do.
func TestCredentialMistakes(t *testing.T) {
	s, operator := deployed(t)
	dir := t.TempDir()
	open, agent, auditor := filepath.Join(dir, "open"), filepath.Join(dir, "agent"), filepath.Join(dir, "auditor")
	if err := os.WriteFile(open, []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.must("credentials", "issue", "--actor", "agent://a", "--out", agent, "--credentials", operator)
	s.must("credentials", "issue", "--actor", "agent://b", "--role", "auditor", "--out", auditor,
		"--credentials", operator)
	issue := func(more ...string) []string {
		return append([]string{"credentials", "issue", "--actor", "a", "--credentials", operator}, more...)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no actor":        {[]string{"credentials", "issue", "--credentials", operator}, "--actor"},
		"role":            {issue("--role", "root"), "role"},
		"misspelt role":   {issue("--role", "executer", "--pool", "default"), `no role "executer": did you mean "executor"`},
		"no pool":         {issue("--role", "executor"), "pool"},
		"too long":        {issue("--for", "9000h"), "2160h"},
		"readable":        {[]string{"tools", "list", "--credentials", open}, "chmod 600"},
		"no file":         {[]string{"tools", "list", "--credentials", filepath.Join(dir, "none")}, "--credentials"},
		"no file to call": {[]string{"call", "hello", "--credentials", filepath.Join(dir, "none")}, "name the file"},
		"not an agent":    {[]string{"call", "hello", "--actor", "agent://b", "--credentials", auditor}, "A-AUTH-FORBIDDEN"},
		"there already":   {issue("--out", agent, "--actor", "agent://nobody"), "--force"},
		"no executor":     {issue("--pool", "default"), "--role executor"},
		"no operator":     {[]string{"credentials", "list", "--credentials", agent}, "not for the role agent"},
		"another actor":   {[]string{"credentials", "narrow", "--actor", "agent://z", "--credentials", agent}, "--part NAME"},
		"wider":           {[]string{"credentials", "narrow", "--scope", "x", "--credentials", agent}, "narrowed"},
		"nothing":         {[]string{"credentials", "revoke", "--credentials", operator}, "--actor"},
		"no token":        {[]string{"tools", "list"}, "--credentials"},
		"no keys":         {[]string{"credentials", "issue", "--actor", "a", "--secrets-dir", dir}, "keys"},
	} {
		if code, stdout, stderr := s.do(c.args...); code == 0 || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%s: exit %d, %s%s", name, code, stdout, stderr)
		}
	}
	if all := s.must("credentials", "list", "--credentials", operator); strings.Contains(all, "agent://nobody") {
		t.Errorf("a credential was issued that no file has: %s", all)
	}
}

// A credential that has expired is renewed by its next use, and its file replaced.
func TestCredentialRenewedAtUse(t *testing.T) {
	s, operator := deployed(t)
	keys, err := deployment.Load(filepath.Join(filepath.Dir(operator), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := keys.Signer()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second)
	before, err := signer.Mint(auth.Principal{
		Tenant: "default", Actor: "agent://a", Role: auth.Agent, ID: "a", Family: "b", Issued: now.Add(-time.Hour),
		Expires: now.Add(-time.Minute), RenewUntil: now.Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(file, []byte(before+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("call", "hello", "--input", `"you"`, "--credentials", file)
	held, err := tokensource.Read(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if p := held.Principal(); p.Family != "b" || !p.Expires.After(now) || held.Token() == before {
		t.Errorf("%+v", p)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

// A Go program calls on a bus of `toolbus dev` as the documentation of package toolbus says. Without a token, and as
// another actor than that of its token, the error says what to do.
func TestGoProgramOnDev(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "me.token")
	s.must("credentials", "issue", "--actor", "agent://me", "--out", file)
	_, err := toolbus.Connect(t.Context(), s.url, toolbus.Options{})
	if err == nil || !strings.Contains(err.Error(), "Options.CredentialsFile: `toolbus dev` prints its name, as export") ||
		!strings.Contains(err.Error(), "toolbus credentials issue") {
		t.Errorf("without a token: %v", err)
	}
	conn, err := toolbus.Connect(t.Context(), s.url, toolbus.Options{CredentialsFile: file})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for actor, want := range map[string]envelope.Code{"": "", "agent://other": envelope.CodeIdentity} {
		client, err := conn.Client(toolbus.ClientOptions{Actor: actor})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Call(t.Context(), toolbus.Call{Tool: "play", Input: []byte(`{"say":"hi"}`)})
		if toolbus.CodeOf(err) != want || err != nil && !strings.Contains(err.Error(), `the token is of "agent://me"`) {
			t.Errorf("as %q: %v", actor, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}
