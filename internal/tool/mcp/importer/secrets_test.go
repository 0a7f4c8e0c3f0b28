package importer_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
)

// TestHide moves values that may be credentials from servers.json to files of their own.
func TestHide(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".secrets"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := client.Server{Command: "x", Env: map[string]string{"TOKEN": "swordfish", "HOME": "${env:HOME}"}}
	if err := importer.Hide(dir, "shop", &s); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"TOKEN": "${file:.secrets/shop/TOKEN}", "HOME": "${env:HOME}"}
	if diff := cmp.Diff(want, s.Env); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	resolved, err := s.Resolve(dir, func(string) (string, bool) { return "/home", true })
	if err != nil || resolved.Env["TOKEN"] != "swordfish" {
		t.Errorf("%v, %v", resolved.Env, err)
	}
	if info, err := os.Stat(filepath.Join(dir, ".secrets")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	info, err := os.Stat(filepath.Join(dir, ".secrets", "shop", "TOKEN"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
