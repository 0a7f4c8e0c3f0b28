package deployment_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/deployment"
)

func free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func TestKeysAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	if _, err := deployment.Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	made, err := deployment.LoadOrCreate(dir, "here")
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := deployment.LoadOrCreate(dir, "there")
	if err != nil {
		t.Fatal(err)
	}
	a, _ := made.Public()
	b, _ := loaded.Public()
	one, _ := made.Signing()
	other, _ := loaded.Signing()
	if a != b || !one.Equal(other) || loaded.Deployment != "here" {
		t.Errorf("made %+v, loaded %+v of %s", a, b, loaded.Deployment)
	}
	if _, err := deployment.Create(dir, "here"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("keys were replaced: %v", err)
	}
}

// Secrets that other users may read are an error.
func TestKeysArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	if _, err := deployment.Create(dir, "here"); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 7 {
		t.Fatalf("%v, %v", files, err)
	}
	open := map[string]fs.FileMode{dir: 0o750}
	for _, f := range files {
		open[filepath.Join(dir, f.Name())] = 0o604
	}
	for path, mode := range open {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is made with %v", path, info.Mode())
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := deployment.Load(dir); err == nil {
			t.Errorf("%s with mode %v is used", path, mode)
		}
		if err := os.Chmod(path, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKeysThatAreNone(t *testing.T) {
	for _, name := range []string{"", "a b", "a.b", "Ä"} {
		if _, err := deployment.NewKeys(name); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
	dir := filepath.Join(t.TempDir(), "keys")
	if _, err := deployment.Create(dir, "here"); err != nil {
		t.Fatal(err)
	}
	user, err := os.ReadFile(filepath.Join(dir, "system.nk"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "SU", string(user)} {
		if err := os.WriteFile(filepath.Join(dir, "issuer.nk"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := deployment.Load(dir); err == nil {
			t.Errorf("%q is the seed of an account", text)
		}
	}
}
