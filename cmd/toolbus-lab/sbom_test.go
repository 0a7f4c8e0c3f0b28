package main

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// The document of this test program has each module that is in it, and the Go version, once.
func TestSBOM(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := do(t, "sbom", self, self)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(strings.NewReader(stdout), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	listed := map[string]int{}
	for _, c := range *bom.Components {
		listed[c.PackageURL]++
	}
	info, _ := debug.ReadBuildInfo()
	for _, m := range append(info.Deps, &debug.Module{Path: "std", Version: info.GoVersion}) {
		if url := "pkg:golang/" + m.Path + "@" + m.Version; listed[url] != 1 {
			t.Errorf("%s is %d times in the document", url, listed[url])
		}
	}
	if len(listed) != len(info.Deps)+1 || bom.Metadata.Component.Name != info.Main.Path {
		t.Errorf("%d components of %s", len(listed), bom.Metadata.Component.Name)
	}
	if code, _, stderr := do(t, "sbom", "sbom.go"); code != 1 || !strings.Contains(stderr, "sbom.go") {
		t.Errorf("a file that is no program: exit %d: %s", code, stderr)
	}
}
