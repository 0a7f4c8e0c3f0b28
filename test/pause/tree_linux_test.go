package pause

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
)

// M11: an executor is killed while its tool runs. The tool dies with it, so that nothing is done
// after others have concluded from its end that nothing will be. A tool that is let go does its
// work all the same.
func TestM11ToolsDieWithTheirExecutor(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	book := filepath.Join(dir, "ledger")
	if err := effects.WriteTools(filepath.Join(dir, "tools"), self, "role", "tool", book); err != nil {
		t.Fatal(err)
	}
	t.Run("rule", func(t *testing.T) {
		if killed(t, book, "executor", filepath.Join(dir, "tools"), longWork, "1m") {
			t.Error("the tool had its effect after its executor was killed")
		}
	})
	t.Run("without", func(t *testing.T) {
		loose := filepath.Join(dir, "loose")
		if !killed(t, loose, "loose", loose) {
			t.Error("a tool that was let go did nothing: the test shows nothing")
		}
	})
}

// An executor is frozen while its tool runs, and cannot end it at its deadline. Others decide the call then, so
// the tool must not go on: its supervisor ends it.
func TestFrozenExecutorsToolsKeepTheirDeadline(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	book, tools := filepath.Join(dir, "ledger"), filepath.Join(dir, "tools")
	if err := effects.WriteTools(tools, self, "role", "tool", book); err != nil {
		t.Fatal(err)
	}
	cmd := start(t, "executor", tools, `{"n":1,"work_ms":6000}`, "1500ms")
	cmd.Stderr = nil // it says that its call has timed out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	begun := until(t, book, func(l effects.Line) bool { return l.Op == effects.Start })
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(patience)
	for alive(begun.PID) && time.Now().Before(until) {
		<-time.After(5 * time.Millisecond)
	}
	lines, err := effects.Read(book)
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 1 {
		t.Errorf("the tool of a frozen executor has worked past its deadline: %+v", lines)
	}
}

// killed starts an executor, kills it when its tool has begun, and says whether the tool still
// had its effect before it ended.
func killed(t *testing.T, book, role string, args ...string) (effect bool) {
	t.Helper()
	cmd := start(t, role, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	begun := until(t, book, func(l effects.Line) bool { return l.Op == effects.Start })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for alive(begun.PID) {
		<-tick.C
	}
	lines, err := effects.Read(book)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		effect = effect || l.Op == effects.Commit
	}
	return effect
}

// alive says whether the process is there and is no zombie that nobody has looked after.
func alive(pid int) bool {
	return !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

// until waits for a line of the ledger.
func until(t *testing.T, book string, wanted func(effects.Line) bool) effects.Line {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		lines, err := effects.Read(book)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if wanted(l) {
				return l
			}
		}
	}
	t.Fatal("the tool does not begin")
	return effects.Line{}
}
