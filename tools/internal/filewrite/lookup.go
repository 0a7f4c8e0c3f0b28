package filewrite

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/seed-018f16cc/toolbus/program"
)

// lookup confirms a call when the file at its path holds exactly its content.
func (t *tool) lookup(_ context.Context, _ *program.Call, in Input, _ *program.Stream) (program.Result, error) {
	r, err := newRequest(in)
	if err != nil {
		return program.Result{}, err
	}
	same, err := t.holds(r)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR),
		err == nil && !same:
		return program.Result{}, program.ErrAbsent
	case err != nil:
		return program.Result{}, classify(err, program.EffectUnknown)
	}
	effect, err := t.sideEffect(r)
	return program.Result{Output: r.output(nil), SideEffects: []program.SideEffect{effect}}, err
}

// holds reports whether there is a regular file at the path of r with its content.
func (t *tool) holds(r request) (bool, error) {
	root, err := os.OpenRoot(t.root)
	if err != nil {
		return false, err
	}
	defer root.Close()
	info, err := root.Lstat(r.path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(r.content)) {
		return false, err
	}
	content, err := root.ReadFile(r.path)
	return bytes.Equal(content, r.content), err
}
