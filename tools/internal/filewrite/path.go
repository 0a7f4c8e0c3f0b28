package filewrite

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/rootdir"
)

// checkPath returns the clean form of a path that can name a file below the root.
func checkPath(path string) (string, error) {
	clean, err := rootdir.Clean(path)
	var outside *rootdir.Outside
	switch {
	case errors.As(err, &outside):
		return "", outside.Failure(program.EffectNone)
	case namesFolder(path):
		return "", program.NoEffect("is_directory", "the path names a folder")
	case strings.Contains("/"+clean, "/"+temporaryPrefix):
		outside = &rootdir.Outside{Reason: "reserved", Message: "names that start with " + temporaryPrefix + " are reserved"}
		return "", outside.Failure(program.EffectNone)
	}
	return clean, nil
}

// namesFolder says whether a path can only be that of a folder: it ends in a slash, "." or "..".
func namesFolder(path string) bool {
	last := path[strings.LastIndexByte(path, '/')+1:]
	return last == "" || last == "." || last == ".."
}

func (t *tool) sideEffect(r request) (program.SideEffect, error) {
	path, err := filepath.Abs(filepath.Join(t.root, r.path))
	if err != nil {
		return program.SideEffect{}, classify(err, program.EffectApplied)
	}
	target := url.URL{Scheme: "file", Path: path}
	return program.SideEffect{Kind: "write", Target: target.String(), Bytes: int64(len(r.content))}, nil
}
