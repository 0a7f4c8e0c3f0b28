package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// testArchive demands the checksums of the files for a platform, and an archive with static programs and the licences
// of all modules in them.
func testArchive(t *testing.T, made, arch, sums string) {
	t.Helper()
	name := nameFor(arch)
	for _, file := range []string{name + ".tar.gz", name + ".cdx.json"} {
		sum := fmt.Sprintf("%x  %s", sha256.Sum256(read(t, filepath.Join(made, file))), file)
		if !strings.Contains(sums, sum) {
			t.Errorf("SHA256SUMS does not say %s", sum)
		}
	}
	var files []string
	licensed := map[string]bool{} // by module
	archive := unpack(t, filepath.Join(made, name+".tar.gz"))
	for file, content := range archive {
		module, found := strings.CutPrefix(path.Dir(file), "licenses/")
		switch {
		case found:
			licensed[module] = licensed[module] || len(content) > 0
		case strings.Contains(file, "/"), path.Ext(file) == ".md", file == "LICENSE":
		default:
			files = append(files, file)
			wantStatic(t, file, content, machines[arch])
		}
	}
	slices.Sort(files)
	want := []string{"dispatcher", "executor", "nats-server", "toolbus", "toolbus-lab", "toolbus-supervisor"}
	if !slices.Equal(files, want) {
		t.Errorf("the archive has the programs %q, want %q", files, want)
	}
	testLinks(t, archive)
	modules := modulesOf(t, filepath.Join(made, name+".cdx.json"))
	for _, module := range modules {
		if !licensed[module] {
			t.Errorf("the archive has no licence of %s", module)
		}
	}
	server := func(module string) bool { return strings.HasPrefix(module, "github.com/nats-io/nats-server/v2@") }
	if !slices.ContainsFunc(modules, server) {
		t.Errorf("the document of the modules has %q", modules)
	}
}

// link matches the file or folder that a page of the archive links to.
var link = regexp.MustCompile(`\]\(([^():#\s]*[./A-Z][^():#\s]*)[)#]`)

// testLinks demands each file and folder that a page of the archive links to.
func testLinks(t *testing.T, archive map[string][]byte) {
	t.Helper()
	has, links := map[string]bool{}, 0
	for file := range archive {
		for ; file != "."; file = path.Dir(file) {
			has[file] = true
		}
	}
	for page, text := range archive {
		if path.Ext(page) != ".md" || strings.HasPrefix(page, "licenses/") {
			continue
		}
		for _, l := range link.FindAllSubmatch(text, -1) {
			links++
			if to := string(l[1]); !has[path.Join(path.Dir(page), to)] {
				t.Errorf("%s links to %s, which is not in the archive", page, to)
			}
		}
	}
	if links < 400 {
		t.Errorf("the pages of the archive have %d links", links)
	}
}

// modulesOf returns the modules in a CycloneDX document, as PATH@VERSION.
func modulesOf(t *testing.T, file string) (modules []string) {
	t.Helper()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(read(t, file)), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	for _, c := range *bom.Components {
		modules = append(modules, c.Name+"@"+c.Version)
	}
	return modules
}

// unpack returns the files in an archive, by name without their folder.
func unpack(t *testing.T, archive string) map[string][]byte {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(read(t, archive)))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for files := tar.NewReader(unzipped); ; {
		h, err := files.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		_, name, _ := strings.Cut(h.Name, "/")
		if all[name], err = io.ReadAll(files); err != nil {
			t.Fatal(err)
		}
	}
}

// wantStatic demands a program of a machine that needs no library and no loader.
func wantStatic(t *testing.T, name string, content []byte, machine elf.Machine) {
	t.Helper()
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if program.Machine != machine {
		t.Errorf("%s is for %s, want %s", name, program.Machine, machine)
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s is not static", name)
		}
	}
}
