//go:build linux

package process_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool/process"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
)

// BenchmarkRun measures the cost of a supervisor. It compares an exec of a program with runs under the small supervisor
// and under this test binary, which is larger.
func BenchmarkRun(b *testing.B) {
	echo, err := exec.LookPath("echo")
	if err != nil {
		b.Fatal(err)
	}
	const line = `{"type":"output","output":1}`
	b.Run("exec", func(b *testing.B) {
		for b.Loop() {
			if _, err := exec.Command(echo, line).Output(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, program := range map[string]string{"small": smallSupervisor(b), "self": "/proc/self/exe"} {
		b.Run(name, func(b *testing.B) {
			a, err := process.New(process.Options{Supervisor: program})
			if err != nil {
				b.Fatal(err)
			}
			m := manifest("echo")
			m.Dir, m.Endpoint = b.TempDir(), process.Endpoint{Command: []string{echo, line}}
			inv := callOf("echo", "{}")
			for b.Loop() {
				if _, err := a.Execute(b.Context(), m, inv, &tooltest.Recorder{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// smallSupervisor builds cmd/toolbus-supervisor.
func smallSupervisor(tb testing.TB) string {
	tb.Helper()
	program := filepath.Join(tb.TempDir(), "toolbus-supervisor")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program,
		"github.com/seed-018f16cc/toolbus/cmd/toolbus-supervisor")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	return program
}
