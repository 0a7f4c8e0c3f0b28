//go:build linux

package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
	"github.com/seed-018f16cc/toolbus/internal/tool/process/protocol"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
)

// This binary is the test, the supervisor, the tools, and once the executor.
func TestMain(m *testing.M) {
	supervisor.SupervisorMain()
	if len(os.Args) > 2 && os.Args[1] == "play" {
		syscall.Exit(play(os.Args[2], os.Args[3:])) // os.Exit sleeps a second under the race detector
	}
	goleak.VerifyTestMain(m)
}

// play runs one of the programs and returns its exit status.
func play(part string, args []string) int {
	programs := map[string]func(args []string) int{
		"behave":       behave,
		"say":          say,
		"stubborn":     stubborn,
		"linger":       linger,
		"flood":        flood,
		"flood-line":   floodLine,
		"flood-stderr": floodStderr,
		"close-stdout": closeStdout,
		"say-on-term":  sayOnTerm,
		"never-read":   neverRead,
		"status":       printStatus,
		"attend":       attend,
		"launch":       launch,
		"executor":     executor,
		"kill-parent":  killParent,
		"stop-parent":  stopParent,
		"victim":       victim,
		"attack":       attack,
	}
	return programs[part](args)
}

// behave is the tool of the conformance suite.
func behave([]string) int {
	inv, op, err := readRequest()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if op == "lookup" {
		result, found, err := tooltest.BehaveLookup(context.Background(), inv)
		if !found && err == nil {
			fmt.Println(`{"type":"absent"}`)
			return 0
		}
		return answer(result, err)
	}
	switch inv.Fn {
	case tooltest.FnCrash:
		fmt.Fprintln(os.Stderr, "crash as asked")
		return 3
	case tooltest.FnBadOutput:
		fmt.Println(`{"type":"output","output":{"a":}`)
		return 0
	case tooltest.FnDaemons:
		return daemons(inv)
	case tooltest.FnWait:
		_ = stdout{}.Emit(context.Background(), envelope.ChunkProgress, jsontext.Value(`"started"`))
		return forever()
	}
	return answer(tooltest.Behave(context.Background(), inv, stdout{}))
}

// stdout is the sink of a program.
type stdout struct{}

func (stdout) Emit(_ context.Context, kind envelope.ChunkKind, data jsontext.Value) error {
	if kind == envelope.ChunkData {
		kind = "chunk"
	}
	_, err := fmt.Printf(`{"type":%q,"data":%s}`+"\n", kind, data)
	return err
}

func readRequest() (tool.Invocation, protocol.Op, error) {
	raw, err := io.ReadAll(os.Stdin)
	if err != nil {
		return tool.Invocation{}, "", err
	}
	var r protocol.Request
	if err := json.Unmarshal(raw, &r, json.RejectUnknownMembers(true)); err != nil {
		return tool.Invocation{}, "", err
	}
	inv := tool.Invocation{
		CallID: r.CallID, ToolID: r.ToolID, ToolVersion: r.ToolVersion, Fn: r.Fn, Input: r.Input, Context: r.Context,
		IdempotencyKey: r.IdempotencyKey, Attempt: r.Attempt, Fence: r.Fence, Deadline: time.UnixMilli(r.DeadlineUnixMS),
		DryRun: r.DryRun, Digest: r.Digest, Traceparent: r.Traceparent,
	}
	return inv, r.Op, nil
}

func answer(result tool.Result, err error) int {
	var fault *tool.Error
	line := map[string]any{"type": "output", "output": result.Output, "side_effects": result.SideEffects,
		"warnings": result.Warnings}
	if errors.As(err, &fault) {
		f := map[string]any{"code": fault.Code, "message": fault.Message, "retry_after_ms": fault.RetryAfter.Milliseconds()}
		if fault.Effect != "" {
			f["effect"] = fault.Effect
		}
		if fault.Details != nil {
			f["details"] = fault.Details
		}
		line = map[string]any{"type": "error", "error": f}
	} else if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.MarshalWrite(os.Stdout, line); err != nil {
		return 1
	}
	return 0
}

