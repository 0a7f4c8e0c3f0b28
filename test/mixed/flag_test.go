package mixed

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
)

// An executor of f16d274 alone, with a dispatcher of this build, runs a call whose input and output go through the
// payload store: it reads the input by a direct get of its own, and hears answers at its reply subjects. It does so
// only if the dispatcher runs with --older-builds. Chaos does not show that, since executors of this build take over.
func TestOlderExecutorsNeedTheFlag(t *testing.T) {
	older := build(t, source(t, withTokens), "")
	programs := processtest.Build(t, root, "transcript_2eclean")
	for name, with := range map[string]struct {
		flags []string
		want  bool
	}{"with": {[]string{"--older-builds"}, true}, "without": {nil, false}} {
		t.Run(name, func(t *testing.T) {
			status, err := callLarge(t, programs, older, with.want, with.flags...)
			if ok := err == nil && status == toolbus.Success; ok != with.want {
				t.Errorf("the call ends with %s, %v", status, err)
			}
		})
	}
}

// callLarge starts a dispatcher of this build with flags and an executor of the older one, and makes the call. The
// executor serves before the call is made if it can serve at all.
func callLarge(t *testing.T, of processtest.Programs, older string, serves bool, flags ...string) (
	toolbus.Status, error,
) {
	t.Helper()
	d := processtest.Prepare(t, processtest.Options{Programs: of, Profile: "single"})
	d.Serve(0)
	args := append([]string{"dispatcher", "--secrets-dir", filepath.Join(d.Dir, "keys"), "--tools", d.Tools},
		d.Access()...)
	processtest.Start(t, "is serving", d.Toolbus(), append(args, flags...)...)
	file, _ := d.Credential(auth.Principal{Actor: "executor://x", Role: auth.Executor, Pool: "default"})
	ready := "waiting for a dispatcher"
	if serves {
		ready = "works for pool"
	}
	processtest.Start(t, ready, older, append([]string{"executor", "--tools", d.Tools, "--credentials", file},
		d.Access()...)...)
	_, token := d.Credential(auth.Principal{Actor: "agent://a", Role: auth.Agent})
	conn, err := toolbus.Connect(t.Context(), d.URL, toolbus.Options{
		Actor: "agent://a", NATS: []nats.Option{nats.Token(token)},
	})
	if err != nil {
		return "", err
	}
	t.Cleanup(conn.Close)
	client, err := conn.Client(toolbus.ClientOptions{Actor: "agent://a", Token: func() string { return token }})
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = client.Close() })
	r, err := toolbus.Outcome(client.Call(t.Context(), toolbus.Call{
		Tool: "transcript.clean", Timeout: 10 * time.Second,
		Input: fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("A line of a long text.\n\n", 30_000)),
	}))
	if err != nil {
		return "", err
	}
	if r.Status != toolbus.Success {
		t.Log(r.Error)
	}
	return r.Status, nil
}
