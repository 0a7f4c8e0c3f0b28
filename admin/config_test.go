package admin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// A configuration as it is written passes, and each limit that it lacks is named.
func TestConfiguration(t *testing.T) {
	keys, err := deployment.NewKeys("test")
	if err != nil {
		t.Fatal(err)
	}
	public, err := keys.Public()
	if err != nil {
		t.Fatal(err)
	}
	conf, err := deployment.Config("test", public, deployment.Shape{
		Server: "one", Listen: "127.0.0.1:4222", Store: t.TempDir(), Log: "one.log", SyncAlways: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ old, with, check, says string }{
		"as it is written":       {"", "", "", ""},
		"no limit of an account": {"max_connections: 2000, ", "", "account limits", "connections of EXEC"},
		"accounts take all":      {"max_connections: 7500, ", "max_connections: 10000, ", "account limits", "may have 12400"},
		"a small server":         {"max_connections: 10000", "max_connections: 9950", "account limits", "of 9950"},
		"much for slow clients":  {"max_pending: 8388608", "max_pending: 64MB", "slow clients", "more than 8 MiB"},
		"long for slow clients":  {`write_deadline: "5s"`, "", "slow clients", "longer than 5s"},
		"a log without size":     {"logfile_size_limit: 67108864", "", "server log", "not limit its log"},
		"a log without number":   {"logfile_max_num: 4", "", "server log", "not limit its log"},
		"no log":                 {`log_file: "one.log"`, "", "", ""},
		"syncs now and then":     {"sync_interval: always", `sync_interval: "2m"`, "sync", "profile single-durable"},
		"nonsense":               {"accounts {", "accounts {{", "configuration", "one.conf"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(conf, test.old) {
				t.Fatalf("the configuration has no %s", test.old)
			}
			file := filepath.Join(t.TempDir(), "one.conf")
			if err := os.WriteFile(file, []byte(strings.Replace(conf, test.old, test.with, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			all := byName(t, admin.Configuration(file, "single-durable"))
			if bad := wrong(all, test.check); len(bad) > 0 {
				t.Errorf("%q", bad)
			}
			if c := all[test.check]; test.check != "" && (c.Status != admin.CheckFailed ||
				!strings.Contains(c.Says, test.says)) {
				t.Errorf("%+v, want %s", c, test.says)
			}
		})
	}
}

// A stream whose writes are acknowledged before they are on disk is named, and no dispatcher starts with it.
func TestAsynchronousStream(t *testing.T) {
	for _, name := range []string{subjects.DeadStream, subjects.ControlStream} {
		srv := natstest.Start(t)
		js := srv.JetStream(t)
		if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
			t.Fatal(err)
		}
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		c.PersistMode, c.AllowAtomicPublish = jetstream.AsyncPersistMode, false
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		err = bus.Ensure(t.Context(), js, bus.TopologyOptions{})
		if err == nil || !strings.Contains(err.Error(), "persist_mode") {
			t.Errorf("%s: %v", name, err)
		}
		found := byName(t, admin.Diagnose(t.Context(), srv.URL, toolbus.ClientOptions{}))[name]
		if found.Status != admin.CheckFailed || !strings.Contains(found.Says, "persist_mode") {
			t.Errorf("%+v", found)
		}
	}
}
