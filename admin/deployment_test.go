package admin_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// walled is a deployment with accounts and a dispatcher, whose server's configuration may have been changed.
type walled struct {
	t       *testing.T
	keys    *deployment.Keys
	secrets string // the folder of keys
	url     string
}

const operatorUser = "operator.default.agent_3a_2f_2fop.0123456789ab"

func deploy(t *testing.T, change func(conf string) string) *walled {
	t.Helper()
	secrets := filepath.Join(t.TempDir(), "keys")
	keys, err := deployment.Create(secrets, "test")
	if err == nil {
		keys.Profile = "single"
		err = os.WriteFile(filepath.Join(secrets, "profile"), []byte("single\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	public, err := keys.Public()
	if err != nil {
		t.Fatal(err)
	}
	conf, err := deployment.Config("test", public, deployment.Shape{
		Server: "one", Listen: "127.0.0.1:-1", Store: t.TempDir(), MaxStore: 1 << 40,
	})
	if err != nil {
		t.Fatal(err)
	}
	changed := change(conf)
	srv, err := natsserver.Start(natsserver.Options{Config: changed})
	if err != nil {
		t.Fatalf("%v\n%s", err, changed)
	}
	t.Cleanup(srv.Stop)
	w := &walled{t: t, keys: keys, secrets: secrets, url: srv.URL()}
	w.dispatch()
	return w
}

// dispatch runs a dispatcher until the test ends.
func (w *walled) dispatch() { w.dispatchWith(app.Options{}) }

func (w *walled) dispatchWith(o app.Options) {
	w.t.Helper()
	o.URL, o.Keys = w.url, w.keys
	c, err := app.Connect("dispatcher", o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- app.RunDispatcher(ctx, c, app.DispatcherOptions{
			AllowAll: true, Tools: tool.NewSet(), Version: "0.0.0", Ready: func() { close(ready) },
		})
	}()
	w.t.Cleanup(func() { stop(); <-done })
	select {
	case <-ready:
	case err := <-done:
		w.t.Fatal(err)
	}
}

// operator looks at the deployment with a token, which the connection shows, too, unless it is opened otherwise.
func (w *walled) operator(connect ...nats.Option) map[string]admin.Check {
	w.t.Helper()
	signer, err := w.keys.Signer()
	if err != nil {
		w.t.Fatal(err)
	}
	now := time.Now()
	token, err := signer.Mint(auth.Principal{
		Tenant: "default", Actor: "agent://op", Role: auth.Operator, ID: auth.NewID(), Family: "0123456789ab",
		Issued: now, Expires: now.Add(time.Hour),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return byName(w.t, admin.Diagnose(w.t.Context(), w.url,
		toolbus.ClientOptions{Actor: "agent://op", Token: func() string { return token }}, connect...))
}

// withSecrets looks at the deployment with its keys.
func (w *walled) withSecrets(profile string) map[string]admin.Check {
	w.t.Helper()
	checks, err := admin.DiagnoseWithSecrets(w.t.Context(), w.url, w.secrets, profile)
	if err != nil {
		w.t.Fatal(err)
	}
	return byName(w.t, checks)
}

// byName sees to it that what fails says what to do.
func byName(t *testing.T, checks []admin.Check) map[string]admin.Check {
	t.Helper()
	all := map[string]admin.Check{}
	for _, c := range checks {
		if c.Status != admin.CheckOK && c.Status != "open" && c.Fix == "" {
			t.Errorf("no fix: %+v", c)
		}
		if old, twice := all[c.Name]; !twice || old.Status == admin.CheckOK {
			all[c.Name] = c
		}
	}
	return all
}

// wrong lists the checks that do not pass but for those that are expected, and for those of executors, of which there
// is none, and of the number of dispatchers.
func wrong(all map[string]admin.Check, expected ...string) (names []string) {
	for name, c := range all {
		skip := name == "executors" || name == "redundancy" || c.Status == "open"
		for _, e := range expected {
			skip = skip || e == name
		}
		if !skip && c.Status != admin.CheckOK {
			names = append(names, name+": "+c.Says)
		}
	}
	return names
}

// What is as it was written passes, looked at with the keys and as an operator, and each thing that is not is named.
func TestDeployment(t *testing.T) {
	replace := func(old, with string) func(string) string {
		return func(conf string) string {
			if !strings.Contains(conf, old) {
				t.Fatalf("the configuration has no %s", old)
			}
			return strings.Replace(conf, old, with, 1)
		}
	}
	const imported = "imports: [\n      {service: {account: TB," // the first are those of AGENTS
	for name, test := range map[string]struct {
		change      func(string) string
		check, says string
	}{
		"as it should be": {change: func(s string) string { return s }},
		"an import is missing": {replace(`{service: {account: TB, subject: "tb.chunk.>"}}`, ""),
			"rights missing", "EXEC of one lacks service tb.chunk.> from TB"},
		"an import too many": {func(conf string) string {
			conf = strings.Replace(conf, "exports: [", "exports: [\n{service: \"$JS.API.STREAM.>\", accounts: [AGENTS]}", 1)
			return replace(imported, "imports: [{service: {account: TB, subject: \"$JS.API.STREAM.>\"}}\n"+
				strings.TrimPrefix(imported, "imports: ["))(conf)
		}, "rights too many", "AGENTS of one has service $JS.API.STREAM.> from TB"},
		"slow clients take up much": {replace("max_pending: 8388608", "max_pending: 64MB"),
			"limits", "one let a client that does not read take up more than 8 MiB"},
		"slow clients for long": {replace(`write_deadline: "5s"`, ""), "limits", "longer than 5s"},
		"few connections":       {replace("max_connections: 10000", "max_connections: 1000"), "limits", "fewer than 10000"},
		"monitoring for all": {replace("max_payload: 1MB", "max_payload: 1MB\nhttp: \"0.0.0.0:-1\""),
			"listeners", "one answer monitoring to everybody"},
	} {
		t.Run(name, func(t *testing.T) {
			w := deploy(t, test.change)
			for how, all := range map[string]map[string]admin.Check{
				"keys": w.withSecrets(""), "operator": w.operator(),
			} {
				if bad := wrong(all, test.check); len(bad) > 0 {
					t.Errorf("%s: %q", how, bad)
				}
				if c := all[test.check]; test.check != "" && (c.Status != admin.CheckFailed ||
					!strings.Contains(c.Says, test.says)) {
					t.Errorf("%s: %+v, want %s", how, c, test.says)
				}
				if c := all["rights"]; c.Status != admin.CheckOK {
					t.Errorf("%s: %+v", how, c)
				}
			}
		})
	}
}

// An operator whose connection may do less than its role, or more, is told so, and one that no token has opened.
func TestOwnRights(t *testing.T) {
	const publish, hear = `"tb.svc.*.default.agent_3a_2f_2fop"`, `"tb.ans.default.agent_3a_2f_2fop.>", ` +
		`"_INBOX.default.agent_3a_2f_2fop.>"`
	for name, test := range map[string]struct {
		publish, hear string
		says          string
	}{
		"as it should be": {publish, hear, ""},
		"one missing": {publish, `"tb.ans.default.agent_3a_2f_2fop.>"`,
			"missing: hear _INBOX.default.agent_3a_2f_2fop.>"},
		"one too many": {publish + `, "$JS.API.>"`, hear, "too many: publish $JS.API.INFO"},
		"hears others": {publish, hear + `, "tb.chunk.>"`, "too many: hear tb.chunk.>"},
	} {
		t.Run(name, func(t *testing.T) {
			user := `{user: "` + operatorUser + `", password: x, permissions: {publish: {allow: [` + test.publish +
				`]}, subscribe: {allow: [` + test.hear + `]}}}`
			w := deploy(t, func(conf string) string {
				conf = strings.Replace(conf, "  AGENTS {\n", "  AGENTS {\n    users: ["+user+"]\n", 1)
				return strings.Replace(conf, "auth_users: [", `auth_users: ["`+operatorUser+`", `, 1)
			})
			all := w.operator(nats.UserInfo(operatorUser, "x"))
			c := all["rights"]
			if (test.says == "") != (c.Status == admin.CheckOK) || !strings.Contains(c.Says, test.says) {
				t.Errorf("%+v, want %q", c, test.says)
			}
		})
	}
	w := deploy(t, func(conf string) string {
		conf = strings.Replace(conf, "  AGENTS {\n", "  AGENTS {\n    users: [{user: bob, password: x}]\n", 1)
		return strings.Replace(conf, "auth_users: [", "auth_users: [bob, ", 1)
	})
	bob := admin.Diagnose(t.Context(), w.url, toolbus.ClientOptions{}, nats.UserInfo("bob", "x"))
	if c := byName(t, bob)["rights"]; c.Status != admin.CheckFailed || !strings.Contains(c.Says, "has shown no token") {
		t.Errorf("%+v", c)
	}
	nc, err := nats.Connect(w.url, nats.UserInfo("bob", "x"), nats.Name("bob's"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	all := w.withSecrets("")
	if c := all["connections"]; c.Status != admin.CheckFailed || !strings.Contains(c.Says, `"bob's" in AGENTS`) {
		t.Errorf("%+v", c)
	}
}

// A deployment that is of another profile than it should be is told what that has and it has not.
func TestProfile(t *testing.T) {
	w := deploy(t, func(conf string) string { return conf })
	all := w.withSecrets("durable")
	for name, says := range map[string]string{
		"servers": "1 answer, and profile durable has 3", "sync": "before they are on disk",
		"replicas": "KV_calls is on 1",
	} {
		if c := all[name]; c.Status != admin.CheckFailed || !strings.Contains(c.Says, says) {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if bad := wrong(all, "servers", "sync", "replicas"); len(bad) > 0 {
		t.Errorf("%q", bad)
	}
}

// Where tokens are not asked for, that is a warning.
func TestOpen(t *testing.T) {
	srv, err := natsserver.Start(natsserver.Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Stop)
	c := byName(t, admin.Diagnose(t.Context(), srv.URL(), toolbus.ClientOptions{}))["rights"]
	if c.Status != admin.CheckWarning || !strings.Contains(c.Says, "may do everything") {
		t.Errorf("%+v", c)
	}
}

// A dispatcher without secrets is a failure, whether doctor shows a token or not.
func TestDispatcherWithoutSecrets(t *testing.T) {
	w := deploy(t, func(conf string) string { return conf })
	if c := w.operator()["authentication"]; c.Status != admin.CheckOK || !strings.Contains(c.Says, "1, each asks") {
		t.Errorf("with secrets: %+v", c)
	}
	srv, err := natsserver.Start(natsserver.Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Stop)
	conn, err := toolbus.Connect(t.Context(), srv.URL(), toolbus.Options{Instance: "careless"})
	if err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan string, 1), make(chan error, 1)
	d, err := conn.Dispatcher(toolbus.NewToolset(), toolbus.DispatcherOptions{
		InsecureNoAuth: true, AllowAll: true, Ready: func(instance string) { ready <- instance },
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- d.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() { conn.Close(); <-ended })
	<-ready
	w.url = srv.URL()
	for name, checks := range map[string]map[string]admin.Check{
		"without a token": byName(t, admin.Diagnose(t.Context(), srv.URL(), toolbus.ClientOptions{})),
		"with a token":    w.operator(),
	} {
		c := checks["authentication"]
		if c.Status != admin.CheckFailed || !strings.Contains(c.Says, "careless") || !strings.Contains(c.Fix, "keys init") {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// Doctor hears each dispatcher, and names the one that lacks --sync always.
func TestDiagnoseSyncOfEach(t *testing.T) {
	w := deploy(t, func(conf string) string { return conf })
	if c := w.operator()["settings"]; c.Status != admin.CheckOK {
		t.Errorf("one dispatcher: %+v", c)
	}
	w.dispatchWith(app.Options{Fsync: true, Lease: 2 * bus.DefaultLease})
	c := w.operator()["settings"]
	for _, says := range []string{"--sync is always at d-", " and interval at d-", "--lease is 10s at d-"} {
		if c.Status != admin.CheckFailed || !strings.Contains(c.Says, says) {
			t.Errorf("no %q: %+v", says, c)
		}
	}
}

// One dispatcher is a warning where `toolbus keys init` has named a profile.
func TestRedundancy(t *testing.T) {
	w := deploy(t, func(conf string) string { return conf })
	if c := w.withSecrets("")["redundancy"]; c.Status != admin.CheckWarning || !strings.Contains(c.Fix, "second one") {
		t.Errorf("one dispatcher: %+v", c)
	}
	w.dispatch()
	if c := w.withSecrets("")["redundancy"]; c.Name != "" {
		t.Errorf("two dispatchers: %+v", c)
	}
}
