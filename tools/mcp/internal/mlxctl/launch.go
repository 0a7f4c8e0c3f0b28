package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/program"
)

const (
	// grace is how long a model has between SIGTERM and SIGKILL: less than the two seconds that mlxctl itself has.
	grace = time.Second
	// keptStderr is how many bytes of what a model says are kept, for mlxctl's own standard error.
	keptStderr = 4 << 10
	// statusNoModel is EX_NOINPUT of sysexits.h.
	statusNoModel = 66
)

// launcher starts models.
type launcher struct {
	supervisor string
	command    []string
	models     string // a folder, or ""
}

// has reports whether there is a model of that name, as far as that is known before it is started.
func (l launcher) has(model string) bool {
	if strings.HasPrefix(model, "-") || strings.ContainsRune(model, 0) { // an option, and no model
		return false
	}
	if l.models == "" {
		return true
	}
	root, err := os.OpenRoot(l.models)
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Stat(filepath.FromSlash(model))
	return err == nil && filepath.Clean(model) != "."
}

// launched is a model that was started.
type launched struct {
	run    *supervisor.Run
	gone   chan struct{} // nothing of it is left; then report is set
	report supervisor.Report
	failed error
}

// launch starts a model; over is called once nothing of it is left.
func (l launcher) launch(model string, port int, over func()) (*launched, error) {
	if len(l.command) == 0 {
		return nil, failed("launch_failed", "configuration", "no command is configured: MLXCTL_COMMAND is not set")
	}
	args := make([]string, len(l.command))
	fill := strings.NewReplacer("{model}", model, "{port}", strconv.Itoa(port))
	for i, word := range l.command {
		args[i] = fill.Replace(word)
	}
	path, err := exec.LookPath(args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return nil, failed("launch_failed", "configuration", "the command that is configured is not on this machine")
	}
	run, err := supervisor.Start(l.supervisor, supervisor.Config{
		Path: path, Args: args, Env: environ(), Dir: folder(), GraceMS: grace.Milliseconds(),
	}, strings.NewReader(""), keptStderr)
	if err != nil {
		return nil, failed("launch_failed", "start", "the model's server could not be started")
	}
	m := &launched{run: run, gone: make(chan struct{})}
	go m.watch(over)
	return m, nil
}

// watch waits until nothing of the model is left.
func (m *launched) watch(over func()) {
	_, _ = io.Copy(io.Discard, m.run.Stdout)
	m.report, m.failed = m.run.Wait()
	if said := m.run.Stderr(); said != "" {
		fmt.Fprintln(os.Stderr, said)
	}
	over()
	close(m.gone)
}

// why is the error of a model that ended before its port was taken.
func (m *launched) why() *program.Error {
	switch {
	case m.failed != nil || m.report.Failure != "":
		return failed("launch_failed", "start", "the model's server could not be started")
	case m.report.ExitCode == statusNoModel:
		return failed("model_not_found", "command", "the command knows no such model")
	}
	e := failed("launch_failed", "ended", "the model's server ended before it listened")
	if e.Details["exit_code"] = m.report.ExitCode; m.report.Signal != "" {
		e.Details["signal"] = m.report.Signal
	}
	return e
}

// environ is the environment of models.
func environ() (env []string) {
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "MLXCTL_") {
			env = append(env, entry)
		}
	}
	return env
}

func folder() string {
	if dir, err := os.Getwd(); err == nil {
		return dir
	}
	return "/"
}

// taken reports whether anything is at a port of this machine.
func taken(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		_ = l.Close()
	}
	return err != nil
}

// listens reports whether somebody takes connections at a port of this machine.
func listens(port int) bool {
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// failed is a failure after which all is as it was before.
func failed(code, reason, message string) *program.Error {
	e := program.NoEffect(code, message)
	e.Details = map[string]any{"reason": reason}
	return e
}