// daemons starts a daemon, attends itself, and is as hard to end as it can be.
func daemons(inv tool.Invocation) int {
	var in tooltest.Input
	if err := json.Unmarshal(inv.Input, &in); err != nil {
		return 1
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	if err := again("launch", in.Socket).Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return attend([]string{in.Socket})
}

// launch starts attend in a session of its own and ends, so that it is orphaned: the
// classic double fork.
func launch(args []string) int {
	daemon := again("attend", args...)
	if err := daemon.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func attend(args []string) int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	if err := tooltest.Attend(args[0]); err != nil {
		return 1
	}
	return 0
}

// again returns a command that runs another role of this binary in a new session. It keeps the descriptors of its
// parent open.
func again(part string, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self, append([]string{"play", part}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// say writes its first argument to stdout, its second to stderr, and ends with the third.
func say(args []string) int {
	fmt.Print(args[0])
	fmt.Fprint(os.Stderr, args[1])
	status, err := strconv.Atoi(args[2])
	if err != nil {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		return forever()
	}
	return status
}

// stubborn ignores SIGTERM.
func stubborn([]string) int {
	signal.Ignore(syscall.SIGTERM)
	fmt.Println(`{"type":"log","data":"started"}`)
	return forever()
}

// linger leaves a daemon that holds its output open, answers, and exits at a signal.
func linger(args []string) int {
	if err := again("launch", args[0]).Run(); err != nil {
		return 1
	}
	fmt.Println(`{"type":"output","output":"done"}`)
	for range time.Tick(time.Millisecond) {
		if _, err := os.Stat(args[0] + ".ready"); err == nil {
			return 0
		}
	}
	return 1
}

func flood([]string) int {
	line := []byte(`{"type":"log","data":"` + strings.Repeat("x", 1000) + `"}` + "\n")
	for {
		if _, err := os.Stdout.Write(line); err != nil {
			return 1
		}
	}
}

func floodLine([]string) int {
	line := bytes.Repeat([]byte{'x'}, 1<<16)
	for {
		if _, err := os.Stdout.Write(line); err != nil {
			return 1
		}
	}
}

// floodStderr writes megabytes to standard error, and answers.
func floodStderr([]string) int {
	fmt.Fprintln(os.Stderr, "the first words")
	noise := bytes.Repeat([]byte("noise\x1b[31m\xff\n"), 1<<12)
	for range 100 {
		if _, err := os.Stderr.Write(noise); err != nil {
			return 1
		}
	}
	fmt.Fprintln(os.Stderr, "the last words")
	return 3
}

// closeStdout closes standard output without an answer, and does not exit.
func closeStdout([]string) int {
	if err := os.Stdout.Close(); err != nil {
		return 1
	}
	return forever()
}

// sayOnTerm prints its argument when it gets SIGTERM, and exits with status 0.
func sayOnTerm(args []string) int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	fmt.Println(`{"type":"log","data":"started"}`)
	<-term
	fmt.Println(args[0])
	return 0
}

// neverRead answers without reading its input.
func neverRead([]string) int {
	fmt.Println(`{"type":"output","output":"deaf"}`)
	return 0
}

// printStatus outputs what it finds around itself.
func printStatus(args []string) int {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 1
	}
	var open []string
	for _, fd := range fds {
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		ours := strings.HasSuffix(target, "/fd") || strings.HasPrefix(target, "anon_inode") ||
			strings.HasPrefix(target, "/sys/fs/cgroup")
		if err == nil && !ours { // the runtime opens some of its own
			open = append(open, fd.Name())
		}
	}
	flags, _, _ := syscall.Syscall(syscall.SYS_FCNTL, 1, syscall.F_GETFL, 0)
	session, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
	wd, _ := os.Getwd()
	self, _ := os.ReadFile("/proc/self/status")
	raw, err := json.Marshal(map[string]any{"type": "output", "output": map[string]any{
		"args": args, "env": os.Environ(), "fds": open, "dir": wd, "nonblock": flags&syscall.O_NONBLOCK != 0,
		"leads": int(session) == os.Getpid(), "group": syscall.Getpgrp() == os.Getpid(),
		"unprivileged": strings.Contains(string(self), "NoNewPrivs:\t1"),
	}})
	if err != nil {
		return 1
	}
	fmt.Printf("%s\n", raw)
	return 0
}

// killParent kills its supervisor.
func killParent([]string) int {
	if err := syscall.Kill(os.Getppid(), syscall.SIGKILL); err != nil {
		return 1
	}
	return forever()
}

// stopParent stops its supervisor.
func stopParent([]string) int {
	if err := syscall.Kill(os.Getppid(), syscall.SIGSTOP); err != nil {
		return 1
	}
	_ = stdout{}.Emit(context.Background(), envelope.ChunkProgress, jsontext.Value(`"stopped"`))
	return forever()
}

// victim emits its process id and that of its supervisor, and answers when the file in its argument exists.
func victim(args []string) int {
	pids := fmt.Sprintf("[%d,%d]", os.Getpid(), os.Getppid())
	_ = stdout{}.Emit(context.Background(), envelope.ChunkProgress, jsontext.Value(pids))
	for range time.Tick(time.Millisecond) {
		if _, err := os.Stat(args[0]); err == nil {
			break
		}
	}
	fmt.Println(`{"type":"output","output":"unharmed"}`)
	return 0
}

// attacked is the output of attack.
type attacked struct {
	Reach supervisor.Reach `json:"reach"`
	Done  []string         `json:"done"`
}

// attack tries on the processes in its arguments what a tool may not do to others, and outputs what it could do. It
// first gives up the two capabilities of root by which a process reads the environment of any other.
func attack(args []string) int {
	runtime.LockOSThread() // capabilities and ptrace(2) are of a thread
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return 1
	}
	for _, c := range []int{unix.CAP_SYS_ADMIN, unix.CAP_PERFMON} {
		caps[c/32].Effective &^= 1 << (c % 32)
		caps[c/32].Permitted &^= 1 << (c % 32)
	}
	if err := unix.Capset(&header, &caps[0]); err != nil {
		return 1
	}
	done := []string{}
	for _, arg := range args {
		pid, err := strconv.Atoi(arg)
		if err != nil {
			return 1
		}
		for name, try := range attacks {
			if try(pid) == nil {
				done = append(done, name+" of "+arg)
			}
		}
	}
	slices.Sort(done)
	raw, err := json.Marshal(attacked{supervisor.HostReach(), done})
	if err != nil {
		return 1
	}
	return answer(tool.Result{Output: raw}, nil)
}

