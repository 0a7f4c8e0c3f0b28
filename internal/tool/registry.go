package tool

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/Masterminds/semver/v3"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// program is a file in the tool's folder that its endpoint names, as it was when the digest was computed.
type program struct {
	name string
	runs bool   // it is the program of the command, not an argument
	sum  string // SHA-256, hex
	// info is the state of the file before sum was last computed. A file with the same identity, size and times has sum.
	info atomic.Pointer[fs.FileInfo]
}

// OpenProgram returns an error if a program of the tool differs from the one that was loaded: the run would not match
// the recorded digest. If the program of the command is a binary in the tool's folder, OpenProgram returns it, opened.
// Run that file: another one may be at its path at any time. The caller closes it. The file is nil if the program is a
// script or is not in the folder. OpenProgram reads a file again only if its identity, its size, its modification time
// or, on Linux, its change time has changed.
func (m *Manifest) OpenProgram() (binary *os.File, err error) {
	if m.Missing != "" {
		return nil, fmt.Errorf("%s: was missing when the tool was loaded; build it, and restart the executor", m.Missing)
	}
	defer func() {
		if err != nil && binary != nil {
			_ = binary.Close()
			binary = nil
		}
	}()
	for _, p := range m.programs {
		file, err := p.open(m.Dir)
		if err != nil {
			return binary, fmt.Errorf("%s: %w", p.name, err)
		}
		if p.runs && isELF(file) {
			binary = file
			continue
		}
		_ = file.Close()
	}
	return binary, nil
}

// Intact returns an error if no run of the tool could start now because of its files: one is missing, or differs from
// what was loaded.
func (m *Manifest) Intact() error {
	if refusal := m.NeverRuns(); refusal != nil {
		return errors.New(refusal.Message)
	}
	binary, err := m.OpenProgram()
	if binary != nil {
		_ = binary.Close()
	}
	return err
}

func isELF(file *os.File) bool {
	magic := make([]byte, 4)
	_, err := file.ReadAt(magic, 0)
	return err == nil && string(magic) == "\x7fELF"
}

// open opens the file, and returns an error unless it has the content that was loaded.
func (p *program) open(dir string) (*os.File, error) {
	const flags = os.O_RDONLY | syscall.O_NONBLOCK // so that a named pipe in its place does not keep the run waiting
	file, err := os.OpenFile(filepath.Join(dir, p.name), flags, 0)
	if err != nil {
		return nil, err
	}
	if err := p.unchanged(file); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func (p *program) unchanged(file *os.File) error {
	info, err := file.Stat()
	switch {
	case err != nil || same(info, *p.info.Load()):
		return err
	case !info.Mode().IsRegular():
		return errNotRegular
	}
	switch sum, err := sumOf(file); {
	case err != nil:
		return err
	case sum != p.sum:
		return errChanged
	}
	p.info.Store(&info)
	return nil
}

// same reports whether nothing has written to a file between a and b. A program can set the modification time of a
// file, but not its change time.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) &&
		supervisor.ChangeTime(a).Equal(supervisor.ChangeTime(b))
}

// resolve returns the first of the versions, which are sorted by preferred, in the range want: an exact version, 1.x,
// ^1.2, ~1.2.3, ">=1 <2", * or "". A range selects a pre-release only if it names one. If no version is in the range,
// resolve returns the first version and a refusal that names them all.
func resolve(versions []*Manifest, want string) (*Manifest, *envelope.Error) {
	first := versions[0]
	if want == "" || want == "*" {
		return first, nil
	}
	if at := slices.IndexFunc(versions, func(m *Manifest) bool { return m.Semver == want }); at >= 0 {
		return versions[at], nil
	}
	if len(want) > envelope.MaxLabel {
		return first, envelope.NewError(envelope.CodeMalformed,
			fmt.Sprintf("tool_version is longer than %d bytes", envelope.MaxLabel))
	}
	wanted, err := semver.NewConstraint(want)
	if err != nil {
		return first, envelope.NewError(envelope.CodeMalformed, fmt.Sprintf("tool_version %q is not a semver range", want)).
			WithFix("write an exact version such as " + first.Semver + ", or a range such as ^1.2, 1.x or >=1.2 <2")
	}
	for _, m := range versions {
		if have, err := semver.StrictNewVersion(m.Semver); err == nil && wanted.Check(have) {
			return m, nil
		}
	}
	return first, outOfRange(versions, want)
}

func outOfRange(versions []*Manifest, want string) *envelope.Error {
	names := make([]string, len(versions))
	for i, m := range versions {
		names[i] = m.Semver
	}
	return envelope.NewError(envelope.CodeVersion,
		fmt.Sprintf("no version of %s is in %q; there is %s", versions[0].ToolID, want, strings.Join(names, ", "))).
		WithFix("ask for " + names[0])
}

// preferred orders the versions of a tool: callable before not callable, then releases before pre-releases, then newest
// first.
func preferred(a, b *Manifest) int {
	if a.Callable() != b.Callable() {
		return before(a.Callable())
	}
	x, xErr := semver.StrictNewVersion(a.Semver)
	y, yErr := semver.StrictNewVersion(b.Semver)
	switch {
	case xErr != nil || yErr != nil:
		return cmp.Compare(b.Semver, a.Semver)
	case (x.Prerelease() == "") != (y.Prerelease() == ""):
		return before(x.Prerelease() == "")
	}
	return y.Compare(x)
}

func before(a bool) int {
	if a {
		return -1
	}
	return 1
}
