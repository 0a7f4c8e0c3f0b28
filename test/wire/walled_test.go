package wire

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/deployment/deploymenttest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// shortLife is so short that a token has to be renewed while a call waits.
const shortLife = 6 * time.Second

// serveWalled runs a bus with identity, with the tool of the page. The folder has tokens of agents: agent.token,
// brief.token, which lives for shortLife, and late.token, which has expired and may be renewed.
func serveWalled(t *testing.T) (url, folder string) {
	t.Helper()
	d, err := deploymenttest.Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config, err := d.Configure(deployment.Shape{Server: "walled", Listen: "127.0.0.1:-1", Store: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := natsserver.Start(natsserver.Options{ConfigFile: config, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Stop)
	agent := auth.Principal{Actor: "agent://py", Role: auth.Agent}
	expire(t, d, agent)
	for name, life := range map[string]time.Duration{"agent": time.Hour, "brief": shortLife} {
		if err := d.Issue(name, "default", agent, life); err != nil {
			t.Fatal(err)
		}
	}
	executor := auth.Principal{Actor: "executor://x", Role: auth.Executor, Pool: "default"}
	if err := d.Issue("executor", "default", executor, time.Hour); err != nil {
		t.Fatal(err)
	}
	serve(t, func(executes bool) (*app.Conn, error) {
		o := app.Options{Options: link.Options{URL: srv.URL()}, Lease: lease}
		if !executes {
			o.Keys = d.Keys()
			return app.Connect("wire", o)
		}
		held, err := link.Hold(d.Credentials("executor"), &o.Options)
		if err != nil {
			return nil, err
		}
		nc, err := held.Dial(t.Context(), "wire", o.Options)
		if err != nil {
			return nil, err
		}
		return app.Open(nc, o)
	})
	return srv.URL(), filepath.Dir(d.Credentials("agent"))
}

// expire writes late.token.
func expire(t *testing.T, d *deploymenttest.Deployment, p auth.Principal) {
	t.Helper()
	signer, err := d.Keys().Signer()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second)
	p.Tenant, p.ID, p.Family = "default", auth.NewID(), auth.NewID()
	p.Issued, p.Expires, p.RenewUntil = now.Add(-time.Hour), now.Add(-time.Minute), now.Add(time.Hour)
	token, err := signer.Mint(p)
	if err == nil {
		err = os.WriteFile(d.Credentials("late"), []byte(token+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
