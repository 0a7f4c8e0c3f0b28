package textsearch

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/rootdir"
)

// walker finds the files to search.
type walker struct {
	root  *os.Root
	globs globs
	visit func(ctx context.Context, path string) error

	seen       map[string]bool // files visited, because paths may overlap
	unreadable int
}

// start walks one path that was asked for: a file, or a folder and what is below.
func (w *walker) start(ctx context.Context, asked string) error {
	name, err := rootdir.Clean(asked)
	if err != nil {
		return err
	}
	info, err := w.root.Stat(name)
	if err != nil {
		return err
	}
	switch {
	case info.Mode().IsRegular():
		return w.file(ctx, name)
	case !info.IsDir():
		return program.NoEffect("not_found", asked+" is neither a file nor a folder")
	}
	if _, err := w.entries(name); err != nil {
		return err // asked for, so not just passed over
	}
	return w.folder(ctx, name, w.ignoresAbove(name))
}

// file visits a file once. What cannot be read is counted and passed over.
func (w *walker) file(ctx context.Context, name string) error {
	if w.seen[name] {
		return nil
	}
	w.seen[name] = true
	return w.passOver(w.visit(ctx, name))
}

func (w *walker) passOver(err error) error {
	var system *os.PathError
	if errors.As(err, &system) {
		w.unreadable++
		return nil
	}
	return err
}

func (w *walker) folder(ctx context.Context, name string, above []ignores) error {
	if err := ctx.Err(); err != nil { // a tree may be large and have no file to visit
		return err
	}
	entries, err := w.entries(name)
	if err != nil {
		return w.passOver(err)
	}
	rules := above
	if own := w.ignoresOf(name); own.rules != nil {
		rules = append(slices.Clip(above), own)
	}
	for _, entry := range entries {
		child := path.Join(name, entry.Name())
		if strings.HasPrefix(entry.Name(), ".") || ignored(rules, child, entry.IsDir()) {
			continue
		}
		var err error
		switch {
		case entry.IsDir() && !w.globs.excludeFolder(child):
			err = w.folder(ctx, child, rules)
		case entry.Type().IsRegular() && w.globs.includeFile(child):
			err = w.file(ctx, child)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entries lists a folder in order of names.
func (w *walker) entries(name string) ([]fs.DirEntry, error) {
	dir, err := w.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, err
}

// ignoresAbove returns the rules of the folders above name, the root first.
func (w *walker) ignoresAbove(name string) []ignores {
	if name == "." {
		return nil
	}
	parent := path.Dir(name)
	above := w.ignoresAbove(parent)
	if own := w.ignoresOf(parent); own.rules != nil {
		above = append(above, own)
	}
	return above
}

// maxIgnoreFile bounds a .gitignore; one that is larger does not count.
const maxIgnoreFile = 256 << 10

// ignoresOf reads the .gitignore of a folder. A file that is missing or cannot be read excludes nothing.
func (w *walker) ignoresOf(folder string) ignores {
	name := path.Join(folder, ".gitignore")
	info, err := w.root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxIgnoreFile {
		return ignores{}
	}
	data, err := w.root.ReadFile(name)
	if err != nil {
		return ignores{}
	}
	return ignores{folder: folder, rules: parseIgnores(string(data))}
}
