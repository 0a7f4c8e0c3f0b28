package clientconfig

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json/jsontext"
)

// suffix is the suffix of the copy of a configuration before the installation.
const suffix = ".before-toolbus"

// record describes an installation. Install writes it next to the copy of the former configuration.
type record struct {
	Member  []string    `json:"member"`  // path of the object that holds the servers
	Taken   []string    `json:"taken"`   // names of the servers that were replaced
	Command string      `json:"command"` // command of the entry
	SHA256  string      `json:"sha256"`  // of the file after the installation
	Mode    fs.FileMode `json:"mode"`
	Missing bool        `json:"missing,omitempty"` // the file did not exist
}

// wrote reports whether the installation wrote an entry.
func (r record) wrote(entry jsontext.Value) bool {
	return isToolbus(entry) || r.Command != "" && commandOf(entry) == r.Command
}

// Copy returns the path of the copy of the former configuration, which exists while Toolbus's entry is installed. Only
// its owner may read it.
func (l Location) Copy() string {
	if l.Scope != Local {
		return l.File + suffix
	}
	sum := sha256.Sum256([]byte(l.Project)) // the user's servers may be replaced in the same file
	return l.File + suffix + "-" + hex.EncodeToString(sum[:4])
}

func (l Location) record() string { return l.Copy() + ".json" }

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Install replaces the servers in taken, which are names in the configuration, by the entry that starts command with
// args. It keeps a copy of the former file. If taken is empty, the entry becomes the first server.
func Install(l Location, taken []string, command string, args []string) error {
	former, mode, err := load(l.File)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	if _, err := os.Lstat(l.Copy()); err == nil {
		return fmt.Errorf("%s is there already: `toolbus mcp uninstall` puts it back first", l.Copy())
	}
	path, err := l.member(former)
	if err != nil {
		return fmt.Errorf("%s: %w", l.File, err)
	}
	now, err := replaced(former, path, taken, l.entry(path, command, args))
	if err != nil {
		return fmt.Errorf("%s: %w", l.File, err)
	}
	if err := os.MkdirAll(filepath.Dir(l.File), 0o700); err != nil {
		return err
	}
	kept, err := json.MarshalIndent(record{path, taken, command, digest(now), mode, missing}, "", "  ")
	if err != nil {
		return err
	}
	if err = replace(l.Copy(), former, 0o600); err == nil {
		err = replace(l.record(), append(kept, '\n'), 0o600)
	}
	if err == nil {
		err = replace(l.File, now, mode)
	}
	if err != nil {
		return errors.Join(err, removeAll(l.Copy(), l.record()))
	}
	return nil
}

// Undone describes how Uninstall changed a configuration.
type Undone struct {
	Changed bool     // the file was changed after the installation; these changes stay
	Again   []string // replaced servers that the file contains again; they stay as they are
	Removed bool     // the file was removed, because it did not exist before
}

// Uninstall undoes [Install]. If the file was not changed after the installation, or with force, it restores the former
// file byte for byte. Otherwise it only removes the entry and puts the replaced servers back.
func Uninstall(l Location, force bool) (Undone, error) {
	former, _, err := load(l.Copy())
	if errors.Is(err, fs.ErrNotExist) {
		return Undone{}, fmt.Errorf("there is no %s: nothing was installed there", l.Copy())
	}
	if err != nil {
		return Undone{}, err
	}
	now, _, err := load(l.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Undone{}, err
	}
	kept, err := l.recorded()
	if err != nil {
		return Undone{}, fmt.Errorf("%s: %w", l.record(), err)
	}
	var u Undone
	text := former
	if whole := force || bytes.Equal(former, now) || digest(now) == kept.SHA256; !whole {
		u.Changed = true
		if text, u.Again, err = restored(former, now, kept); err != nil {
			return Undone{}, fmt.Errorf("%s was changed since, and %w: correct it, or put %s back with --force",
				l.File, err, l.Copy())
		}
	}
	if u.Removed = kept.Missing && !u.Changed; u.Removed {
		err = os.Remove(l.File)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else {
		err = replace(l.File, text, kept.Mode)
	}
	if err != nil {
		return Undone{}, err
	}
	return u, removeAll(l.Copy(), l.record())
}

// recorded returns the record of the installation.
func (l Location) recorded() (r record, err error) {
	raw, err := os.ReadFile(l.record())
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	return r, err
}

// load returns the text and mode of a file that can be replaced. For a missing file it returns the mode of a new one
// with fs.ErrNotExist.
func load(file string) (text []byte, mode fs.FileMode, err error) {
	info, err := os.Lstat(file) // links to existing files have been resolved already
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0o600, err
	}
	switch {
	case err != nil:
		return nil, 0, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, 0, fmt.Errorf("%s is a link to a file that is not there: make that, or remove the link", file)
	case !info.Mode().IsRegular() || info.Size() > maxConfig:
		return nil, 0, fmt.Errorf("%s is no file of at most %d bytes", file, maxConfig)
	case info.Mode().Perm()&0o200 == 0:
		return nil, 0, fmt.Errorf("%s is read-only: make it writable, or add the entry by the program that writes it", file)
	}
	text, err = os.ReadFile(file)
	return text, info.Mode().Perm(), err
}

// replace writes a file atomically.
func replace(file string, text []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(text)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(tmp.Name()))
	}
	return err
}

// removeAll removes files. It ignores missing ones.
func removeAll(files ...string) error {
	var bad []error
	for _, file := range files {
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			bad = append(bad, err)
		}
	}
	return errors.Join(bad...)
}
