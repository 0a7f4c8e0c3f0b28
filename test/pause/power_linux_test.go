package pause

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/kv"
)

// What a crash and a power cut lose of what was acknowledged, as far as one machine can show it.
// A power cut takes what the kernel has not written to the disk yet, and the kernel tells which
// pages these are. So the server is stopped in the middle of its work, and its files are copied
// without the pages that are dirty: that is the disk as the cut would leave it. What is not
// shown: files whose very names are not on the disk yet, and disks that lie about their caches.

// TestKilledServerLosesNothing: what was acknowledged is in the kernel's hands at least.
func TestKilledServerLosesNothing(t *testing.T) {
	for _, sync := range []string{"always", "default"} {
		t.Run(sync, func(t *testing.T) {
			dir := t.TempDir()
			s := serve(t, dir, sync)
			acked := s.load(t, func() {}, amid, func() {
				if err := s.cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			})
			if lost := serve(t, dir, sync).lost(t, acked); len(lost) > 0 {
				t.Errorf("%d of %d acknowledged events are lost: %v", len(lost), len(acked), lost[0])
			}
		})
	}
}

// TestPowerCut: with sync always, what was acknowledged is on the disk. Otherwise what came since
// the last sync is lost, which is here in the middle; nothing before it is, and what is left of
// each call is the beginning of its log, without a gap.
func TestPowerCut(t *testing.T) {
	for _, sync := range []string{"always", "default"} {
		t.Run(sync, func(t *testing.T) {
			dir, disk := t.TempDir(), t.TempDir()
			s := serve(t, dir, sync)
			acked := s.load(t, func() { flush(t, dir) }, after, func() {
				if err := s.cmd.Process.Signal(unix.SIGSTOP); err != nil {
					t.Error(err)
				}
			})
			dirty := copyDisk(t, dir, disk)
			lost := serve(t, disk, sync).lost(t, acked)
			t.Logf("%d events acknowledged, %d pages not written, %d events lost", len(acked), dirty, len(lost))
			switch {
			case sync == "always" && len(lost) > 0:
				t.Errorf("%d of %d acknowledged events are lost: %v", len(lost), len(acked), lost[0])
			case sync == "default" && len(lost) == 0:
				t.Error("nothing is lost without syncing either: the cut shows nothing")
			case len(lost) > len(acked)-events/2+sharing:
				t.Errorf("%d of %d acknowledged events are lost, and half of them were synced", len(lost), len(acked))
			}
		})
	}
}

// served is a server in a process of its own.
type served struct {
	cmd *exec.Cmd
	url string
}

// serve starts a server on the directory.
func serve(t *testing.T, dir, sync string) *served {
	t.Helper()
	s := &served{cmd: start(t, "server", dir, sync)}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	s.url = strings.TrimSpace(line)
	js, done := s.connect(t)
	defer done()
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *served) connect(t *testing.T) (js jetstream.JetStream, done func()) {
	t.Helper()
	nc, err := nats.Connect(s.url, nats.MaxReconnects(0))
	if err != nil {
		t.Fatal(err)
	}
	if js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	return js, nc.Close
}

// events is how many are acknowledged before the crash comes.
const events = 400

// sharing is more than the events of a page: those that were synced in one that was written to again are
// missing from the copy of the disk, though not from a disk.
const sharing = 16

// When a crash comes: amid the work of the writers, or just after they were told that all of it is done. The
// event that is being written when a server is stopped makes a page dirty that others were synced in.
const (
	amid  = false
	after = true
)

// load writes calls, admission and outcome, until enough are acknowledged, and then lets crash
// happen, amid the work or after it. It returns what had been acknowledged before that. When half of
// events is, it calls half.
func (s *served) load(t *testing.T, half func(), when bool, crash func()) (acked []call.Event) {
	t.Helper()
	js, done := s.connect(t)
	defer done()
	log, err := kv.OpenLog(t.Context(), js, kv.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	begin, enough := context.WithCancel(ctx)
	defer enough()
	written := make(chan call.Event)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for begin.Err() == nil {
				oneCall(ctx, log, written)
			}
		})
	}
	for len(acked) < events {
		select {
		case e := <-written:
			acked = append(acked, e)
		case <-ctx.Done():
			t.Fatal("the server is too slow")
		}
		if len(acked) == events/2 {
			half()
		}
	}
	if when == after {
		enough()
		go func() { writers.Wait(); close(written) }()
		for e := range written {
			acked = append(acked, e)
		}
	}
	crash()
	stop()
	done() // so that nobody waits for a server that is gone
	writers.Wait()
	return acked
}