// attacks return nil if they were possible.
var attacks = map[string]func(pid int) error{
	"signal": func(pid int) error { return unix.Kill(pid, unix.SIGURG) }, // which harms nobody
	"attach": attachTo,
	"environ": func(pid int) error {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		return err
	},
	"mem": func(pid int) error {
		_, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		return err
	},
	"fd": func(pid int) error {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/fd/1", pid))
		return err
	},
	"copied memory": func(pid int) error {
		b := make([]byte, 1)
		_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{{Base: 1, Len: 1}}, 0)
		if errors.Is(err, unix.EFAULT) { // nothing is at that address
			return nil
		}
		return err
	},
	"copied descriptor": func(pid int) error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err == nil {
			_, err = unix.PidfdGetfd(fd, 1, 0)
		}
		return err
	},
}

// attachTo attaches to a process, and lets go of it.
func attachTo(pid int) error {
	if err := unix.PtraceAttach(pid); err != nil {
		return err
	}
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		return err
	}
	return unix.PtraceDetach(pid)
}

func forever() int {
	for {
		_ = syscall.Pause()
	}
}

// executor runs the daemons tool and never ends by itself.
func executor(args []string) int {
	adapter, err := process.New(process.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	input, err := json.Marshal(tooltest.Input{Socket: args[0]})
	if err != nil {
		return 1
	}
	m := manifest("behave")
	m.Dir = "/"
	inv := tool.Invocation{Fn: tooltest.FnDaemons, Input: input}
	_, err = adapter.Execute(context.Background(), m, inv, &tooltest.Recorder{})
	fmt.Fprintln(os.Stderr, err)
	return 1
}
