package bus

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Streams that somebody else has made, or changed, so that calls would be lost, forgotten too early or never
// acknowledged, are refused; the setting is named.
func TestForeignStreams(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	for setting, change := range map[string]func(*jetstream.StreamConfig){
		"storage is Memory": func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"persist_mode": func(c *jetstream.StreamConfig) {
			c.PersistMode, c.AllowAtomicPublish = jetstream.AsyncPersistMode, false
		},
		"allow_atomic is false":     func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false },
		"no_ack is true":            func(c *jetstream.StreamConfig) { c.NoAck, c.AllowAtomicPublish = true, false },
		"allow_rollup_hdrs is true": func(c *jetstream.StreamConfig) { c.AllowRollup, c.DenyPurge = true, false },
		"allow_msg_counter is true": func(c *jetstream.StreamConfig) {
			c.AllowMsgCounter, c.AllowMsgTTL, c.Discard = true, false, jetstream.DiscardOld
		},
		"discard_new_per_subject is true": func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = true },
		"sources is 1": func(c *jetstream.StreamConfig) {
			c.Sources = []*jetstream.StreamSource{{Name: subjects.AuditStream}}
		},
		"mirror is true": func(c *jetstream.StreamConfig) {
			*c = jetstream.StreamConfig{Name: c.Name, Mirror: &jetstream.StreamSource{Name: subjects.AuditStream}}
		},
		"subject_transform is true": func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "$KV.calls.>", Destination: "$KV.other.>"}
		},
		"max_age is 1h0m0s":    func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"max_msgs is 1000":     func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 },
		"max_msg_size is 1024": func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1024 },
	} {
		t.Run(setting, func(t *testing.T) {
			if err := Ensure(t.Context(), js, TopologyOptions{}); err != nil {
				t.Fatal(err)
			}
			foreign := Streams(TopologyOptions{Partitions: 1}.withDefaults())[0]
			change(&foreign)
			if err := js.DeleteStream(t.Context(), foreign.Name); err != nil {
				t.Fatal(err)
			}
			if _, err := js.CreateStream(t.Context(), foreign); err != nil {
				t.Fatal(err)
			}
			refused(t, js, "stream "+foreign.Name+": "+setting)
			if left, err := js.Stream(t.Context(), foreign.Name); err != nil ||
				left.CachedInfo().Config.AllowAtomicPublish != foreign.AllowAtomicPublish {
				t.Errorf("it was changed, or is gone: %v", err)
			}
			if err := js.DeleteStream(t.Context(), foreign.Name); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A server on which a stream may not be made is refused with what to do about it.
func TestStreamsMayNotBeMade(t *testing.T) {
	t.Run("overlap", func(t *testing.T) {
		js := natstest.Start(t).JetStream(t)
		if _, err := js.CreateStream(t.Context(),
			jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"tb.>"}}); err != nil {
			t.Fatal(err)
		}
		refused(t, js, "it needs tb.audit.> for itself")
	})
	t.Run("account", func(t *testing.T) {
		refused(t, account(t, "max_file: 1G"), "max_file of the account")
	})
	t.Run("streams", func(t *testing.T) {
		refused(t, account(t, "max_streams: 3"), "raise max_streams of the account")
	})
	t.Run("cluster", func(t *testing.T) {
		js := natstest.StartCluster(t, 3, func(o *server.Options) { o.JetStreamMaxStore = 1 << 30 })[0].JetStream(t)
		refused(t, js, "it takes 1 servers that are there and can reserve 4096 MiB each")
	})
}

// account is the JetStream of an account with these limits.
func account(t *testing.T, limits string) jetstream.JetStream {
	t.Helper()
	return accountWith(t, "jetstream { "+limits+" },")
}

// accountWith is the JetStream of an account with these settings.
func accountWith(t *testing.T, settings string) jetstream.JetStream {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(conf, []byte("accounts { A { "+settings+" users: [{user: a, password: a}] } }"),
		0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	srv := natstest.Start(t, func(to *server.Options) { to.Accounts, to.Users = o.Accounts, o.Users })
	js, err := jetstream.New(srv.Connect(t, nats.UserInfo("a", "a")))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// deaf is a JetStream that does not hear what became of its first attempt to make a stream.
type deaf struct {
	jetstream.JetStream
	tries int
}

func (d *deaf) CreateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := d.JetStream.CreateStream(ctx, c)
	if d.tries++; d.tries == 1 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s, err
}

// A server that has made a stream and did not say so, as one of a cluster may that has only just formed, is
// asked again.
func TestStreamIsMadeUnheard(t *testing.T) {
	js := &deaf{JetStream: natstest.Start(t).JetStream(t)}
	if err := Ensure(t.Context(), js, TopologyOptions{}); err != nil || js.tries < 2 {
		t.Errorf("after %d tries: %v", js.tries, err)
	}
}

// Sizes, and the ages of what has one, are the operator's.
func TestStreamsOfOtherSizes(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	for _, c := range Streams(TopologyOptions{Partitions: 1}.withDefaults()) {
		c.MaxBytes /= 2
		c.MaxMsgSize = 1 << 20
		if c.MaxAge > 0 {
			c.MaxAge, c.MaxMsgs = c.MaxAge/2, 1_000_000
		}
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := Ensure(t.Context(), js, TopologyOptions{}); err != nil {
		t.Error(err)
	}
}

// What is said of the record's retention holds for streams that are there, too; what is not said stays as it is. That
// the record of calls refuses what it has no room for is nobody's mistake, and that it forgets it neither.
func TestRetention(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	config := func(name string) jetstream.StreamConfig {
		t.Helper()
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().Config
	}
	given := Retention{AuditAge: time.Hour, AuditBytes: 2 << 20, AuditFull: Refuse, DeniedAge: time.Minute,
		DeniedBytes: 3 << 20}
	for _, step := range []struct {
		given, want Retention
		discard     jetstream.DiscardPolicy
	}{
		{Retention{}, Retention{AuditAge: month, AuditBytes: 4 << 30, DeniedAge: month, DeniedBytes: 512 << 20},
			jetstream.DiscardOld},
		{given, given, jetstream.DiscardNew},
		{Retention{}, given, jetstream.DiscardNew},
		{Retention{AuditFull: DropOldest}, given, jetstream.DiscardOld},
	} {
		if err := Ensure(t.Context(), js, TopologyOptions{Retention: step.given}); err != nil {
			t.Fatal(err)
		}
		a, d := config(subjects.AuditStream), config(subjects.DeniedStream)
		have := Retention{AuditAge: a.MaxAge, AuditBytes: a.MaxBytes, AuditFull: step.want.AuditFull, DeniedAge: d.MaxAge,
			DeniedBytes: d.MaxBytes}
		if have != step.want || a.Discard != step.discard || d.Discard != jetstream.DiscardOld {
			t.Errorf("%+v: %+v, %s, %s", step.given, have, a.Discard, d.Discard)
		}
	}
	dead := config(subjects.DeadStream)
	if dead.MaxAge != month {
		t.Errorf("dead letters are kept for %s", dead.MaxAge)
	}
}

// A server that can reserve no more serves with the streams that it has, of which SURPLUS is the last.
func TestStreamsFillTheStore(t *testing.T) {
	js := natstest.Start(t, func(o *server.Options) { o.JetStreamMaxStore = 27 << 29 }).JetStream(t)
	for range 2 {
		if err := Ensure(t.Context(), js, TopologyOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// A sealed stream takes nothing.
func TestSealedStream(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := Ensure(t.Context(), js, TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	sealed := Streams(TopologyOptions{Partitions: 1}.withDefaults())[2]
	sealed.Sealed = true
	if _, err := js.UpdateStream(t.Context(), sealed); err != nil {
		t.Fatal(err)
	}
	refused(t, js, "stream "+sealed.Name+": sealed is true")
}

func refused(t *testing.T, js jetstream.JetStream, says string) {
	t.Helper()
	if err := Ensure(context.WithoutCancel(t.Context()), js, TopologyOptions{}); err == nil ||
		!strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want %s", err, says)
	}
}
