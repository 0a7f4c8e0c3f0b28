package tool

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// endpointText replaces an endpoint that is a text by the mapping that it means, and reports whether it was one.
func (l *toolLoader) endpointText() bool {
	text, ok := l.at("/endpoint").(string)
	if ok = ok && strings.TrimSpace(text) != "" && l.contract.transport.Text != nil; ok {
		l.tree.(map[string]any)["endpoint"] = l.contract.transport.Text(textOf(l.at("/tool_id")), text)
	}
	return ok
}

// endpoint has the transport decode the endpoint, and adds the checksums of the files that it names.
func (l *toolLoader) endpoint(raw jsontext.Value) {
	if l.contract.transport.Endpoint == nil {
		return
	}
	l.manifest.Endpoint = l.contract.transport.Endpoint(l.manifest, raw, func(at, message, hint string) {
		if key, isKey := strings.CutSuffix(at, "#"); isKey {
			l.report(l.keys[jsontext.Pointer(key)], message, hint)
			return
		}
		l.fail(jsontext.Pointer(at), message, hint)
	})
	l.manifest.program = l.placeOf("/endpoint/command/0")
	for _, f := range l.manifest.Endpoint.Files() {
		if info, err := fs.Stat(l.files, f.Name); f.Argument && (err != nil || !info.Mode().IsRegular()) {
			continue
		}
		p, err := l.program(f)
		if err == nil {
			l.sums[f.Name] = p.sum
			l.manifest.programs = append(l.manifest.programs, p)
		}
		switch {
		case !f.Runs && !f.Argument && errors.Is(err, fs.ErrNotExist):
			l.missing(f)
		case !f.Runs || !l.manifest.Callable():
		case f.Default && errors.Is(err, fs.ErrNotExist):
			if l.manifest.Missing = f.Name; l.faulty("/endpoint") { // such as a misspelt command
				continue
			}
			l.warn(l.values["/tool_id"], "the program "+f.Name+" is missing: calls end with "+string(envelope.CodeUnavailable),
				"build it, or name the program with endpoint: {command: [./PROGRAM]}")
		default:
			l.runnable(jsontext.Pointer(f.At), p, err)
		}
	}
}

// missing reports an argument that names no file. The first one is mostly the program of an interpreter.
func (l *toolLoader) missing(f File) {
	p := Problem{
		Severity: Warning, Message: "the file " + f.Name + " is missing", Hint: "correct its name, or write the file",
	}
	if f.At == "/endpoint/command/1" && l.manifest.Callable() {
		p.Severity, p.Unrunnable = Fault, true
	}
	l.mark(l.values[jsontext.Pointer(f.At)], p)
	if p.Unrunnable {
		l.manifest.lost = &l.problems[len(l.problems)-1]
	}
}

// CannotRun returns why no run of the tool can start on this host, or nil. The program of the adapter may be an
// interpreter, whose own program is missing.
func (m *Manifest) CannotRun(a Adapter) error {
	if m.lost != nil {
		return Problems{*m.lost}
	}
	if err := a.Validate(m); err != nil {
		return Problems{m.Unrunnable(err)}
	}
	return nil
}

// Unrunnable returns the problem of a tool of which no run can start on this host, at its program in the manifest.
func (m *Manifest) Unrunnable(why error) Problem {
	return Problem{
		File: path.Join(filepath.Base(m.Dir), manifestFile), Line: m.program.line, Column: m.program.column, Severity: Fault,
		Message: "the tool cannot run here: " + why.Error(), Hint: "install what is missing, or correct the command or the " +
			"program", Unrunnable: true,
	}
}

var sha256Pattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// artifact compares the digest in the manifest with the program: the first file of the tool's folder that the command
// names. Only a SHA-256 can be compared.
func (l *toolLoader) artifact() {
	const at = "/digest"
	m := l.manifest
	if m.Artifact == "" || l.bad[at] {
		return
	}
	name, sum := l.command()
	switch actual, said := "sha256:"+sum, strings.ToLower(strings.TrimSpace(m.Artifact)); {
	case !sha256Pattern.MatchString(said):
		l.warn(l.values[at], fmt.Sprintf("%.40q has not the form of a SHA-256, so it is not compared", m.Artifact),
			"write sha256: and 64 hexadecimal digits, or leave it out")
		if sum != "" {
			l.problems[len(l.problems)-1].edit = l.scalar(at, actual)
		}
	case sum == "":
		l.warn(l.values[at], "the digest is not compared: the tool has no program in its folder",
			"leave it out; the build digest covers the manifest and the schemas")
	case actual != said:
		m.Actual = actual
		l.mark(l.values[at], Problem{
			Severity: Fault, Message: fmt.Sprintf("%s has another digest: no call runs (%s)", name, envelope.CodeDigest),
			Hint: "build the program again, or write " + actual + ", as `toolbus tools lint --fix` does",
			edit: l.scalar(at, actual),
		})
	}
}

