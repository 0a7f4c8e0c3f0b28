package mcp

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// ServersFile is the file, in a folder of tools, with the servers that manifests name. Executors and the importer read
// it. Dispatchers and callers do not need it.
const ServersFile = "servers.json"

// maxServers is the largest [ServersFile], in bytes.
const maxServers = 1 << 20

// Servers are the servers of a folder of tools, by name.
type Servers map[string]client.Server

var serverName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// ReadServers reads the [ServersFile] of a folder of tools. If the file does not exist, it returns no servers and no
// error. The error lists every invalid entry.
func ReadServers(dir string) (Servers, error) {
	file := filepath.Join(dir, ServersFile)
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Servers{}, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxServers {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", file, maxServers)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var read struct {
		Servers Servers `json:"servers"`
	}
	if err := json.Unmarshal(raw, &read, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := read.Servers.Check(); err != nil {
		return read.Servers, fmt.Errorf("%s: %w", file, err)
	}
	return read.Servers, nil
}

// Check returns an error that lists every invalid entry, or nil.
func (s Servers) Check() error {
	var bad []error
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if !serverName.MatchString(name) {
			bad = append(bad, fmt.Errorf("%q is no name of a server: lower-case letters, digits, _ and -", name))
		}
		if err := s[name].Check(); err != nil {
			bad = append(bad, fmt.Errorf("server %s: %w", name, err))
		}
		for variable := range s[name].Env {
			if tool.LoaderVariable(variable) || tool.OwnVariable(variable) {
				bad = append(bad, fmt.Errorf("server %s: no tool gets the variable %s", name, variable))
			}
		}
	}
	return errors.Join(bad...)
}
