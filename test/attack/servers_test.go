package attack

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

var full = flag.Bool("full", false,
	"attack three servers with TLS, whose executors have a user of their own, by 10,000 connections")

// serve makes the keys of the deployment and starts its servers: one in the clear, or at full scale three with TLS.
func (d *devDeployment) serve() {
	d.Helper()
	plan := deployment.Plan{Deployment: "target", Profile: "single", Etc: d.dir, Store: filepath.Join(d.dir, "store")}
	if *full {
		plan.Profile, plan.Encrypted = "standard", true
	}
	profile, err := deployment.ProfileNamed(plan.Profile)
	d.ok(err)
	for range profile.Servers {
		plan.Hosts = append(plan.Hosts, fmt.Sprint("127.0.0.1:", processtest.FreePort(d)))
	}
	_, err = plan.Write(d.dir)
	d.ok(err)
	d.ok(os.MkdirAll(plan.Store, 0o700))
	d.url, err = plan.URL()
	d.ok(err)
	d.keys, err = deployment.Load(filepath.Join(d.dir, "keys"))
	d.ok(err)
	for i := range profile.Servers {
		d.start(fmt.Sprint("nats-", i+1))
	}
	if *full {
		d.tls = processtest.TLS(d, d.dir)
	}
}

// start runs a server until the test ends, and keeps what it logs. Streams may reserve more than the disk has.
func (d *devDeployment) start(name string) {
	d.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, name+".conf"))
	d.ok(err)
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "log")
	})
	conf := strings.Replace(strings.Join(lines, "\n"), "jetstream {", "jetstream {\n  max_file_store: 1TB", 1)
	srv, err := natsserver.Start(natsserver.Options{Config: conf, Log: slog.New(&d.log)})
	d.ok(err)
	d.Cleanup(func() {
		srv.Stop()
		if d.Failed() {
			d.Logf("the server closed connections that read too slowly: %q", d.log.with("Slow Consumer"))
		}
	})
}

// options are those of a connection, with TLS where the deployment has it.
func (d *devDeployment) options(more ...nats.Option) []nats.Option {
	if d.tls != nil {
		more = append(more, nats.Secure(d.tls))
	}
	return more
}
