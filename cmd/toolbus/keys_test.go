package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/accounts"
)

// A new deployment is written once, and what was written is never replaced.
func TestKeysInit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deployment")
	s := shell{t: t}
	code, out, stderr := s.do("keys", "init", dir, "--profile", "standard", "--name", "here")
	if code != 0 || strings.Count(out, "nats-server -c "+dir) != 3 ||
		!strings.Contains(out, "nats://127.0.0.1:4222,nats://127.0.0.1:4223") {
		t.Fatalf("exit %d: %s%s", code, out, stderr)
	}
	keys, err := accounts.Load(filepath.Join(dir, "keys"))
	if err != nil || keys.Deployment != "here" {
		t.Errorf("%+v, %v", keys, err)
	}
	for _, try := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"keys", "init", dir}, 1, "another folder"},
		{[]string{"keys", "init"}, exitUsage, "folder"},
		{[]string{"keys", "init", dir, "--profile", "huge"}, exitUsage, "huge"},
		{[]string{"keys", "init", dir, "--host", "nowhere"}, exitUsage, "host:port"},
	} {
		if code, _, stderr := s.do(try.args...); code != try.code || !strings.Contains(stderr, try.says) {
			t.Errorf("%v: exit %d, %s", try.args, code, stderr)
		}
	}
}
