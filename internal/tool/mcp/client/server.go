package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Server is the configuration of an MCP server: a process with Command, or a server with URL. Args, Env, CWD, URL and
// Headers may contain references. ${env:NAME} is the value of a variable of the executor, and ${env:NAME:-default} the
// same with a default. ${file:PATH} is the content of a file without line breaks at its end.
type Server struct {
	Command string            `json:"command,omitzero"` // a path, or a name that is looked up in the PATH of Env
	Args    []string          `json:"args,omitzero"`
	Env     map[string]string `json:"env,omitzero"` // variables of the process, in addition to PATH and LANG
	CWD     string            `json:"cwd,omitzero"` // working directory; relative to the folder of tools, its default

	URL     string            `json:"url,omitzero"`
	Headers map[string]string `json:"headers,omitzero"` // headers of every request
	// OAuth is the file of a login, relative to the folder of tools. Its access token is in every request.
	OAuth string `json:"oauth,omitzero"`

	// Instances is the largest number of processes, or sessions; default 1. With more than one, the calls are spread over
	// them, which suits servers without a state of their own.
	Instances int `json:"instances,omitzero"`
	// StartMS is the time in milliseconds until the server must have answered for the first time. The default is 120,000
	// for the first start of a process, which may download the server, and 30,000 for others and for a URL.
	StartMS int64 `json:"start_ms,omitzero"`
	// ElicitMS is the longest time in milliseconds that one call waits for answers of its caller to questions of the
	// server; at most [MaxElicit]. If it is set, the server is offered elicitation with forms when a connection begins,
	// for all callers. Servers of protocols before 2026-07-28 then ask in the middle of calls.
	ElicitMS int64 `json:"elicit_ms,omitzero"`
}

// Limits and defaults of a [Server].
const (
	MaxInstances = 64
	DefaultStart = 30 * time.Second
	firstStart   = 2 * time.Minute // the first start of a process
	MaxStart     = 10 * time.Minute
	MaxElicit    = time.Minute
	maxSecret    = 64 << 10 // bytes of a file in a reference
)

// Variables that every process gets, unless its Env sets them.
const (
	DefaultPath = "/usr/local/bin:/usr/bin:/bin"
	defaultLang = "C.UTF-8"
)

// Check returns an error that lists every invalid member of s, or nil. It does not follow references.
func (s Server) Check() error {
	var bad []error
	if (s.Command == "") == (s.URL == "") {
		bad = append(bad, errors.New("it has either a command or a url"))
	}
	if u, err := url.Parse(s.URL); s.URL != "" && !strings.HasPrefix(s.URL, "${") &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		bad = append(bad, fmt.Errorf("%q is no http or https URL", s.URL))
	}
	if s.URL != "" && (len(s.Args) > 0 || len(s.Env) > 0 || s.CWD != "") {
		bad = append(bad, errors.New("args, env and cwd are of a command, and not of a url"))
	}
	if s.Command != "" && (len(s.Headers) > 0 || s.OAuth != "") {
		bad = append(bad, errors.New("headers and oauth are of a url, and not of a command"))
	}
	if s.Instances < 0 || s.Instances > MaxInstances {
		bad = append(bad, fmt.Errorf("instances is %d: it is 1 to %d", s.Instances, MaxInstances))
	}
	if s.StartMS < 0 || s.start(true) > MaxStart {
		bad = append(bad, fmt.Errorf("start_ms is %d: it is at most %d", s.StartMS, MaxStart.Milliseconds()))
	}
	if s.ElicitMS < 0 || s.ElicitMS > MaxElicit.Milliseconds() {
		bad = append(bad, fmt.Errorf("elicit_ms is %d: it is at most %d", s.ElicitMS, MaxElicit.Milliseconds()))
	}
	for name := range s.Headers {
		if s.OAuth != "" && strings.EqualFold(name, "Authorization") {
			bad = append(bad, errors.New("it has either the header Authorization or oauth"))
		}
		if strings.HasSuffix(strings.ToLower(name), "idempotency-key") { // with this header net/http may send a request twice
			bad = append(bad, fmt.Errorf("the header %s is not for all requests: each call has a key of its own", name))
		}
	}
	for name := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			bad = append(bad, fmt.Errorf("%q is no name of a variable", name))
		}
	}
	return errors.Join(bad...)
}

// start returns the time that the server has to answer for the first time. again: it was started before.
func (s Server) start(again bool) time.Duration {
	limit := firstStart
	if again || s.Command == "" {
		limit = DefaultStart
	}
	return cmp.Or(time.Duration(s.StartMS)*time.Millisecond, limit)
}

// reference matches a reference in a [Server].
var reference = regexp.MustCompile(`\$\{(env|file):([^}]*)\}`)

// Resolve returns s with its references replaced by their values. Variables come from getenv, and files are relative to
// dir. The error lists every reference that cannot be resolved, and contains no value.
func (s Server) Resolve(dir string, getenv func(name string) (string, bool)) (Server, error) {
	var bad []error
	fill := func(text string) string {
		return reference.ReplaceAllStringFunc(text, func(found string) string {
			m := reference.FindStringSubmatch(found)
			value, err := resolve(m[1], m[2], dir, getenv)
			bad = append(bad, err)
			return value
		})
	}
	s.URL = fill(s.URL)
	args := make([]string, len(s.Args))
	for i, arg := range s.Args {
		args[i] = fill(arg)
	}
	s.Args, s.Env, s.Headers = args, filled(s.Env, fill), filled(s.Headers, fill)
	if s.OAuth = fill(s.OAuth); s.OAuth != "" && !filepath.IsAbs(s.OAuth) {
		s.OAuth = filepath.Join(dir, s.OAuth)
	}
	if s.CWD = fill(s.CWD); s.Command != "" && !filepath.IsAbs(s.CWD) {
		s.CWD = filepath.Join(dir, s.CWD)
	}
	return s, errors.Join(bad...)
}

func filled(of map[string]string, fill func(string) string) map[string]string {
	out := make(map[string]string, len(of))
	for name, value := range of {
		out[name] = fill(value)
	}
	return out
}

func resolve(kind, what, dir string, getenv func(string) (string, bool)) (string, error) {
	if kind == "env" {
		name, otherwise, may := strings.Cut(what, ":-")
		if value, ok := getenv(name); ok {
			return value, nil
		}
		if !may {
			return "", fmt.Errorf("the variable %s is not set for the executor", name)
		}
		return otherwise, nil
	}
	if !filepath.IsAbs(what) {
		what = filepath.Join(dir, what)
	}
	info, err := os.Stat(what)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() || info.Size() > maxSecret:
		return "", fmt.Errorf("%s is no file of at most %d bytes", what, maxSecret)
	}
	text, err := os.ReadFile(what)
	return strings.TrimRight(string(text), "\r\n"), err
}
