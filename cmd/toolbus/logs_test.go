package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// endTime is how long a process without calls may take to end, with a collector and a standard error that hang: 5 s,
// and half again on a busy machine.
const endTime = 7500 * time.Millisecond

// processes runs a dispatcher and an executor as processes, with the standard error that each is given, and flags. stop
// ends them with SIGTERM, and fails the test if that takes longer than endTime.
func processes(t *testing.T, dispatcher, executor *os.File, flags ...string) (s shell, stop func()) {
	t.Helper()
	url, tools := natstest.Start(t).URL, playTools(t)
	var all []*exec.Cmd
	for _, c := range []struct {
		args   []string
		stderr *os.File
	}{
		{[]string{"dispatcher", "--insecure-no-auth"}, dispatcher}, {[]string{"executor"}, executor},
	} {
		ready := filepath.Join(t.TempDir(), "ready")
		cmd := exec.Command(os.Args[0], slices.Concat(c.args,
			[]string{"--server", url, "--tools", tools, "--ready-file", ready}, flags)...)
		cmd.Stderr = c.stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // unless it has ended
		await(t, ready)
		all = append(all, cmd)
	}
	s, set := shell{t: t, url: url}, filepath.Join(t.TempDir(), "policy")
	s.must("policy", "init", set, "--tools", tools)
	s.must("policy", "push", set)
	return s, func() {
		started := time.Now()
		for _, cmd := range all {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
		for _, cmd := range all {
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s ended with %v", cmd.Args[1], err)
			}
			if took := time.Since(started); took > endTime {
				t.Errorf("%s took %s to end", cmd.Args[1], took)
			}
		}
	}
}

// await waits until a process has written its ready file.
func await(t *testing.T, file string) {
	t.Helper()
	late, tick := time.After(40*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return
		}
		select {
		case <-late:
			t.Fatal("the process is not ready")
		case <-tick.C:
		}
	}
}

// outcomeLine is an event of an outcome: the members that 000 §9 and 004 §4.2 name.
type outcomeLine struct {
	Timestamp  time.Time `json:"timestamp"`
	Level      string    `json:"level"`
	Event      string    `json:"event"`
	RequestID  string    `json:"requestId"`
	TraceID    string    `json:"traceId"`
	Tool       string    `json:"tool"`
	Action     string    `json:"action"`
	DurationMs int64     `json:"durationMs"`
	Status     string    `json:"status"`
	ToolID     string    `json:"tool_id"`
	Fn         string    `json:"fn"`
	CallID     string    `json:"call_id"`
	DurationMS int64     `json:"duration_ms"`
	ErrorCode  string    `json:"error.code"`
}

// A dispatcher and an executor log each outcome once between them, as a line of JSON, without a flag.
func TestProcessesLogOutcomes(t *testing.T) {
	t.Parallel()
	var files []*os.File
	for _, name := range []string{"dispatcher", "executor"} {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	s, stop := processes(t, files[0], files[1])
	const id = "0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a0"
	for i, input := range []string{
		`{"say":"a secret"}`, `{"fail":"broken","say":"a secret"}`, `{"say":"a secret","x":1}`,
	} {
		s.do("call", "play", "--input", input, "--call-id", fmt.Sprint(id, i))
	}
	stop()
	got := map[string]int{}
	for _, f := range files {
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("a secret")) {
			t.Errorf("the input is in %s", text)
		}
		for line := range bytes.Lines(text) {
			var e outcomeLine
			if json.Unmarshal(line, &e) != nil || e.Event != "tool_invocation" {
				continue // such as the warning of --insecure-no-auth
			}
			if e.Level != "info" || e.RequestID != e.CallID || e.Tool != e.ToolID || e.Action != e.Fn || e.TraceID == "" ||
				e.DurationMs != e.DurationMS || time.Since(e.Timestamp).Abs() > time.Minute {
				t.Errorf("%s", line)
			}
			got[strings.Join([]string{filepath.Base(f.Name()), e.CallID, e.Tool, e.Fn, e.Status, e.ErrorCode}, " ")]++
		}
	}
	want := map[string]int{
		"executor " + id + "0 play play success ":                       1,
		"executor " + id + "1 play play terminal_error D-DATA-BROKEN":   1,
		"dispatcher " + id + "2 play play invalid_request I-REQ-SCHEMA": 1,
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Calls succeed, and the processes end in time, while nothing reads their standard errors, or nothing can.
func TestStandardErrorIsNotRead(t *testing.T) {
	t.Parallel()
	for name, closed := range map[string]bool{"full": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			defer write.Close()
			if closed {
				read.Close()
			} else {
				fill(t, write)
			}
			s, stop := processes(t, write, write)
			for range 5 {
				s.must("call", "play", "--input", `{"say":"hi"}`)
				s.do("call", "play", "--input", `{"say":5}`)
			}
			stop()
		})
	}
}

// fill writes to a pipe until it takes nothing more.
func fill(t *testing.T, write *os.File) {
	t.Helper()
	if err := write.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(write, strings.NewReader(strings.Repeat("\n", 1<<21))); err == nil {
		t.Fatalf("the pipe takes %d bytes", n)
	}
}
