package attack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// spy is a tool that looks what it can read of its supervisor and of its executor, and of itself, which it can.
const spy = `#!/bin/sh
cat >/dev/null
supervisor=$PPID
executor=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$supervisor/status)
for who in "itself $$" "supervisor $supervisor" "executor $executor"; do
	set -- $who
	{ cat /proc/$2/environ >/dev/null; } 2>/dev/null && got="$got $1/environ"
	( : </proc/$2/mem ) 2>/dev/null && got="$got $1/mem"
	{ ls /proc/$2/fd/ >/dev/null; } 2>/dev/null && got="$got $1/fd"
	{ cat /proc/$2/maps >/dev/null; } 2>/dev/null && got="$got $1/maps"
done
printf '{"type":"output","output":{"uid":"%s","executor":"%s","got":"%s"},"side_effects":[],"warnings":[]}\n' \
	"$(id -u)" "$executor" "$got"
`

const spyManifest = `tool_id: spy
semver: 1.0.0
owner: "@attack"
title: Spy
description: Reads what it can of the processes that run it.
status: active
determinism: Pure
transport: process
endpoint: {command: [./spy]}
functions:
  run: {description: Look around., request: any.json, response: any.json}
limits: {timeout_ms_default: 20000, timeout_ms_max: 20000, concurrency_max: 1}
`

// nobody is the user of the processes under attack where the tests run as root, who may read everything.
const nobody = 65534

// A tool reads neither environment, nor memory, nor open files of its executor and its supervisor, whose user it is.
func TestToolReadsItsExecutor(t *testing.T) {
	t.Parallel()
	dir, srv := spyFolder(t, "./cmd/executor", "./cmd/toolbus-supervisor"), natstest.Start(t)
	d := &devDeployment{T: t, url: srv.URL}
	tools := toolbus.NewToolset()
	d.ok(tools.AddFolder(filepath.Join(dir, "tools")))
	conn, err := toolbus.Connect(t.Context(), srv.URL, toolbus.Options{Logger: quiet()})
	d.part(conn, err, spying(conn, tools))
	pid := unprivileged(t, "works for pool", filepath.Join(dir, "executor"), "--server", srv.URL, "--tools",
		filepath.Join(dir, "tools"))
	client, err := conn.Client(toolbus.ClientOptions{})
	d.ok(err)
	defer client.Close()
	r, err := toolbus.Outcome(client.Call(t.Context(), toolbus.Call{Tool: "spy", Input: []byte(`{}`)}))
	d.ok(err)
	for _, want := range []string{
		fmt.Sprintf(`"executor":"%d"`, pid), "itself/environ", "itself/mem", "itself/fd", "itself/maps",
	} {
		if r.Status != envelope.Success || !strings.Contains(string(r.Output), want) {
			t.Fatalf("the tool does not say %s: %+v", want, r)
		}
	}
	if got := string(r.Output); strings.Contains(got, "executor/") || strings.Contains(got, "supervisor/") {
		t.Errorf("the tool reads %s", got)
	}
}

// The keys of a deployment are in the memory of its dispatchers. So the files of a dispatcher in /proc belong to root
// and not to its user, whose processes cannot attach to it, and the kernel writes no core dump.
func TestDispatcherIsUndumpable(t *testing.T) {
	t.Parallel()
	dir, srv := spyFolder(t, "./cmd/dispatcher"), natstest.Start(t)
	pid := unprivileged(t, "is serving", filepath.Join(dir, "dispatcher"), "--server", srv.URL, "--insecure-no-auth",
		"--tools", filepath.Join(dir, "tools"))
	for _, name := range []string{"environ", "mem", "coredump_filter"} {
		info, err := os.Stat(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err != nil {
			t.Fatal(err)
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 {
			t.Errorf("%s of the dispatcher belongs to user %d", name, owner)
		}
	}
}

// spyFolder returns a folder that every user may read, with these commands and, in the folder tools, the tool spy.
func spyFolder(t *testing.T, commands ...string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hidden")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	folder := filepath.Join(dir, "tools", "spy")
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.MkdirAll(folder, 0o755),
		os.WriteFile(filepath.Join(folder, "tool.yaml"), []byte(spyManifest), 0o644),
		os.WriteFile(filepath.Join(folder, "spy"), []byte(spy), 0o755),
		os.WriteFile(filepath.Join(folder, "any.json"), []byte(`{"type":"object"}`), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	processtest.Output(t, "go", append([]string{"-C", "../..", "build", "-o", dir}, commands...)...)
	return dir
}

// unprivileged runs a program until the test ends, as nobody if the test runs as root. It waits for an output line that
// contains ready.
func unprivileged(t *testing.T, ready, name string, args ...string) (pid int) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "HOME=/", "TOOLBUS_TEST_SECRET=x")
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	processtest.Launch(t, cmd).Await(t, ready)
	return cmd.Process.Pid
}

// spying returns a dispatcher that admits calls of tools.
func spying(conn *toolbus.Conn, tools *toolbus.Toolset) func(context.Context, func(string)) error {
	return func(ctx context.Context, ready func(string)) error {
		d, err := conn.Dispatcher(tools, toolbus.DispatcherOptions{InsecureNoAuth: true, AllowAll: true, Ready: ready})
		if err != nil {
			return err
		}
		return d.Run(ctx)
	}
}
