package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// doWith runs a command with a file of credentials in TOOLBUS_CREDENTIALS.
func (s shell) doWith(credentials string, args ...string) (code int, said string) {
	s.t.Helper()
	var out bytes.Buffer
	env := environment{stdin: strings.NewReader(""), stdout: &out, stderr: &out, url: s.url, home: s.home,
		credentials: credentials}
	code = run(s.t.Context(), env, args)
	return code, out.String()
}

// A token of a role that may not read the record is refused with its origin, and with what to do.
func TestAuditNeedsAnAuditor(t *testing.T) {
	s, operator := deployed(t)
	agent := s.token(operator, "agent")
	s.home = t.TempDir()
	code, said := s.doWith(agent[1], "audit", "replay")
	const ofEnvironment = "TOOLBUS_CREDENTIALS has a token of the role agent; audit needs an auditor's or operator's: " +
		"unset it, or --credentials FILE"
	if code != exitUsage || !strings.Contains(said, ofEnvironment) {
		t.Errorf("exit %d: %s", code, said)
	}
	code, _, said = s.do(append([]string{"dead", "list"}, agent...)...)
	const ofFlag = "--credentials has a token of the role agent; dead needs an auditor's or operator's: name another FILE"
	if code != exitUsage || !strings.Contains(said, ofFlag) {
		t.Errorf("exit %d: %s", code, said)
	}
	if code, said := s.doWith(operator, "audit", "replay"); code != 0 {
		t.Errorf("exit %d: %s", code, said)
	}
}

// On a bus of dev the user is its operator, also if TOOLBUS_CREDENTIALS names the file of the agent through the link
// latest, as in the README.
func TestAuditWithTheAgentOfDev(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	latest := filepath.Join(t.TempDir(), "latest")
	if err := os.Symlink(filepath.Dir(s.keys), latest); err != nil {
		t.Fatal(err)
	}
	if code, said := s.doWith(filepath.Join(latest, "credentials", "agent"), "audit", "replay"); code != 0 {
		t.Errorf("exit %d: %s", code, said)
	}
}
