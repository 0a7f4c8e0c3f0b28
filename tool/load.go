package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-018f16cc/toolbus/schema"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// DefaultPool is the executor pool of tools that name none.
const DefaultPool = "default"

// ValidPool reports whether a manifest can name the pool: lower-case letters, digits and -, at most
// 32 bytes.
func ValidPool(name string) bool { return poolPattern.MatchString(name) }

const (
	manifestFile = "tool.yaml"
	sharedFolder = "internal" // code that tools share, as Go knows it; never a tool

	// MaxManifest is the largest tool.yaml, in bytes.
	MaxManifest = 1 << 20
	// MaxDescribed is the most that callers are told of one tool, in bytes of JSON: its schemas with
	// all that they refer to, and its texts.
	MaxDescribed = 512 << 10
)

// Load reads the manifest of every folder in dir but hidden ones and internal, which holds what
// the programs of tools share; what is no folder is no tool. It reports everything that is wrong with all of them at once, as
// Problems. No file of a tool may lie outside its own folder, not even behind a symbolic link.
func Load(dir string) (*Registry, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("tools folder %s: %w", dir, err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("tools folder: %w", err)
	}
	defer root.Close()
	open := func(name string) (fs.FS, func() error, error) {
		if info, err := root.Stat(name); err == nil && !info.IsDir() { // a named pipe would block
			return nil, nil, &fs.PathError{Op: "open", Path: name, Err: errNotFolder}
		}
		sub, err := root.OpenRoot(name)
		if err != nil {
			return nil, nil, err
		}
		return sub.FS(), sub.Close, nil
	}
	return load(root.FS(), abs, open)
}

// LoadFS is Load on a file system without symbolic links, such as an embedded one. Its process
// tools have no folder to run in; adapters refuse them.
func LoadFS(fsys fs.FS) (*Registry, error) {
	return load(fsys, "", func(name string) (fs.FS, func() error, error) {
		sub, err := fs.Sub(fsys, name)
		return sub, func() error { return nil }, err
	})
}

func load(fsys fs.FS, dir string, open func(name string) (fs.FS, func() error, error)) (*Registry, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("tools folder: %w", err)
	}
	var problems Problems
	var manifests []*Manifest
	for _, entry := range entries {
		mayBeTool := entry.IsDir() || entry.Type()&fs.ModeSymlink != 0
		if !mayBeTool || strings.HasPrefix(entry.Name(), ".") || entry.Name() == sharedFolder {
			continue
		}
		files, release, err := open(entry.Name())
		if err != nil {
			problems = append(problems, Problem{File: entry.Name(), Message: reason(err), Hint: "a tool folder must lie in the tools folder"})
			continue
		}
		m, found := loadTool(files, entry.Name(), dir)
		if err := release(); err != nil {
			return nil, fmt.Errorf("tool folder %s: %w", entry.Name(), err)
		}
		problems = append(problems, found...)
		manifests = append(manifests, m)
	}
	if len(problems) > 0 {
		problems.sort()
		return nil, problems
	}
	return NewRegistry(manifests...), nil
}

// toolLoader turns one folder into one Manifest.
type toolLoader struct {
	decoder
	files    fs.FS
	folder   string
	raw      rawManifest
	manifest *Manifest
	sums     map[string]string // SHA-256 of the files the manifest names, for the digest
}

func loadTool(files fs.FS, folder, dir string) (*Manifest, Problems) {
	l := &toolLoader{
		decoder:  decoder{file: path.Join(folder, manifestFile), places: map[string]place{}, keys: map[string]place{}, bad: map[string]bool{}},
		files:    files,
		folder:   folder,
		manifest: &Manifest{},
		sums:     map[string]string{},
	}
	if dir != "" {
		l.manifest.Dir = filepath.Join(dir, folder)
	}
	src, err := readFile(files, manifestFile, MaxManifest)
	if err != nil {
		l.report(place{}, reason(err), manifestHint(err))
		return nil, l.problems
	}
	l.decode(src, &l.raw)
	if l.body != nil && !l.bad[""] { // otherwise every field would be missing
		l.check()
	}
	return l.manifest, l.problems
}

