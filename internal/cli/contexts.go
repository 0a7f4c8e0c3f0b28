package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Contexts stores an Access per name. Each context is a file in a folder, and another file names the context in use.
type Contexts struct{ folder string }

// Contexts returns the contexts of the user.
func (e Env) Contexts() Contexts { return Contexts{filepath.Join(e.Config, "toolbus")} }

const suffix = ".json"

func (c Contexts) file(name string) string { return filepath.Join(c.folder, "contexts", name+suffix) }
func (c Contexts) inUse() string           { return filepath.Join(c.folder, "context") }

var contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func checkName(name string) error {
	if !contextName.MatchString(name) {
		return Usagef("the context name %q is invalid: use at most 64 letters, digits, dots, - and _", name)
	}
	return nil
}

// Names returns the sorted names of all contexts.
func (c Contexts) Names() ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(c.file("")))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok && contextName.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// Read returns a context.
func (c Contexts) Read(name string) (a Access, err error) {
	if err := checkName(name); err != nil {
		return a, err
	}
	data, err := os.ReadFile(c.file(name))
	if errors.Is(err, os.ErrNotExist) {
		return a, c.missing(name)
	}
	if err == nil {
		err = json.Unmarshal(data, &a, json.RejectUnknownMembers(true))
	}
	if err == nil && a.Server == "" {
		err = errors.New("it has no server")
	}
	if err != nil {
		return a, fmt.Errorf("context %s: %s: %w\nmake it anew with `toolbus context add %s --replace --server URL`", name,
			c.file(name), err, name)
	}
	return a, nil
}

// missing returns an error that lists the existing contexts.
func (c Contexts) missing(name string) error {
	names, _ := c.Names() // unreadable contexts count as missing
	if len(names) == 0 {
		return Usagef("the context %q does not exist: create it with `toolbus context add %s --server URL`", name, name)
	}
	return Usagef("the context %q does not exist: use one of %s", name, strings.Join(names, ", "))
}

// Write stores a context. It replaces an existing one only if replace is true.
func (c Contexts) Write(name string, a Access, replace bool) error {
	if err := checkName(name); err != nil {
		return err
	}
	if _, err := os.Stat(c.file(name)); err == nil && !replace {
		return Usagef("there is a context %q; replace it with --replace, or choose another name", name)
	}
	data, err := json.Marshal(a, jsontext.Multiline(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return c.write(c.file(name), append(data, '\n'))
}

// write replaces a file atomically. Others may not read it, because a URL may contain a password.
func (c Contexts) write(file string, data []byte) error {
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file+".tmp", data, 0o600)
	}
	if err == nil {
		err = os.Rename(file+".tmp", file)
	}
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	return nil
}

// Current returns the name of the context in use, or "".
func (c Contexts) Current() (string, error) {
	name, err := os.ReadFile(c.inUse())
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return string(bytes.TrimSpace(name)), err
}

// Use sets the context in use.
func (c Contexts) Use(name string) error {
	if _, err := c.Read(name); err != nil {
		return err
	}
	return c.write(c.inUse(), []byte(name+"\n"))
}

// Remove deletes a context. If it was in use, no context is in use afterwards.
func (c Contexts) Remove(name string) (wasUsed bool, err error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	if err := os.Remove(c.file(name)); errors.Is(err, os.ErrNotExist) {
		return false, c.missing(name)
	} else if err != nil {
		return false, fmt.Errorf("contexts: %w", err)
	}
	current, err := c.Current()
	if err != nil || current != name {
		return false, err
	}
	return true, os.Remove(c.inUse())
}
