package filewrite

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/seed-018f16cc/toolbus/program"
)

// temporaryPrefix starts the name of every temporary file.
const temporaryPrefix = ".fs-write-"

// temporary names the temporary file of a call: the same for all runs but for the fence, which is
// written so that names sort like fences.
func temporary(call *program.Call) string {
	sum := sha256.Sum256([]byte(call.IdempotencyKey))
	return fmt.Sprintf("%s%x-%016x", temporaryPrefix, sum[:8], call.Fence)
}

// inspect looks at what is at the path of r now: the mode that the new file gets, and whether the
// file would be created.
func inspect(root *os.Root, r request) (mode os.FileMode, created bool, err error) {
	info, err := root.Lstat(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r.mode, true, nil
	case err != nil:
		return 0, false, err
	case info.IsDir():
		return 0, false, syscall.EISDIR
	case r.keep && info.Mode().IsRegular():
		return info.Mode().Perm(), false, nil
	}
	return r.mode, false, nil
}

// write puts the content of r at its path and says whether the file is new.
func (t *tool) write(ctx context.Context, r request, temporary string) (created bool, err error) {
	if err := os.MkdirAll(t.root, 0o755); err != nil {
		return false, classify(err, program.EffectNone)
	}
	root, err := os.OpenRoot(t.root)
	if err != nil {
		return false, classify(err, program.EffectNone)
	}
	defer root.Close()
	mode, created, err := inspect(root, r)
	if err != nil {
		return false, classify(err, program.EffectNone)
	}
	folder := filepath.Dir(r.path)
	undo, err := makeFolders(root, folder)
	if err == nil {
		removeLeavings(root, folder, temporary)
		temporary = filepath.Join(folder, temporary)
		err = writeTemporary(ctx, root, temporary, r.content, mode)
	}
	if err != nil {
		undo()
		return false, classify(err, program.EffectNone)
	}
	if err := t.rename(root, temporary, r.path); err != nil {
		return false, t.renameFailed(root, temporary, undo, err)
	}
	if err := syncFolders(root, folder); err != nil {
		return false, classify(err, program.EffectUnknown)
	}
	return created, nil
}

// renameFailed cleans up. Only an I/O error leaves in doubt whether the rename took place; then
// nothing is touched.
func (t *tool) renameFailed(root *os.Root, temporary string, undo func(), err error) error {
	if errors.Is(err, syscall.EIO) {
		return classify(err, program.EffectUnknown)
	}
	_ = root.Remove(temporary) // the first error is the one to report
	undo()
	return classify(err, program.EffectNone)
}

// makeFolders makes the folders of path that are missing. undo removes them as far as they are
// empty.
func makeFolders(root *os.Root, path string) (undo func(), err error) {
	var made []string
	undo = func() {
		for _, folder := range made {
			if root.Remove(folder) != nil {
				return // not empty: another call uses it
			}
		}
	}
	for folder := path; folder != "."; folder = filepath.Dir(folder) {
		if _, err := root.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, folder)
	}
	return undo, root.MkdirAll(path, 0o755)
}

// removeLeavings removes the temporary files of earlier runs of the same key. It is a courtesy:
// what it cannot read or remove stays.
func removeLeavings(root *os.Root, folder, temporary string) {
	dir, err := root.Open(folder)
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	key := temporary[:strings.LastIndexByte(temporary, '-')+1]
	for _, name := range names {
		if strings.HasPrefix(name, key) && name <= temporary {
			_ = root.Remove(filepath.Join(folder, name))
		}
	}
}

// writeTemporary writes and syncs a new file. After an error it is gone again.
func writeTemporary(ctx context.Context, root *os.Root, name string, content []byte, mode os.FileMode) (err error) {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = root.Remove(name) // the first error is the one to report
		}
	}()
	_, err = file.Write(content)
	if err == nil {
		err = file.Chmod(mode) // OpenFile would subtract the umask
	}
	if err == nil {
		err = file.Sync()
	}
	// The context is asked at the last moment at which stopping leaves nothing behind.
	return cmp.Or(err, file.Close(), ctx.Err())
}

// syncFolders makes a rename in a folder durable, and the folder itself, which may be new.
func syncFolders(root *os.Root, folder string) error {
	for {
		dir, err := root.Open(folder)
		if err != nil {
			return err
		}
		if err = cmp.Or(dir.Sync(), dir.Close()); err != nil || folder == "." {
			return err
		}
		folder = filepath.Dir(folder)
	}
}
