package natstest_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Stored messages survive a restart, and connections reconnect.
func TestRestartKeepsStateAndPort(t *testing.T) {
	for _, row := range []struct {
		name    string
		options []natstest.Option
	}{
		{"default", nil},
		{"sync always", []natstest.Option{natstest.SyncAlways()}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			srv := natstest.Start(t, row.options...)
			url, js := srv.URL, srv.JetStream(t)
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := js.Publish(t.Context(), "s.1", []byte("kept")); err != nil {
				t.Fatal(err)
			}

			srv.Restart()

			if srv.URL != url {
				t.Fatalf("URL changed from %s to %s", url, srv.URL)
			}
			stream, err := srv.JetStream(t).Stream(t.Context(), "S")
			if err != nil {
				t.Fatal(err)
			}
			msg, err := stream.GetLastMsgForSubject(t.Context(), "s.1")
			if err != nil || string(msg.Data) != "kept" {
				t.Fatalf("got %v, %v", msg, err)
			}
			for range 10 { // what the old connection sends at once arrives
				srv.Restart()
				if _, err := js.Publish(t.Context(), "s.2", nil); err != nil {
					t.Fatalf("a message after a restart is lost: %v", err)
				}
			}
		})
	}
}

func TestStopTwice(t *testing.T) {
	srv := natstest.Start(t)
	srv.Stop()
	srv.Stop()
	srv.Restart()
	if err := srv.Connect(t).Flush(); err != nil {
		t.Fatal(err)
	}
}
