package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/deployment"
)

// keys init writes a new deployment, and replaces no file of an existing one.
func TestKeysInit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deployment")
	s := shell{t: t}
	code, out, stderr := s.do("keys", "init", dir, "--profile", "standard", "--name", "here")
	if code != 0 || strings.Count(out, "nats-server -c "+dir) != 3 ||
		!strings.Contains(out, "nats://127.0.0.1:4222,nats://127.0.0.1:4223") {
		t.Fatalf("exit %d: %s%s", code, out, stderr)
	}
	keys, err := deployment.Load(filepath.Join(dir, "keys"))
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

// keys init writes a policy for the tools of a folder, too, which policy lint accepts, and says what comes next.
func TestKeysInitPolicy(t *testing.T) {
	dir, tools := filepath.Join(t.TempDir(), "deployment"), playTools(t)
	s := shell{t: t}
	out := s.must("keys", "init", dir, "--tools", tools, "--profile", "single-durable")
	for _, says := range []string{
		"toolbus policy push " + dir + " --server nats://127.0.0.1:4222 --credentials " +
			filepath.Join(dir, "operator.token") + "\n", "\ndispatcher: dispatcher --secrets-dir " + filepath.Join(dir, "keys") +
			" --server nats://127.0.0.1:4222 --tools " + tools + " --sync always\n",
	} {
		if !strings.Contains(out, says) {
			t.Errorf("with tools it does not say %q: %s", says, out)
		}
	}
	s.must("policy", "lint", dir, "--tools", tools)
	t.Chdir(filepath.Dir(tools))
	encrypted := filepath.Join(t.TempDir(), "encrypted")
	out = s.must("keys", "init", encrypted, "--tools", filepath.Base(tools), "--tls", "--store-dir", "streams")
	in := func(name string) string { return filepath.Join(encrypted, "tls", name) }
	flags := " --server tls://127.0.0.1:4222 --tls-ca " + in("ca.crt") + " --tls-cert " + in("client.crt") +
		" --tls-key " + in("client.key")
	streams := filepath.Join(filepath.Dir(tools), "streams")
	if conf, err := os.ReadFile(filepath.Join(encrypted, "nats-1.conf")); err != nil ||
		!strings.Contains(string(conf), filepath.Join(streams, "nats-1")) {
		t.Errorf("a relative --store-dir: %v\n%s", err, conf)
	}
	for _, says := range []string{
		"/keys" + flags + " --tools " + tools + "\n", "push " + encrypted + flags + " --cred",
		"\nlog:     " + filepath.Join(streams, "nats-1.log"), "\nbefore:  mkdir -p " + streams + " (",
	} {
		if !strings.Contains(out, says) {
			t.Errorf("with TLS it does not say %q: %s", says, out)
		}
	}
	if out := s.must("keys", "init", filepath.Join(t.TempDir(), "other")); !strings.Contains(out, "toolbus policy init") {
		t.Errorf("without tools: %s", out)
	}
	none := filepath.Join(t.TempDir(), "none")
	if code, _, _ := s.do("keys", "init", none, "--tools", none); code == 0 {
		t.Error("a folder of tools that does not exist is accepted")
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("secrets are written without the policy")
	}
}

// keys servers writes the server configurations again, and changes no other file.
func TestKeysServers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deployment")
	s, place := shell{t: t}, []string{"--store-dir", "/var/lib/x", "--host", "127.0.0.1:5222"}
	if code, _, stderr := s.do(append([]string{"keys", "init", dir}, place...)...); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	conf := filepath.Join(dir, "nats-1.conf")
	made, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := os.ReadFile(filepath.Join(dir, "keys", "issuer.nk"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(conf, []byte("what an older build wrote"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := s.do(append([]string{"keys", "servers", dir}, place...)...)
	if code != 0 || !strings.Contains(out, conf) {
		t.Fatalf("exit %d: %s%s", code, out, stderr)
	}
	for file, want := range map[string][]byte{conf: made, filepath.Join(dir, "keys", "issuer.nk"): keys} {
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what it was: %v", file, err)
		}
	}
	code, _, stderr = s.do("keys", "servers", dir)
	for _, says := range []string{`listen is "127.0.0.1:5222", and would be "127.0.0.1:4222"`,
		`store_dir is "/var/lib/x/nats-1"`, "change: --host, --store-dir"} {
		if code != 1 || !strings.Contains(stderr, says) {
			t.Errorf("without the flags: exit %d, not %q: %s", code, says, stderr)
		}
	}
	if got, err := os.ReadFile(conf); err != nil || !bytes.Equal(got, made) {
		t.Errorf("without the flags it replaced the configuration: %v\n%s", err, got)
	}
	s.must("keys", "servers", dir, "--host", "127.0.0.1:6222", "--store-dir", "/var/lib/x")
	if got, err := os.ReadFile(conf); err != nil || !bytes.Contains(got, []byte("127.0.0.1:6222")) {
		t.Errorf("with another --host: %v\n%s", err, got)
	}
	if code, _, stderr := s.do("keys", "servers", t.TempDir()); code != 1 || !strings.Contains(stderr, "keys") {
		t.Errorf("without a deployment: exit %d, %s", code, stderr)
	}
}
