package tool

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// program is a file of the tool's folder that its command names, as it was when the digest was made.
type program struct {
	name string
	sum  string // SHA-256, hex
	info fs.FileInfo
}

// Unchanged returns an error where a program of the tool is not what it was loaded as any more: what
// ran would not be what the digest on record is of. One that looks otherwise, as after a copy of the same, is
// read to tell.
func (m *Manifest) Unchanged() error {
	for _, p := range m.programs {
		if err := p.unchanged(m.Dir); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func (p *program) unchanged(dir string) error {
	info, err := os.Stat(filepath.Join(dir, p.name))
	if err != nil {
		return err
	}
	if os.SameFile(info, p.info) && info.Size() == p.info.Size() && info.ModTime().Equal(p.info.ModTime()) {
		return nil
	}
	sum, err := sumFile(os.DirFS(dir), p.name)
	if err == nil && sum != p.sum {
		err = errChanged
	}
	return err
}
