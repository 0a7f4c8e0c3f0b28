package clientconfig

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// variable matches a reference that clients replace in a text.
var variable = regexp.MustCompile(`\$\{([A-Za-z_]+:)?([^}]*)\}`)

// plainVariable matches the name of a variable, optionally with a default.
var plainVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(:-.*)?$`)

// braced matches a reference of opencode, dollared a variable of Gemini CLI.
var (
	braced   = regexp.MustCompile(`\{(env|file):([^{}]+)\}`)
	dollared = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)
)

// translated returns a text with its references in the form that executors resolve. The error names the references that
// only the client can resolve.
func (r reader) translated(text string) (string, error) {
	if r.client.braces {
		text = braced.ReplaceAllStringFunc(text, func(found string) string {
			m := braced.FindStringSubmatch(found)
			if m[1] == "file" {
				return "${file:" + r.beside(m[2]) + "}"
			}
			return "${env:" + m[2] + ":-}"
		})
	}
	if r.client.dollars {
		text = dollared.ReplaceAllString(text, "${env:$1}")
	}
	var bad []error
	out := variable.ReplaceAllStringFunc(text, func(found string) string {
		m := variable.FindStringSubmatch(found)
		if known, ok := r.reference(m[1], m[2]); ok {
			return known
		}
		name, _, _ := strings.Cut(m[1]+m[2], ":-") // without the default, which may be a credential
		bad = append(bad, fmt.Errorf(
			"only the client knows ${%.64s}: write ${env:NAME} in its place, a variable of the executor", name))
		return found
	})
	return out, errors.Join(bad...)
}

// reference returns a reference in the form that executors resolve. ok is false if there is no such form.
func (r reader) reference(kind, name string) (string, bool) {
	switch {
	case kind == "env:":
		return "${env:" + name + "}", true
	case kind == "file:":
		return "${file:" + r.beside(name) + "}", true
	case kind == "" && name == "userHome":
		return "${env:HOME}", true
	case kind == "" && (name == "/" || name == "pathSeparator"):
		return "/", true
	case kind == "" && name == "workspaceFolder":
		return r.project, r.project != ""
	case kind == "" && name == "workspaceFolderBasename":
		return filepath.Base(r.project), r.project != ""
	case kind == "" && plainVariable.MatchString(name):
		return "${env:" + name + "}", true
	case kind != "" && strings.HasPrefix(name, "-") && plainVariable.MatchString(strings.TrimSuffix(kind, ":")):
		return "${env:" + kind + name + "}", true
	}
	return "", false
}

// beside returns the path of a file to which a configuration refers. A relative path is relative to the folder of the
// configuration.
func (r reader) beside(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(r.home, rest)
	}
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.file), path)
}
