package importer

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth"
)

// secrets is the folder, in a folder of tools, for the values of variables and headers.
const secrets = ".secrets"

// grantFile is the file of a login in the folder of the server's secrets.
const grantFile = "oauth"

// Hide moves the values of the variables and headers of a server, which may be credentials, to files that only their
// owner may read, and replaces them by references.
func Hide(dir, name string, s *client.Server) error {
	taken := map[string]bool{filepath.Join(secrets, name, grantFile): true}
	for _, of := range []map[string]string{s.Env, s.Headers} {
		for _, key := range slices.Sorted(maps.Keys(of)) {
			value := of[key]
			if value == "" || strings.Contains(value, "${") {
				continue
			}
			file := filepath.Join(secrets, name, regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(key, "_"))
			for taken[file] {
				file += "_"
			}
			taken[file] = true
			if err := writeSecret(dir, name, file, []byte(value+"\n")); err != nil {
				return err
			}
			of[key] = "${file:" + file + "}"
		}
	}
	return nil
}

// HideGrant writes the login at a server to a file that only its owner may read. It returns its path in dir.
func HideGrant(dir, name string, g oauth.Grant) (file string, err error) {
	raw, err := g.Encode()
	if err != nil {
		return "", err
	}
	file = filepath.Join(secrets, name, grantFile)
	return file, writeSecret(dir, name, file, raw)
}

// writeSecret writes a file of a server below dir that only its owner may read.
func writeSecret(dir, name, file string, content []byte) error {
	if err := os.MkdirAll(filepath.Join(dir, secrets, name), 0o700); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(dir, secrets), 0o700); err != nil { // it may have existed with another mode
		return err
	}
	if err := replace(filepath.Join(dir, secrets, ".gitignore"), []byte("*\n"), 0o600); err != nil {
		return err
	}
	return replace(filepath.Join(dir, file), content, 0o600)
}
