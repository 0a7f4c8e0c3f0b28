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

// Server says how an MCP server is reached: as a process, by Command, or by its URL. In Args, Env, URL and Headers
// ${env:NAME} stands for a variable of the executor, ${env:NAME:-default} too where it may be missing, and
// ${file:PATH} for what a file of its host holds, without the line break at its end.
type Server struct {
	Command string            `json:"command,omitzero"` // a path, or a name that is looked for on the PATH of Env
	Args    []string          `json:"args,omitzero"`
	Env     map[string]string `json:"env,omitzero"` // all that the process gets besides PATH and LANG
	CWD     string            `json:"cwd,omitzero"` // where it runs; relative to the folder of tools, which is the default

	URL     string            `json:"url,omitzero"`
	Headers map[string]string `json:"headers,omitzero"` // of every request

	// Instances is how many processes, or sessions, there are at the most; 1 unless named. More of them share the calls,
	// which suits servers without a state of their own.
	Instances int `json:"instances,omitzero"`
	// StartMS is how long it may take until it answers for the first time, in milliseconds; 30,000 unless named.
	StartMS int64 `json:"start_ms,omitzero"`
}

// Limits of what a [Server] says.
const (
	MaxInstances = 64
	DefaultStart = 30 * time.Second
	maxStart     = 10 * time.Minute
	maxSecret    = 64 << 10 // bytes of a file that is referred to
)

// What every process gets unless its Env says otherwise.
const (
	DefaultPath = "/usr/local/bin:/usr/bin:/bin"
	defaultLang = "C.UTF-8"
)

// Check says what is wrong with s, or nil. It reads nothing that s refers to.
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
	if s.Command != "" && len(s.Headers) > 0 {
		bad = append(bad, errors.New("headers are of a url, and not of a command"))
	}
	if s.Instances < 0 || s.Instances > MaxInstances {
		bad = append(bad, fmt.Errorf("instances is %d: it is 1 to %d", s.Instances, MaxInstances))
	}
	if s.StartMS < 0 || s.start() > maxStart {
		bad = append(bad, fmt.Errorf("start_ms is %d: it is at most %d", s.StartMS, maxStart.Milliseconds()))
	}
	for name := range s.Headers {
		if strings.HasSuffix(strings.ToLower(name), "idempotency-key") { // for the HTTP client it is leave to send twice
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

func (s Server) start() time.Duration {
	return cmp.Or(time.Duration(s.StartMS)*time.Millisecond, DefaultStart)
}

// reference is what Args, Env, URL and Headers may hold.
var reference = regexp.MustCompile(`\$\{(env|file):([^}]*)\}`)

// Resolve returns s with all that it refers to, which is found by getenv and below dir. The error names every
// reference that leads nowhere, and no value.
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
