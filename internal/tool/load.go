package tool

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// defaultTransport is the transport of a tool whose manifest does not name one, as in the manifest of 000 §1.
const defaultTransport = "process"

// DefaultPool is the pool of a tool whose manifest does not name one.
const DefaultPool = "default"

const (
	manifestFile = "tool.yaml"
	sharedFolder = "internal" // code that tools share, as in Go; never a tool
	// serversFile, in a folder without a manifest, marks that folder as a separate folder of tools.
	serversFile = "servers.json"

	// MaxManifest is the largest tool.yaml, in bytes.
	MaxManifest = 1 << 20
	// MaxDescribed is the largest description of one tool for callers, in bytes of JSON: its texts, and its schemas with
	// every schema that they refer to.
	MaxDescribed = 512 << 10
)

// Load reads the manifest of each folder in dir, except hidden folders and the folder internal, which holds code that
// tools share. The name of a folder is the tool id, or its token (subjects.Token). Load skips files, and two kinds of
// folders without a manifest: separate folders of tools, which have a servers.json, and those of [OfPackages]. Every
// manifest must name one of the transports; this process need not have an adapter for it. A file of a tool must not
// lie outside the tool's folder, not even behind a symbolic link. If a manifest has problems, the error is of type
// Problems and lists those of all manifests.
func Load(dir string, transports ...Transport) (*Set, error) {
	set, problems, err := loadDir(dir, transports)
	return loaded(set, problems, err)
}

// LoadEach is [Load], and returns the tools without a problem that keeps them from being loaded, and those problems.
func LoadEach(dir string, transports ...Transport) (*Set, Problems, error) {
	set, problems, err := loadDir(dir, transports)
	if err != nil {
		return nil, nil, err
	}
	return set, problems.Refused(), nil
}

// Lint is [Load], and returns all problems, also warnings and those that only lint reports. The set has the tools
// without a problem that keeps them from being loaded.
func Lint(dir string, transports ...Transport) (*Set, Problems, error) {
	set, problems, err := loadDir(dir, transports)
	if err != nil {
		return nil, nil, err
	}
	problems = append(problems, warningsOf(set)...)
	problems.sort()
	return set, problems, nil
}

func loadDir(dir string, transports []Transport) (*Set, Problems, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("tools folder %s: %w", dir, err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, nil, fmt.Errorf("tools folder: %w", err)
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
	return load(root.FS(), abs, transports, open)
}

// LoadFS is Load for a file system without symbolic links, such as an embedded one. The manifests have no Dir, so the
// process and mcp adapters refuse them.
func LoadFS(fsys fs.FS, transports ...Transport) (*Set, error) {
	return loaded(load(fsys, "", transports, func(name string) (fs.FS, func() error, error) {
		sub, err := fs.Sub(fsys, name)
		return sub, func() error { return nil }, err
	}))
}

// loaded returns the set, or the problems that keep it from being loaded.
func loaded(set *Set, problems Problems, err error) (*Set, error) {
	if problems.refused() {
		return nil, problems.Refused()
	}
	return set, err
}

// opener opens the folder of one tool. The returned function closes it.
type opener func(name string) (fs.FS, func() error, error)

func load(fsys fs.FS, dir string, transports []Transport, open opener) (*Set, Problems, error) {
	contracts := &contracts{transports, map[string]*contract{}}
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, nil, fmt.Errorf("tools folder: %w", err)
	}
	var problems Problems
	var manifests []*Manifest
	folders := map[*Manifest]string{}
	for _, entry := range entries {
		mayBeTool := entry.IsDir() || entry.Type()&fs.ModeSymlink != 0
		if !mayBeTool || strings.HasPrefix(entry.Name(), ".") || entry.Name() == sharedFolder {
			continue
		}
		files, release, err := open(entry.Name())
		if err != nil {
			problems = append(problems, Problem{
				File: entry.Name(), Message: reason(err), Hint: "a tool folder must lie in the tools folder",
			})
			continue
		}
		m, found := loadTool(files, entry.Name(), dir, contracts)
		if err := release(); err != nil {
			return nil, nil, fmt.Errorf("tool folder %s: %w", entry.Name(), err)
		}
		problems = append(problems, found...)
		if m != nil {
			manifests = append(manifests, m)
			folders[m] = entry.Name()
		}
	}
	problems = append(problems, doubles(manifests, folders)...)
	problems.sort()
	whole := slices.DeleteFunc(manifests, func(m *Manifest) bool { return m.Digest == "" })
	return NewSet(whole...), problems, nil
}

