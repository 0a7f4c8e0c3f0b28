//go:build linux

package supervisor

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"
)

// These tests make the test process a supervisor, which would reap any other process that it starts as part of the run.
// So no test here runs in parallel, or starts a process except through serve.

// session is a supervisor within this process, seen from the executor's side.
type session struct {
	control *os.File
	status  chan int
}

// supervised starts cfg, or nothing if it is nil.
func supervised(t *testing.T, cfg *Config) *session {
	t.Helper()
	return supervisedWhen(t, cfg, func() {})
}

// supervisedWhen is supervised; started is called as soon as there is a run.
func supervisedWhen(t *testing.T, cfg *Config, started func()) *session {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{
		control: os.NewFile(uintptr(pair[0]), "executor"), status: make(chan int, 1),
	}
	theirs := os.NewFile(uintptr(pair[1]), "supervisor")
	t.Cleanup(func() { _ = s.control.Close() })
	if err := s.control.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if cfg != nil {
		if err := WriteFrame(s.control, cfg); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		runtime.LockOSThread() // for good: the thread has given up privileges
		status := serve(theirs, started)
		_ = theirs.Close()
		s.status <- status
	}()
	return s
}

// report waits for the end.
func (s *session) report(t *testing.T) Report {
	t.Helper()
	var r Report
	if err := ReadFrame(s.control, &r); err != nil {
		t.Fatalf("no report: %v", err)
	}
	if status := <-s.status; status != 0 {
		t.Errorf("the supervisor ended with status %d", status)
	}
	return r
}

func shell(t *testing.T, script string, args ...string) *Config {
	t.Helper()
	return &Config{Path: "/bin/sh", Args: append([]string{"sh", "-c", script, "sh"}, args...), Dir: t.TempDir(),
		GraceMS: 30_000}
}

// ready is a shell command that writes a line to the named pipe in the first argument of the script.
const ready = "echo ready > $1; "

