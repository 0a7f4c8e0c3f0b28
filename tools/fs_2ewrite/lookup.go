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

	"github.com/seed-018f16cc/toolbus/program"
)

// lookup confirms a call when the file at its path holds exactly its content.
func (t *tool) lookup(_ context.Context, _ *program.Call, in input, _ *program.Stream) (program.Result, error) {
	r, err := newRequest(in)
	if err != nil {
		return program.Result{}, err
	}
	sum, err := t.sumFile(r)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR),
		err == nil && sum != r.sum:
		return program.Result{}, program.ErrAbsent
	case err != nil:
		return program.Result{}, classify(err, program.EffectUnknown)
	}
	effect, err := t.sideEffect(r)
	return program.Result{Output: r.output(nil), SideEffects: []program.SideEffect{effect}}, err
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
