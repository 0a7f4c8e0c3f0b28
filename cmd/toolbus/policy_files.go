package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// setFile is one document of a policy set with its name in a folder.
type setFile struct {
	name    string
	content []byte
}

// readSet reads the documents of a set below a folder.
func readSet(dir string) (policy.Documents, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return policy.Documents{}, usagef("the folder %s does not exist: `toolbus policy init` writes a set", dir)
	}
	return policy.ReadFolder(os.DirFS(dir))
}

func setFiles(d policy.Documents) []setFile {
	return []setFile{
		{policy.RolesFile, d.Roles}, {policy.LanesFile, d.Lanes}, {policy.ToolRegistryFile, d.ToolRegistry},
	}
}

// setNames are the names of the documents in a folder.
func setNames() (names []string) {
	for _, document := range policy.AllDocuments() {
		names = append(names, document.File)
	}
	return names
}

// writeSet writes the documents of a set into a folder. It replaces files only if force is true, and returns their
// names. Otherwise it writes nothing if a file is there, and the error names all of them.
func writeSet(dir string, d policy.Documents, force bool) (replaced []string, err error) {
	for _, file := range setFiles(d) {
		switch _, err := os.Lstat(filepath.Join(dir, file.name)); {
		case err == nil:
			replaced = append(replaced, file.name)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	if len(replaced) > 0 && !force {
		return nil, inTheWay(dir, replaced)
	}
	return replaced, replaceFiles(dir, setFiles(d))
}

// inTheWay is the error about files that a command does not replace.
func inTheWay(dir string, names []string) error {
	paths, verb := make([]string, len(names)), "exists"
	for i, name := range names {
		paths[i] = filepath.Join(dir, name)
	}
	if len(names) > 1 {
		verb = "exist"
	}
	return fmt.Errorf("%s %s: name another folder, or replace what is there with --force", strings.Join(paths, ", "), verb)
}

// replaceFiles writes files into a folder, and makes its folders. It writes all of them under other names first, so
// that a full disk changes none.
func replaceFiles(dir string, files []setFile) (err error) {
	var written []string
	defer func() {
		for _, name := range written {
			_ = os.Remove(name) // it has its final name unless something failed
		}
	}()
	for _, file := range files {
		name, err := writeAside(filepath.Join(dir, file.name), file.content)
		if err != nil {
			return err
		}
		written = append(written, name)
	}
	for i, file := range files {
		if err := os.Rename(written[i], filepath.Join(dir, file.name)); err != nil {
			return err
		}
	}
	return nil
}

// writeAside writes a new file beside the named one and returns its name.
func writeAside(name string, content []byte) (aside string, err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", err
	}
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return "", err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(0o644), file.Sync(), file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// compareFiles returns the names of the documents that a folder has with the same content, and with another one.
func compareFiles(dir string, d policy.Documents) (same, other []string, err error) {
	for _, file := range setFiles(d) {
		path := filepath.Join(dir, file.name)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		content, err := os.ReadFile(path)
		switch {
		case err == nil && bytes.Equal(content, file.content):
			same = append(same, file.name)
		case err == nil, errors.Is(err, fs.ErrNotExist): // a link to nothing is replaced as other content is
			other = append(other, file.name)
		default:
			return nil, nil, err
		}
	}
	return same, other, nil
}
