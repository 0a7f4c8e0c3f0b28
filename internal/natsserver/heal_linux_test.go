package natsserver_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// A server whose disk was full stores messages again when there is room, without being started again, and has kept what
// it acknowledged before. The disk is full because no file of this process may grow beyond fullSize.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer // read when the server has ended
	srv, err := natsserver.Start(natsserver.Options{StoreDir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	stop := func() { srv.Stop() }
	defer func() { stop() }()
	js, end := connect(t, srv)
	defer end()
	for _, name := range []string{"WELL", "FULL"} {
		c := jetstream.StreamConfig{Name: name, Subjects: []string{name + ".*"}, Storage: jetstream.FileStorage}
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(subject string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := js.Publish(ctx, subject, make([]byte, 100<<10))
		return err
	}
	if err := publish("WELL.before"); err != nil {
		t.Fatal(err)
	}
	makeRoom := fillDisk(t)
	if err := publish("FULL.before"); err != nil { // it fits
		t.Error(err)
	}
	for range 2 {
		if err := publish("FULL.refused"); err == nil {
			t.Fatal("a message was stored on a full disk")
		}
	}
	makeRoom()
	healed := time.Now().Add(time.Minute)
	for err := publish("FULL.after"); err != nil; err = publish("FULL.after") {
		if time.Now().After(healed) {
			t.Fatal(err)
		}
	}
	if err := publish("WELL.after"); err != nil {
		t.Error(err)
	}
	for subject, want := range map[string]bool{
		"WELL.before": true, "WELL.after": true, "FULL.before": true, "FULL.after": true, "FULL.refused": false,
	} {
		s, err := js.Stream(t.Context(), subject[:4])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.GetLastMsgForSubject(t.Context(), subject); (err == nil) != want {
			t.Errorf("%s: %v", subject, err)
		}
	}
	srv.Stop()
	stop = func() {}
	for _, said := range []string{"make room on the disk", "the disk has room again"} {
		if n := strings.Count(log.String(), said); n != 1 {
			t.Errorf("the log says %q %d times:\n%s", said, n, &log)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "room")); !os.IsNotExist(err) {
		t.Errorf("the file that probes for room is there: %v", err)
	}
}

// fullSize is the largest size of a file while the disk is full.
const fullSize = 150 << 10

// fillDisk makes writes beyond fullSize fail until room is called, at the latest when the test ends.
func fillDisk(t *testing.T) (room func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ) // the write returns an error then
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	set := func(soft uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: soft, Max: before.Max}); err != nil {
			t.Error(err)
		}
	}
	set(fullSize)
	t.Cleanup(func() { set(before.Cur); signal.Reset(syscall.SIGXFSZ) })
	return func() { set(before.Cur) }
}
