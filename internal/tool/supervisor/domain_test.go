//go:build linux

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// probes prints what a run can do to process $1, and what it must be able to do in any case.
const probes = `
kill -URG $1 && echo signals
cat /proc/$1/environ >/dev/null && echo environment
sleep 1000 & cat /proc/$!/environ >/dev/null && kill $! && echo its own
mkdir from to; echo >from/file
ln from/file to/link && echo links
mv from/file to/file && echo renames
`

// TestConfine checks the domains that confine makes with this kernel, and as if it were older: with the version of
// Linux 6.10, and with no Landlock at all. If this kernel is that old, the first case is the fall-back, too.
func TestConfine(t *testing.T) {
	have := landlockVersion()
	t.Logf("Landlock %d", have)
	for _, version := range []int{have, min(have, landlockSignals-1), 0} {
		victim := exec.Command("sleep", "1000")
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		want := map[Reach][]string{
			ReachOwn: nil, ReachSignals: {"signals"}, ReachAll: {"signals", "environment"},
		}[reachWith(version)]
		want = append(slices.Clone(want), "its own", "links", "renames")
		said, err := confined(t, version, probes, strconv.Itoa(victim.Process.Pid))
		if got := strings.Split(strings.TrimSpace(said), "\n"); err != nil || !slices.Equal(got, want) {
			t.Errorf("with version %d a run can do %q, want %q: %v", version, got, want, err)
		}
		_ = victim.Process.Kill()
		_ = victim.Wait()
	}
}

// confined runs a shell script in a new domain, in a folder of its own, and returns its output.
func confined(t *testing.T, version int, script string, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", script, "sh"}, args...)...)
	cmd.Dir = t.TempDir()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread stays in the domain
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return
		}
		if err = errors.Join(confine(version), dropCapabilities()); err != nil {
			return
		}
		var raw []byte
		raw, err = cmd.Output()
		out = string(raw)
	}()
	<-done
	return out, err
}

// dropCapabilities makes the calling thread unprivileged. It keeps the other capabilities of root: without
// CAP_SYS_PTRACE, a process reads none that has more capabilities, with or without Landlock.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return err
	}
	for _, c := range []int{unix.CAP_SYS_ADMIN, unix.CAP_PERFMON} {
		caps[c/32].Effective &^= 1 << (c % 32)
		caps[c/32].Permitted &^= 1 << (c % 32)
		caps[c/32].Inheritable &^= 1 << (c % 32)
	}
	return unix.Capset(&header, &caps[0])
}

// TestPrivileged checks that HostReach promises nothing for a process that has the capabilities of root.
func TestPrivileged(t *testing.T) {
	raw, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "\nCapPrm:")
	var caps uint64
	if _, err := fmt.Sscanf(rest, "%x", &caps); err != nil {
		t.Fatal(err)
	}
	want := reachWith(landlockVersion())
	if caps&(1<<unix.CAP_SYS_ADMIN|1<<unix.CAP_PERFMON) != 0 {
		want = ReachAll
	}
	if got := HostReach(); got != want {
		t.Errorf("with the capabilities %x the reach is %q, want %q", caps, got, want)
	}
	done := make(chan Reach, 1)
	go func() {
		runtime.LockOSThread() // for good
		if err := dropCapabilities(); err != nil {
			t.Error(err)
		}
		done <- HostReach()
	}()
	if got := <-done; got != reachWith(landlockVersion()) {
		t.Errorf("without capabilities the reach is %q", got)
	}
}
