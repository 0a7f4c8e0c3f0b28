package release

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/seed-018f16cc/toolbus"
)

const modulePath = "github.com/seed-018f16cc/toolbus"

// TestInstall installs toolbus as a user does, with nothing but the go command and a module proxy. The program knows
// its version, and its `toolbus dev` runs the example tools in an empty folder.
func TestInstall(t *testing.T) {
	t.Parallel()
	bin, empty := install(t), t.TempDir()
	env := []string{
		"HOME=" + t.TempDir(), "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "TOOLBUS_CREDENTIALS=", "TOOLBUS_CONTEXT=",
	}
	said := output(t, empty, env, bin, "version")
	if want := "toolbus " + toolbus.Version + "\nmodule: v" + toolbus.Version + " h1:"; !strings.HasPrefix(said, want) {
		t.Errorf("an installed program says %q, want %q", said, want)
	}
	env = append(env, "TOOLBUS_URL="+dev(t, empty, env, bin))
	said = output(t, empty, env, bin, "call", "fs.write", "--input", `{"path":"note.txt","content":"hello"}`)
	if !strings.Contains(said, `"created": true`) {
		t.Errorf("the call of an example tool says %s", said)
	}
}

// dev runs the example tools until the end of the test, and returns the URL of the bus.
func dev(t *testing.T, dir string, env []string, bin string) (url string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), bin, "dev", "--examples", "--port", "0")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	first, err := lines.ReadString('\n')
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, lines)
		if err := cmd.Wait(); err != nil {
			t.Errorf("dev ended with %v: %s", err, &stderr)
		}
	})
	_, url, ok := strings.Cut(strings.TrimSpace(first), "is serving 4 tools at ")
	if err != nil || !ok {
		t.Fatalf("dev says %q, %v", first, err)
	}
	return url
}

// install returns the program that `go install` makes of this module from a proxy. The other modules come from the
// cache of this machine. Packages of these that `make release` has compiled are not compiled again.
func install(t *testing.T) (bin string) {
	t.Helper()
	dir := t.TempDir()
	cache := output(t, root, nil, "go", "env", "GOMODCACHE")
	env := []string{
		"GOPROXY=file://" + proxy(t) + ",file://" + filepath.Join(cache, "cache/download"), "GOSUMDB=off", "GONOPROXY=none",
		"GOFLAGS=-mod=mod -modcacherw -trimpath", "GOWORK=off", "CGO_ENABLED=0", "GOBIN=" + dir,
		"GOMODCACHE=" + filepath.Join(t.TempDir(), "modules"),
	}
	output(t, dir, env, "go", "install", "-ldflags=-s -w", modulePath+"/cmd/toolbus@v"+toolbus.Version)
	return filepath.Join(dir, "toolbus")
}

// proxy returns a folder with the files of a module proxy that has the repository as its version of today.
func proxy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	m := module.Version{Path: modulePath, Version: "v" + toolbus.Version}
	var files []zip.File
	for _, name := range sources(t) {
		files = append(files, source(name))
	}
	var packed bytes.Buffer
	if err := zip.Create(&packed, m, files); err != nil {
		t.Fatal(err)
	}
	versions := filepath.Join(dir, filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"list": []byte(m.Version + "\n"), m.Version + ".info": []byte(`{"Version":"` + m.Version + `"}`),
		m.Version + ".mod": read(t, filepath.Join(root, "go.mod")), m.Version + ".zip": packed.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(versions, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// source is a file of the repository for [zip.Create].
type source string

func (s source) Path() string                 { return string(s) }
func (s source) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(root, string(s))) }
func (s source) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(root, string(s))) }
