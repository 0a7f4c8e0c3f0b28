//go:build linux

package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTail(t *testing.T) {
	for _, limit := range []int64{2, 3, 10, 100, 256} {
		for size := range 300 {
			for step := 1; step <= size; step += 7 {
				text := make([]byte, size)
				for i := range text {
					text[i] = 'a' + byte(i%26)
				}
				kept := newTail(limit)
				for rest := text; len(rest) > 0; rest = rest[min(step, len(rest)):] {
					_, _ = kept.Write(rest[:min(step, len(rest))])
				}
				head, end, cut := strings.Cut(kept.String(), "\n[")
				if !cut && kept.String() != string(text) {
					t.Fatalf("limit %d, %d bytes by %d: %q", limit, size, step, kept)
				}
				note, end, _ := strings.Cut(end, "]\n")
				if cut && (head != string(text[:limit/2]) || !strings.HasSuffix(string(text), end) ||
					note != fmt.Sprintf("%d bytes left out", size-len(head)-len(end)) ||
					limit >= 100 && len(kept.String()) != int(limit)) {
					t.Fatalf("limit %d, %d bytes by %d: %q", limit, size, step, kept)
				}
			}
		}
	}
}

// TestPipeHeldOpen checks that the reader gets exactly the output of the run, although a process outside the run holds
// the pipe open and continues to write.
func TestPipeHeldOpen(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	p := &pipe{file: r}
	got := make(chan []byte)
	go func() {
		all, err := io.ReadAll(p)
		if err != nil {
			t.Error(err)
		}
		got <- all
	}()
	p.finish() // wakes the reader, wherever it is
	if all := <-got; len(all) > 0 {
		t.Errorf("read %q from nowhere", all)
	}
	q := &pipe{file: r}
	if _, err := w.Write([]byte("of the run")); err != nil {
		t.Fatal(err)
	}
	q.finish()
	first := make([]byte, 3)
	if _, err := io.ReadFull(q, first); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("of a stranger")); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(q)
	if string(first)+string(rest) != "of the run" || err != nil {
		t.Errorf("read %q, %v", string(first)+string(rest), err)
	}
}

// deaf is a supervisor that never answers.
func deaf(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "deaf")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return program
}

func TestProbeDeaf(t *testing.T) {
	err := probe(deaf(t), 50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "first call of its main") {
		t.Errorf("got %v", err)
	}
}

// TestSurvivors checks that nothing waits forever for a run that cannot be ended.
func TestSurvivors(t *testing.T) {
	// A negative grace that cancels Patience: Wait gives up at once.
	c, err := Start(deaf(t), Config{GraceMS: -Patience.Milliseconds()}, strings.NewReader("input"), 100)
	if err != nil {
		t.Fatal(err)
	}
	c.End(Terminate)
	if _, err = io.ReadAll(c.Stdout); err != nil {
		t.Error(err)
	}
	_, err = c.Wait()
	if !errors.Is(err, ErrSurvivors) {
		t.Errorf("got %v", err)
	}
	c.End(Kill) // too late, and harmless
	if err := c.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	// Until it is reaped: the next test could count it as a process of its own run.
	for !errors.Is(unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.ECHILD) {
		runtime.Gosched()
	}
}
