package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/seed-018f16cc/toolbus/tools/internal/toolproc"
)

// lookup confirms a call when the file at its path holds exactly its content.
func (t *tool) lookup(_ context.Context, _ *toolproc.Call, in input, _ *toolproc.Stream) (toolproc.Result, error) {
	r, err := newRequest(in)
	if err != nil {
		return toolproc.Result{}, err
	}
	sum, err := t.sumFile(r)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR), err == nil && sum != r.sum:
		return toolproc.Result{}, toolproc.ErrAbsent
	case err != nil:
		return toolproc.Result{}, classify(err, toolproc.EffectUnknown)
	}
	effect, err := t.sideEffect(r)
	return toolproc.Result{Output: r.output(nil), SideEffects: []toolproc.SideEffect{effect}}, err
}

// sumFile returns the SHA-256 of the regular file at the path of r, or "" if it is of another
// kind or length.
func (t *tool) sumFile(r request) (string, error) {
	root, err := os.OpenRoot(t.root)
	if err != nil {
		return "", err
	}
	defer root.Close()
	info, err := root.Lstat(r.path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(r.content)) {
		return "", err
	}
	file, err := root.Open(r.path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return hex.EncodeToString(hash.Sum(nil)), err
}
