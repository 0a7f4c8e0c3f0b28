package natsserver_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// Streams may be larger than the disk: what they reserve is rarely used.
func TestStreamLargerThanTheDisk(t *testing.T) {
	srv, err := natsserver.Start(natsserver.Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Stop()
	nc, err := nats.Connect(srv.URL(), srv.InProcess())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	large := jetstream.StreamConfig{Name: "LARGE", Subjects: []string{"large"}, Storage: jetstream.FileStorage, MaxBytes: 1 << 40}
	if _, err := js.CreateStream(t.Context(), large); err != nil {
		t.Error(err)
	}
}

// What the server finds wrong is said: here a folder in its store that is no stream.
func TestLog(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "jetstream", "$G", "streams", "BROKEN"), 0o700); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	srv, err := natsserver.Start(natsserver.Options{StoreDir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	srv.Stop()
	if said := log.String(); !strings.Contains(said, "level=WARN") || !strings.Contains(said, "BROKEN") {
		t.Errorf("the log is %q", said)
	}
}
