package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// The names of the documents in a folder.
const (
	RolesFile        = "policy/roles.yaml"
	LanesFile        = "policy/lanes.yaml"
	ToolRegistryFile = "tools/tool_registry.yaml"
)

// MaxSet is the largest size of the three documents of a set together, in bytes.
const MaxSet = 2 << 20

// Documents are the three documents of a policy set as they were written.
type Documents struct{ Roles, Lanes, ToolRegistry []byte }

// Versions returns the digests of the documents, which name the set in decisions, runs and the audit record.
func (d Documents) Versions() envelope.PolicyVersions {
	return envelope.PolicyVersions{Roles: Digest(d.Roles), Lanes: Digest(d.Lanes), ToolRegistry: Digest(d.ToolRegistry)}
}

// All returns the documents in the order of the fields.
func (d Documents) All() [][]byte { return [][]byte{d.Roles, d.Lanes, d.ToolRegistry} }

// Digest returns the SHA-256 of a document in hexadecimal.
func Digest(document []byte) string {
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:])
}

// IsDigest reports whether s is a SHA-256 in lower-case hexadecimal.
func IsDigest(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// ReadFolder reads the documents of a folder. If some cannot be read, the error is of type [tool.Problems] and names
// all of them.
func ReadFolder(folder fs.FS) (d Documents, err error) {
	var problems tool.Problems
	left := int64(MaxSet)
	for _, file := range []struct {
		name string
		to   *[]byte
	}{{RolesFile, &d.Roles}, {LanesFile, &d.Lanes}, {ToolRegistryFile, &d.ToolRegistry}} {
		if *file.to, err = readFile(folder, file.name, left); err != nil {
			problems = append(problems, unreadable(file.name, err))
		}
		left -= int64(len(*file.to))
	}
	if problems != nil {
		return Documents{}, problems
	}
	return d, nil
}

var (
	errTooLarge   = fmt.Errorf("the documents of the set are larger than %d MiB together", MaxSet>>20)
	errNotRegular = errors.New("not a regular file")
)

// unreadable returns the problem of a document that cannot be read.
func unreadable(name string, err error) tool.Problem {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	p := tool.Problem{File: name, Message: err.Error()}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.Hint = "a policy set has three documents; `toolbus policy init` writes them"
	case errors.Is(err, errTooLarge):
		p.Hint = "name several tools by one pattern, or shorten descriptions"
	default:
		p.Hint = "it must be a file that you may read"
	}
	return p
}

// readFile reads a regular file of at most limit bytes. Opening a named pipe would block.
func readFile(folder fs.FS, name string, limit int64) ([]byte, error) {
	info, err := fs.Stat(folder, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	file, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if int64(len(content)) > limit {
		return nil, errTooLarge
	}
	return content, err
}
