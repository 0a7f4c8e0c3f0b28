package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each unit limits memory, tasks, files and its output, writes no core dump, and systemd finds nothing wrong with it.
func TestUnits(t *testing.T) {
	units, err := filepath.Glob("../../deploy/systemd/*.service")
	if err != nil || len(units) != 3 {
		t.Fatalf("%d units, %v", len(units), err)
	}
	verify, _ := exec.LookPath("systemd-analyze")
	program := regexp.MustCompile(`(?m)^(ExecStart=)\S+`)
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		for _, setting := range []string{
			"MemoryHigh=", "MemoryMax=", "TasksMax=", "LimitNOFILE=", "LimitCORE=0\n", "LogRateLimitIntervalSec=",
			"LogRateLimitBurst=",
		} {
			if !strings.Contains(string(text), "\n"+setting) {
				t.Errorf("%s does not set %s", unit, setting)
			}
		}
		if verify == "" {
			continue // the settings are read all the same
		}
		name := filepath.Join(t.TempDir(), strings.Replace(filepath.Base(unit), "@", "@x", 1))
		text = program.ReplaceAll(text, []byte("${1}/bin/true")) // the programs are not installed here
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), verify, "verify", name).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
	}
}