// manifestHint says what mends a manifest that cannot be read.
func manifestHint(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "every folder of tools needs a " + manifestFile
	case errors.Is(err, errTooLarge):
		return "move large examples out of the manifest"
	}
	return "it must be a file that the executor may read"
}

func (l *toolLoader) check() {
	l.identity()
	l.behaviour()
	l.endpoint()
	l.functions()
	l.described()
	if want := subjects.Token(l.raw.ToolID); want != l.folder && l.raw.ToolID != "" {
		l.fail("tool_id", fmt.Sprintf("the folder of %s is %s", l.raw.ToolID, l.folder), "rename it to "+want)
	}
	l.programs()
	if len(l.problems) > 0 {
		return
	}
	digest, err := l.digest()
	if err != nil {
		l.report(place{}, reason(err), jsonHint)
	}
	l.manifest.Digest = digest
}

func (l *toolLoader) functions() {
	l.manifest.Functions = make(map[string]*Function, len(l.raw.Functions))
	if len(l.raw.Functions) == 0 && !l.bad["functions"] {
		l.fail("functions", "functions is required", "a tool has at least one function")
	}
	for name, raw := range l.raw.Functions {
		at := "functions." + name
		if !functionPattern.MatchString(name) {
			l.failKey(at, fmt.Sprintf("%q is not a function name", name), "a lower-case letter, then letters, digits and _ . -, at most 64 bytes")
		}
		f := &Function{Name: name, Description: raw.Description}
		f.Request = l.schema(at+".request", raw.Request)
		f.Response = l.schema(at+".response", raw.Response)
		f.Examples = l.examples(at, f, raw.Examples)
		l.manifest.Functions[name] = f
	}
}

// described holds what callers are told of the tool against what one message has room for.
func (l *toolLoader) described() {
	const around = 256 // names of members, at most
	m := l.manifest
	texts := []string{m.ToolID, m.Owner, m.Title, m.Description}
	size := around
	for _, f := range m.Functions {
		texts = append(texts, f.Name, f.Description)
		size += around
		for _, s := range []*schema.Schema{f.Request, f.Response} {
			if s != nil {
				size += len(s.Whole())
			}
		}
	}
	for _, e := range m.Errors {
		texts = append(texts, e.Name, e.Name, e.Message, e.Fix)
		size += around
	}
	for _, text := range texts {
		quoted, _ := jsontext.AppendQuote(nil, text) // the manifest is UTF-8
		size += len(quoted)
	}
	if size > MaxDescribed {
		l.fail("functions", fmt.Sprintf("schemas and texts take %d bytes; callers can be told %d", size, MaxDescribed),
			"shorten schemas and descriptions")
	}
}

// schema compiles the schema file named at a path of the manifest.
func (l *toolLoader) schema(at, name string) *schema.Schema {
	l.required(at, name)
	if name == "" {
		return nil
	}
	raw, err := l.read(name)
	if err != nil {
		l.fail(at, reason(err), "a schema lies in the tool's own folder")
		return nil
	}
	compiled, err := schema.Compile(path.Clean(name), raw, l.read)
	if err != nil {
		l.fail(at, reason(err), schemaHint(err))
		return nil
	}
	return compiled
}

// schemaHint says what mends a schema that does not compile.
func schemaHint(err error) string {
	refused, invalid := new(jsonschema.LoadURLError), new(jsonschema.SchemaValidationError)
	switch {
	case errors.As(err, &refused) && errors.Is(refused.Err, fs.ErrNotExist):
		return "put the file there, or correct the $ref"
	case errors.As(err, &refused):
		return "refer only to files in the tool's own folder; nothing is fetched"
	case errors.As(err, &invalid) && strings.Contains(err.Error(), "is not valid regex"):
		return "patterns are RE2: brackets are closed, no lookaround, no back-references"
	case errors.As(err, &invalid):
		return "correct the schema at the place that is named; it is JSON Schema 2020-12"
	}
	return "a schema is one JSON document, JSON Schema 2020-12, and what it refers to is there"
}

// read returns a schema file of the folder and notes it for the digest.
func (l *toolLoader) read(name string) ([]byte, error) {
	name = path.Clean(name)
	raw, err := readFile(l.files, name, schema.MaxBytes)
	if err == nil {
		sum := sha256.Sum256(raw)
		l.sums[name] = hex.EncodeToString(sum[:])
	}
	return raw, err
}