// pipeAt makes a named pipe and returns its path; read waits for a line there.
func pipeAt(t *testing.T) (path string, read func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() string {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
}

func TestEnds(t *testing.T) {
	tests := map[string]struct {
		script string
		want   Report
	}{
		"status":         {"exit 3", Report{ExitCode: 3}},
		"success":        {"exit 0", Report{}},
		"signal":         {"kill -USR1 $$", Report{ExitCode: -1, Signal: "user defined signal 1"}},
		"its own SIGKIL": {"kill -KILL $$", Report{ExitCode: -1, Signal: "killed"}},
		"its own group":  {"kill -KILL 0", Report{ExitCode: -1, Signal: "killed"}},
		"leftover":       {"sleep 1000 & setsid sleep 1000 & exit 0", Report{Leftover: 2}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := supervised(t, shell(t, test.script)).report(t)
			if got.PeakRSS == 0 {
				t.Error("no memory was measured")
			}
			got.PeakRSS, got.CPUMS = 0, 0
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestCommands(t *testing.T) {
	const polite, deaf = "trap 'exit 7' TERM; ", "trap '' TERM; "
	const wait = "while :; do sleep 0.01; done"
	tests := map[string]struct {
		script string
		send   func(*session)
		want   Report
	}{
		"terminate":       {polite, send(Terminate), Report{ExitCode: 7, Stopped: true}},
		"terminate twice": {polite, send(Terminate, Terminate), Report{ExitCode: 7, Stopped: true}},
		"terminate, deaf": {deaf, send(Terminate), Report{ExitCode: -1, Signal: "killed", Stopped: true, Ours: true}},
		"kill":            {polite, send(Kill), Report{ExitCode: -1, Signal: "killed", Stopped: true, Ours: true}},
		"nonsense":        {polite, send('?', Terminate), Report{ExitCode: 7, Stopped: true}},
		"signal to the supervisor": {
			deaf, func(*session) { _ = unix.Kill(os.Getpid(), unix.SIGHUP) },
			Report{ExitCode: -1, Signal: "killed", Stopped: true},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path, read := pipeAt(t)
			cfg := shell(t, test.script+ready+wait, path)
			if test.script == deaf {
				cfg.GraceMS = 50 // it is waited for to its end
			}
			s := supervised(t, cfg)
			read()
			test.send(s)
			got := s.report(t)
			got.PeakRSS, got.CPUMS, got.Leftover = 0, 0, 0
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestLimit checks that the supervisor ends a run after its limit without a command from the executor: first with
// SIGTERM, then with SIGKILL.
func TestLimit(t *testing.T) {
	const wait = "while :; do sleep 0.01; done"
	for name, test := range map[string]struct {
		script string
		grace  int64
		want   Report
	}{
		"polite": {"trap 'exit 7' TERM; " + wait, 30_000, Report{ExitCode: 7, Stopped: true, Expired: true}},
		"deaf": {"trap '' TERM; " + wait, 50, Report{ExitCode: -1, Signal: "killed", Stopped: true, Ours: true,
			Expired: true}},
		"over": {"exit 3", 30_000, Report{ExitCode: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := shell(t, test.script)
			cfg.GraceMS, cfg.LimitMS = test.grace, 500
			got := supervised(t, cfg).report(t)
			got.PeakRSS, got.CPUMS, got.Leftover = 0, 0, 0
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestEarlySignal checks that a signal ends the run also if it arrives as soon as the run exists.
func TestEarlySignal(t *testing.T) {
	got := supervisedWhen(t, shell(t, "sleep 1000"), func() {
		sent := make(chan error) // from a thread outside the domain, which some kernels hold against this process, too
		go func() { sent <- unix.Kill(os.Getpid(), unix.SIGHUP) }()
		<-sent
	}).report(t)
	got.PeakRSS, got.CPUMS, got.Leftover = 0, 0, 0
	if want := (Report{ExitCode: -1, Signal: "killed", Stopped: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func send(commands ...Command) func(*session) {
	return func(s *session) {
		for _, c := range commands {
			_, _ = s.control.Write([]byte{byte(c)})
		}
	}
}

// TestLifeline shows that the end of the control socket ends the run.
func TestLifeline(t *testing.T) {
	path, read := pipeAt(t)
	s := supervised(t, shell(t, "trap '' TERM; setsid sh -c \"trap '' TERM; echo ready > $1; sleep 1000\" & wait", path))
	read()
	if err := s.control.Close(); err != nil {
		t.Fatal(err)
	}
	if status := <-s.status; status == 0 {
		t.Error("the report reached nobody, and the supervisor did not notice")
	}
	if left, err := children(os.Getpid()); err != nil || len(left) > 0 {
		t.Errorf("children %v, %v", left, err)
	}
}

func TestFailure(t *testing.T) {
	for name, cfg := range map[string]*Config{
		"no program": {Path: "/no/such/program", Args: []string{"x"}},
		"no folder":  {Path: "/bin/sh", Args: []string{"sh"}, Dir: "/no/such/folder"},
	} {
		if got := supervised(t, cfg).report(t); !strings.Contains(got.Failure, "no such file") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := supervised(t, &Config{}).report(t); got != (Report{}) {
		t.Errorf("a probe got %+v", got)
	}
	s := supervised(t, nil)
	if err := s.control.Close(); err != nil {
		t.Fatal(err)
	}
	if status := <-s.status; status == 0 {
		t.Error("a supervisor without orders was content")
	}
}

// TestInherited checks that inherited descriptors are closed, and no others.
func TestInherited(t *testing.T) {
	inherited, err := unix.FcntlInt(1, unix.F_DUPFD, 100)
	if err != nil {
		t.Fatal(err)
	}
	own, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(own)
	if err := closeInherited(); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(inherited), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("an inherited descriptor is open: %v", err)
	}
	if _, err := unix.FcntlInt(uintptr(own), unix.F_GETFD, 0); err != nil {
		t.Errorf("a descriptor of this process was closed: %v", err)
	}
}

func TestChildren(t *testing.T) {
	if _, err := children(1 << 30); err == nil {
		t.Error("a process that cannot be has children")
	}
	if slices.Contains(descendants(os.Getpid()), os.Getpid()) {
		t.Error("a process is its own descendant")
	}
}

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	want := Config{Path: "/p", Args: []string{"a", "b\n"}, Env: []string{"A=ü"}, Dir: "/", GraceMS: 7}
	if err := WriteFrame(&b, want); err != nil {
		t.Fatal(err)
	}
	raw := b.Bytes()
	var got Config
	if err := ReadFrame(iotest.OneByteReader(bytes.NewReader(raw)), &got); err != nil {
		t.Fatal(err)
	}
	if got.Path != want.Path || !slices.Equal(got.Args, want.Args) || !slices.Equal(got.Env, want.Env) ||
		got.GraceMS != 7 {
		t.Errorf("got %+v", got)
	}
	for i := range raw {
		if err := ReadFrame(bytes.NewReader(raw[:i]), &got); err == nil {
			t.Errorf("%d of %d bytes made a frame", i, len(raw))
		}
	}
	if err := ReadFrame(bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff}), &got); err == nil {
		t.Error("a frame of 4 GiB was taken")
	}
	if err := WriteFrame(io.Discard, Config{Dir: strings.Repeat("x", maxFrame)}); err == nil {
		t.Error("a frame larger than allowed was written")
	}
	if err := WriteFrame(io.Discard, make(chan int)); err == nil {
		t.Error("something without a JSON form was written")
	}
}

// TestBinary checks the message of the program if a user starts it directly.
func TestBinary(t *testing.T) {
	program := filepath.Join(t.TempDir(), Name)
	build := exec.Command("go", "build", "-o", program, "github.com/seed-018f16cc/toolbus/cmd/toolbus-supervisor")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "by an executor") {
		t.Errorf("%v: %s", err, out)
	}
	// Started as a supervisor, but without a control socket.
	err = (&exec.Cmd{Path: program, Args: []string{Name}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}).Run()
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("without a control socket: %v", err)
	}
}
