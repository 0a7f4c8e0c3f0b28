package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/admin"
)

const sayManifest = `tool_id: say
semver: 1.0.0
owner: "@test"
description: says what its program says
determinism: pure
endpoint: {command: [./say.sh]}
schema: {request: {"type": "object"}, response: {"type": "string"}}
`

// sayTools writes a folder of tools with say, a script that outputs a text.
func sayTools(t *testing.T) (tools, program string) {
	t.Helper()
	tools = filepath.Join(t.TempDir(), "tools")
	program = filepath.Join(tools, "say", "say.sh")
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tools, "say", "tool.yaml"), []byte(sayManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, program, saying("first"))
	return tools, program
}

func saying(text string) string {
	return "#!/bin/sh\necho '{\"type\":\"output\",\"output\":\"" + text + "\"}'\n"
}

// write replaces a program.
func write(t *testing.T, program, text string) {
	t.Helper()
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// `toolbus doctor` shows no row twice, and prints nothing into the terminal of `toolbus dev`.
func TestDoctorOfDev(t *testing.T) {
	s, stop, said := startDevAt(t, t.TempDir(), t.TempDir(), "0")
	for _, args := range [][]string{{"doctor"}, {"doctor", "--secrets-dir", s.keys}} {
		rows := map[string]bool{}
		for row := range strings.Lines(s.must(args...)) {
			if rows[row] && !strings.Contains(row, "fix: ") {
				t.Errorf("%v prints twice: %s", args, row)
			}
			rows[row] = true
		}
	}
	stop()
	if strings.Contains(said.String(), "Violation") || strings.Contains(said.String(), `"level":"error"`) {
		t.Errorf("dev said %s", said)
	}
}

// `toolbus doctor` fails while the program of a tool is missing, and passes when it is there again. Meanwhile
// `toolbus tools list` says that the tool cannot run.
func TestDoctorOfUnrunnableTool(t *testing.T) {
	tools, program := sayTools(t)
	s, _, _ := startDevOf(t, tools, t.TempDir(), "--data-dir", t.TempDir(), "--port", "0", "--lease", "1s")
	s.must("doctor")
	wants := func(command string, code int, says string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; {
			got, stdout, _ := s.do(strings.Fields(command)...)
			if got == code && strings.Contains(stdout, says) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: exit %d, want %d and %q: %s", command, got, code, says, stdout)
			}
		}
	}
	if err := os.Rename(program, program+".away"); err != nil {
		t.Fatal(err)
	}
	wants("doctor", 1, "tool say")
	wants("tools list", 0, "cannot run  ")
	if err := os.Rename(program+".away", program); err != nil {
		t.Fatal(err)
	}
	wants("doctor", 0, "")
	wants("tools list", 0, "active  ")
}

// `toolbus doctor` shows the safety locks and counts its checks. An agent reads who may see what it may not.
func TestDoctorOfRoles(t *testing.T) {
	s, operator := deployed(t)
	agent := filepath.Join(t.TempDir(), "agent.token")
	s.must("credentials", "issue", "--actor", "agent://a", "--out", agent, "--credentials", operator)
	looks := func(says string, credential ...string) string {
		t.Helper()
		_, stdout, _ := s.do(append([]string{"doctor"}, credential...)...)
		if !strings.Contains(stdout, says) {
			t.Errorf("doctor %v does not say %q:\n%s", credential, says, stdout)
		}
		return stdout
	}
	looks("safety locks           none is set\n", "--credentials", operator)
	s.must("lock", "--tool", "hello", "--reason", "see INC-7", "--credentials", operator)
	locked := looks("WARN  safety locks           1 set, which refuse calls: the tool hello\n", "--secrets-dir", s.keys)
	if fix := "`toolbus unlock --tool hello --reason TEXT`"; !strings.Contains(locked, fix) {
		t.Errorf("doctor does not say %q:\n%s", fix, locked)
	}
	count := func(status string) int { return strings.Count("\n"+locked, "\n"+status+" ") }
	items := s.openItems("--secrets-dir", s.keys)
	if last := fmt.Sprintf("\n%d OK, %d WARN, %d FAIL, %d OPEN\n", count("OK"), count("WARN"), count("FAIL"),
		items+count("OPEN")-1); !strings.HasSuffix(locked, last) {
		t.Errorf("the last line is not %q:\n%s", last, locked)
	}
	row := fmt.Sprintf("OPEN  contract               %d items of docs/tool_contract.md", items)
	if items < 5 || strings.Count(locked, row) != 1 || strings.Contains(locked, "OPEN  contract: ") {
		t.Errorf("not one row %q:\n%s", row, locked)
	}
	shown := looks("a token of the role agent may not ask for them", "--credentials", agent)
	if strings.Contains(shown, "FAIL ") || strings.Contains(shown, "no dispatcher says") {
		t.Errorf("an agent: %s", shown)
	}
}

// openItems returns how many items of the contract are open as JSON, which has them all.
func (s shell) openItems(flags ...string) (n int) {
	s.t.Helper()
	_, stdout, _ := s.do(append([]string{"doctor", "--json"}, flags...)...)
	var checks []admin.Check
	if err := json.Unmarshal([]byte(stdout), &checks); err != nil {
		s.t.Fatal(err)
	}
	for _, c := range checks {
		if strings.HasPrefix(c.Name, "contract: ") && c.Status == checkOpen {
			n++
		}
	}
	return n
}