func (l *toolLoader) examples(at string, f *Function, raw []rawExample) []Example {
	examples := make([]Example, len(raw))
	for i, e := range raw {
		where := fmt.Sprintf("%s.examples[%d]", at, i)
		l.required(where+".name", e.Name)
		if e.Input == nil && !l.bad[where+".input"] {
			l.fail(where, "an example needs an input", "add input: {…}")
		}
		l.conforms(where+".input", f.Request, e.Input)
		l.conforms(where+".output", f.Response, e.Output)
		examples[i] = Example(e)
	}
	return examples
}

// conforms reports where an example breaks its schema.
func (l *toolLoader) conforms(at string, schema *schema.Schema, value jsontext.Value) {
	if schema == nil || value == nil {
		return
	}
	for _, v := range schema.Validate(value) {
		l.fail(at, fmt.Sprintf("the example breaks its schema at %q: %s", v.Pointer, v.Message), "correct the example, or the schema")
	}
}

// programs adds the files of the folder that the command names to the digest: the program, and
// arguments such as ./main.py.
func (l *toolLoader) programs() {
	for i, arg := range l.raw.Endpoint.Command {
		inFolder := strings.HasPrefix(arg, "./") || i == 0 && strings.Contains(arg, "/") && !path.IsAbs(arg)
		if !inFolder {
			continue
		}
		name := path.Clean(arg)
		p, err := l.program(name)
		if err == nil {
			l.sums[name] = p.sum
			l.manifest.programs = append(l.manifest.programs, p)
		}
		if i == 0 && l.manifest.Callable() {
			l.runnable(p, err)
		}
	}
}

// program reads a file that a command names. What it is is noted first: it may change meanwhile.
func (l *toolLoader) program(name string) (p program, err error) {
	p.name = name
	if p.info, err = fs.Stat(l.files, name); err != nil {
		return p, err
	}
	p.sum, err = sumFile(l.files, name)
	return p, err
}

// runnable reports a program that could not be read, or that no executor could start. Only a folder
// on disk knows which files may be executed.
func (l *toolLoader) runnable(p program, err error) {
	if err != nil {
		l.fail("endpoint.command[0]", reason(err), "the program lies in the tool's own folder; build it first")
		return
	}
	if l.manifest.Dir != "" && p.info.Mode()&0o111 == 0 {
		l.fail("endpoint.command[0]", p.name+" is not executable", "chmod +x "+p.name)
	}
}

// digest is the SHA-256 over the manifest's meaning and the files it names, as canonical JSON:
// comments, order and layout of the YAML do not change a tool.
func (l *toolLoader) digest() (string, error) {
	manifest, ok := l.plainValue("", l.body)
	if !ok {
		return "", errNotJSON
	}
	var raw jsontext.Value
	raw, err := json.Marshal(map[string]any{"manifest": manifest, "files": l.sums})
	if err != nil {
		return "", err
	}
	if err := raw.Canonicalize(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

var (
	errNotFolder  = errors.New("not a folder")
	errNotRegular = errors.New("not a regular file")
	errTooLarge   = errors.New("larger than allowed")
	errChanged    = errors.New("it is not what was loaded; start the executor anew, or put back what was there")
	errNotJSON    = errors.New("the manifest has no JSON form")
)

// openFile opens a regular file; a named pipe would block.
func openFile(files fs.FS, name string) (fs.File, error) {
	info, err := fs.Stat(files, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	return files.Open(name)
}

// readFile reads a regular file of at most limit bytes.
func readFile(files fs.FS, name string, limit int64) ([]byte, error) {
	file, err := openFile(files, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if int64(len(content)) > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w (%d bytes)", errTooLarge, limit)}
	}
	return content, err
}

// sumFile returns the SHA-256 of a regular file, hex.
func sumFile(files fs.FS, name string) (string, error) {
	file, err := openFile(files, name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// reason says why a file could not be used, without the operation's name.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Sprintf("%s: %v", at.Path, at.Err)
	}
	return strings.Join(strings.Fields(err.Error()), " ") // on one line
}
