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
	if err != nil || len(units) != 4 {
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

// Dispatchers and executors have flags of their own beside those for both, because each refuses those of the other. An
// executor of another pool differs in its pool, its user, its credential, its flags and the port of its metrics alone.
func TestUnitsOfPools(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("../../deploy/systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	one, other := read("toolbus-executor.service"), read("toolbus-executor@.service")
	for name, unit := range map[string]string{"DISPATCHER": read("toolbus-dispatcher.service"), "EXECUTOR": one} {
		if !strings.Contains(unit, " --http-listen 127.0.0.1:946") {
			t.Errorf("the unit serves no metrics:\n%s", unit)
		}
		if !strings.Contains(unit, "\nType=notify\nTimeoutStartSec=infinity\nWatchdogSec=60\n") {
			t.Errorf("systemd does not learn when the process serves, and whether it lives:\n%s", unit)
		}
		if !strings.Contains(unit, " $TOOLBUS_FLAGS $"+name+"_FLAGS\n") ||
			!strings.Contains(unit, "\nEnvironment="+name+"_FLAGS=\n") {
			t.Errorf("the unit has no flags of %s alone:\n%s", name, unit)
		}
	}
	same := strings.NewReplacer(" of pool %i", "", "EnvironmentFile=-/etc/toolbus/environment-%i\n", "", " --pool %i", "",
		"-%i\n", "\n", "127.0.0.1:0", "127.0.0.1:9465").Replace(other)
	if same != one || strings.Count(other, "%i") != 5 {
		t.Errorf("the units of executors differ:\n%s\n%s", same, one)
	}
}