// oneCall writes a call from its admission to its outcome, and tells what is acknowledged.
func oneCall(ctx context.Context, log *kv.Log, written chan<- call.Event) {
	now := time.Now()
	v := call.Admit(call.State{}, call.AdmitRequest{
		Owner: call.Owner{CallID: uuid.NewString(), Actor: actor}, Fingerprint: "fp", Now: call.At(now),
		Deadline: call.At(now.Add(time.Minute)), Nonce: uuid.NewString(), Priority: envelope.PriorityNormal,
		Pinned: call.Pinned{Tenant: tenant, Tool: "t", ID: uuid.NewString(), Version: "1", Class: call.Idempotent,
			Pool: "default", Fingerprint: "fp", KeepSeconds: 3600},
	})
	s, err := log.Write(ctx, v.Event, []byte(`{"request":{}}`))
	if err != nil || !tell(ctx, written, v.Event) {
		return
	}
	a := s.Last()
	r := call.Decide(s, 1, a.Admitted, call.Completion{Cause: call.TimedOut, By: call.ByDeadline, Nonce: uuid.NewString(),
		Now: call.At(now)})
	if _, err = log.Write(ctx, r.Event, []byte(`{"response":{}}`)); err == nil {
		tell(ctx, written, r.Event)
	}
}

func tell(ctx context.Context, written chan<- call.Event, e call.Event) bool {
	select {
	case written <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// lost returns the events that are not in the log, and sees to it that no log has a gap.
func (s *served) lost(t *testing.T, acked []call.Event) (lost []string) {
	t.Helper()
	js, done := s.connect(t)
	defer done()
	log, err := kv.OpenLog(t.Context(), js, kv.LogOptions{Answer: patience})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range acked {
		last, err := log.Read(t.Context(), e.State.Tool, e.State.ID)
		if err != nil {
			t.Fatal(err)
		}
		if !last.State.Wrote(e) {
			lost = append(lost, fmt.Sprintf("%s of %s", e.Kind, e.State.ID))
			continue
		}
		first, err := log.Get(t.Context(), last.State.At(last.State.Last().Admitted))
		if err != nil || first.Kind != call.Requested || first.State.ID != e.State.ID {
			t.Errorf("the log of %s ends with %s and does not begin with its admission: %v", e.State.ID, last.Kind, err)
		}
	}
	return lost
}

// files calls do for every file below dir.
func files(t *testing.T, dir string, do func(path string, info fs.FileInfo) error) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return do(path, info)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// flush writes all files below dir to the disk.
func flush(t *testing.T, dir string) {
	t.Helper()
	files(t, dir, func(path string, _ fs.FileInfo) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}

// copyDisk copies the files of dir as they are on the disk: without pages that the kernel has
// not written yet. It returns how many these are.
func copyDisk(t *testing.T, dir, to string) (dirty int) {
	t.Helper()
	files(t, dir, func(path string, info fs.FileInfo) error {
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700); err != nil {
			return err
		}
		n, err := copyClean(path, filepath.Join(to, name), info.Size())
		dirty += n
		return err
	})
	return dirty
}

func copyClean(from, to string, size int64) (dirty int, err error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	page := make([]byte, os.Getpagesize())
	for at := int64(0); at < size; at += int64(len(page)) {
		var state unix.Cachestat_t
		span := unix.CachestatRange{Off: uint64(at), Len: uint64(len(page))}
		if err := unix.Cachestat(uint(in.Fd()), &span, &state, 0); err != nil {
			return dirty, fmt.Errorf("cachestat (needs Linux 6.5): %w", err)
		}
		if state.Dirty+state.Writeback > 0 {
			dirty++
			continue
		}
		n, err := in.ReadAt(page, at)
		if err != nil && err != io.EOF {
			return dirty, err
		}
		if _, err := out.WriteAt(page[:n], at); err != nil {
			return dirty, err
		}
	}
	return dirty, nil
}
