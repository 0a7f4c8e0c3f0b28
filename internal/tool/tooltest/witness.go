package tooltest

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
)

// Witnessed is a socket to which processes connect (see Attend). It shows a test which of them live: the kernel closes
// a connection when its process ends, however it ends.
type Witnessed struct {
	Path     string
	listener *net.UnixListener
	conns    []net.Conn
}

// Witness listens on a fresh socket until the test ends.
func Witness(t *testing.T) *Witnessed {
	t.Helper()
	dir, err := os.MkdirTemp("", "w") // short: socket paths are limited to about 100 bytes
	if err != nil {
		t.Fatal(err)
	}
	w := &Witnessed{Path: filepath.Join(dir, "s")}
	if w.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: w.Path, Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range w.conns {
			_ = c.Close()
		}
		_ = w.listener.Close()
		_ = os.RemoveAll(dir)
	})
	return w
}

// Alive waits until n more processes have connected and written a byte.
func (w *Witnessed) Alive(t *testing.T, n int) {
	t.Helper()
	for range n {
		if err := w.listener.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		conn, err := w.listener.Accept()
		if err != nil {
			t.Fatalf("%d of %d processes came: %v", len(w.conns), n, err)
		}
		w.conns = append(w.conns, conn)
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatalf("a process came and did not stay: %v", err)
		}
	}
}

// Gone fails the test unless every process that connected has ended, or ends within 50 ms. When Execute has returned,
// they must have ended.
func (w *Witnessed) Gone(t *testing.T) { w.GoneWithin(t, 50*time.Millisecond) }

// GoneWithin is Gone with the time d.
func (w *Witnessed) GoneWithin(t *testing.T, d time.Duration) {
	t.Helper()
	watch := timertest.StartStallMeter()
	defer watch.End()
	for i, conn := range w.conns {
		if !ends(t, conn, d, watch) {
			t.Errorf("process %d of %d lives", i+1, len(w.conns))
		}
	}
}

// ends reports whether the process at the other end ends within d. If timers of this process are late, the check may be
// late, too, although the process has ended: then ends checks again.
func ends(t *testing.T, conn net.Conn, d time.Duration, watch *timertest.StallMeter) bool {
	t.Helper()
	for limit := time.Now().Add(patience); time.Now().Before(limit); {
		late := watch.Late()
		if err := conn.SetDeadline(time.Now().Add(d)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); !errors.Is(err, os.ErrDeadlineExceeded) {
			return true
		}
		if watch.Late() == late {
			return false
		}
	}
	return false
}