func has(files fs.FS, name string) bool {
	_, err := fs.Lstat(files, name)
	return err == nil
}

// doubles reports tools that have the same id or the same name in MCP. folders holds the folder of each.
func doubles(manifests []*Manifest, folders map[*Manifest]string) (problems Problems) {
	ids, names := map[string]string{}, map[string]string{} // folders by id, and ids by name
	for _, m := range manifests {
		file := path.Join(folders[m], manifestFile)
		if other, double := ids[m.ToolID]; double && m.ToolID != "" {
			problems = append(problems, Problem{
				File: file, Message: fmt.Sprintf("the tool %s is in the folder %s, too", m.ToolID, other),
				Hint: "keep one of the two",
			})
			continue
		}
		ids[m.ToolID] = folders[m]
		if other, double := names[m.Name]; double && m.Name != "" {
			problems = append(problems, Problem{
				File: file, Message: fmt.Sprintf("the name %s is that of the tool %s, too", m.Name, other),
				Hint: "give one of them another name",
			})
		}
		names[m.Name] = m.ToolID
	}
	return problems
}

// toolLoader turns one folder into one Manifest.
type toolLoader struct {
	*source
	files    fs.FS
	folder   string
	contract *contract
	manifest *Manifest
	sums     map[string]string // SHA-256 of the files the manifest names, for the digest
	spec     *errorspec        // the errors.md of the tool, or nil
}

// OfPackages reports whether a folder has the name of one that Python or npm writes.
func OfPackages(folder string) bool {
	return slices.Contains([]string{"node_modules", "__pycache__", "venv"}, folder)
}

// loadTool loads one folder. It returns neither a manifest nor problems if the folder has no manifest and is a separate
// folder of tools, or one of packages.
func loadTool(files fs.FS, folder, dir string, contracts *contracts) (*Manifest, Problems) {
	if !has(files, manifestFile) && (has(files, serversFile) || OfPackages(folder)) {
		return nil, nil
	}
	l := &toolLoader{
		source: newSource(path.Join(folder, manifestFile), manifestWords()),
		files:  files, folder: folder, manifest: &Manifest{}, sums: map[string]string{},
	}
	if dir != "" {
		l.manifest.Dir = filepath.Join(dir, folder)
	}
	raw, err := readFile(files, manifestFile, MaxManifest)
	if err != nil {
		l.report(place{}, strings.TrimPrefix(reason(err), manifestFile+": "), l.manifestHint(err))
		return nil, l.problems
	}
	if !l.parse(raw) {
		return nil, l.problems
	}
	transport, _ := l.at("/transport").(string)
	if _, written := l.keys["/transport"]; !written {
		transport = defaultTransport
	}
	if l.contract, err = contracts.of(transport); err == nil {
		err = l.check()
	}
	if err != nil {
		l.report(place{}, reason(err), "write it as JSON would, or in quotes")
	}
	return l.manifest, l.problems
}

// manifestHint returns a hint on how to correct a manifest that cannot be read.
func (l *toolLoader) manifestHint(err error) string {
	inside, _ := fs.Glob(l.files, "*/"+manifestFile) // the pattern is valid
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(inside) > 0:
		return "this folder contains tools itself: did you mean --tools " + cmp.Or(l.manifest.Dir, l.folder) + "?"
	case errors.Is(err, fs.ErrNotExist):
		return "every folder here needs a " + manifestFile + ", except internal, node_modules, __pycache__, venv and " +
			"those that begin with a point: move other files elsewhere"
	}
	return "it must be a file that the executor may read"
}

var (
	errNotFolder  = errors.New("not a folder")
	errNotRegular = errors.New("not a regular file")
	errTooLarge   = errors.New("larger than allowed")
	errChanged    = errors.New("has changed since it was loaded")
)

// openFile opens a file if it is a regular file. Opening a named pipe would block.
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

// sumFile returns the SHA-256 of a regular file in hexadecimal.
func sumFile(files fs.FS, name string) (string, error) {
	file, err := openFile(files, name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	return sumOf(file)
}

func sumOf(r io.Reader) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// reason returns the text of err on one line. For a path error it leaves out the name of the operation.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Sprintf("%s: %v", at.Path, at.Err)
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