// command returns the first file of the folder that the command of the tool names, and its SHA-256. The sum is "" if
// there is no such file, or it cannot be read.
func (l *toolLoader) command() (name, sum string) {
	if l.manifest.Endpoint == nil {
		return "", ""
	}
	for _, f := range l.manifest.Endpoint.Files() {
		sum, has := l.sums[f.Name]
		if strings.HasPrefix(f.At, "/endpoint/command/") && (has || !f.Argument) {
			return f.Name, sum
		}
	}
	return "", ""
}

// NeverRuns returns the refusal of each call of a tool whose program is missing or is not the one whose SHA-256 the
// manifest says. It returns nil for any other tool. An executor that has the program has another build of the tool, so
// it would not run the call either.
func (m *Manifest) NeverRuns() *envelope.Error {
	switch {
	case m.Missing != "":
		says := fmt.Sprintf("the program %s of %s is missing", m.Missing, m.ToolID)
		return envelope.NewError(envelope.CodeUnavailable, says).
			WithFix("build it, or tell the tool's owner: `toolbus dev` then serves it, and other dispatchers and " +
				"executors once they start again")
	case m.Actual != "":
		return envelope.NewError(envelope.CodeDigest,
			fmt.Sprintf("the manifest of %s says digest %s, and its program has %s", m.ToolID, m.Artifact, m.Actual)).
			WithFix("tell the tool's owner: the manifest is of another build of the program; build that one, or write the " +
				"digest of this one with `toolbus tools lint --fix DIR`")
	}
	return nil
}

// read returns a file in the folder, and adds its checksum to the digest.
func (l *toolLoader) read(name string) ([]byte, error) {
	name = path.Clean(name)
	raw, err := readFile(l.files, name, jsonschema.MaxBytes)
	if err == nil {
		l.sums[name] = fmt.Sprintf("%x", sha256.Sum256(raw))
	}
	return raw, err
}

// program reads a file that the endpoint names. It takes the file info before the checksum: if the file changes in
// between, OpenProgram reads it again.
func (l *toolLoader) program(f File) (*program, error) {
	p := &program{name: f.Name, runs: f.Runs}
	info, err := fs.Stat(l.files, f.Name)
	if err != nil {
		return p, err
	}
	p.info.Store(&info)
	p.sum, err = sumFile(l.files, f.Name)
	return p, err
}

// runnable reports a program that cannot be read or is not executable. Permissions are checked only in a folder on
// disk.
func (l *toolLoader) runnable(at jsontext.Pointer, p *program, err error) {
	if err != nil {
		l.fail(at, reason(err), l.programHint(p.name))
		return
	}
	if l.manifest.Dir != "" && (*p.info.Load()).Mode()&0o111 == 0 {
		l.fail(at, p.name+" is not executable", "chmod +x "+p.name)
	}
}

// programHint returns a hint on how to correct the name of a program that cannot be read.
func (l *toolLoader) programHint(name string) string {
	info, err := fs.Lstat(l.files, name)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		return "it is a link to a program elsewhere: write the absolute path of that program. Or activate its virtual " +
			"environment, and write the name of the program alone"
	case strings.Contains(name, " "):
		return "write each argument as an item: [" + strings.Join(strings.Fields(name), ", ") + "]"
	case err != nil && !errors.Is(err, fs.ErrNotExist), !filepath.IsLocal(name):
		return "a program outside of the tool's folder has an absolute path. Or activate its virtual environment, and " +
			"write the name of the program alone, which is looked for in PATH"
	}
	return "the program lies in the tool's own folder; build it first"
}

// digest returns the SHA-256 of the canonical JSON of the manifest and of the checksums of the files that it names.
// Comments, order and layout of the YAML do not change it.
func (l *toolLoader) digest(manifest jsontext.Value) (string, error) {
	var raw jsontext.Value
	raw, err := json.Marshal(map[string]any{"manifest": manifest, "files": l.sums})
	if err != nil {
		return "", err
	}
	if err := raw.Canonicalize(); err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(raw)), nil
}

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
