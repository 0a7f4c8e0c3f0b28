package toolbus

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"testing/fstest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/schema"
	"github.com/seed-018f16cc/toolbus/subjects"
	"github.com/seed-018f16cc/toolbus/tool"
	"github.com/seed-018f16cc/toolbus/tool/native"
	"github.com/seed-018f16cc/toolbus/tool/process"
)

// yamlManifest is the tool.yaml of typed functions, in the order in which people read it. It is checked as that of
// any other tool is: there is no second set of rules.
type yamlManifest struct {
	ToolID      string   `yaml:"tool_id"`
	Semver      string   `yaml:"semver"`
	Owner       string   `yaml:"owner"`
	Title       string   `yaml:"title,omitempty"`
	Description string   `yaml:"description"`
	Tags        []string `yaml:"tags,omitempty"`
	Determinism string   `yaml:"determinism"`
	AcceptRerun bool     `yaml:"accept_rerun_after_power_loss,omitempty"`
	RetentionS  int64    `yaml:"retention_s,omitempty"`
	Pool        string   `yaml:"pool,omitempty"`
	Transport   string   `yaml:"transport"`
	Endpoint    struct {
		Command []string `yaml:"command,omitempty"`
	} `yaml:"endpoint,omitempty"`
	Functions    map[string]yamlFunction `yaml:"functions"`
	Capabilities struct {
		Streaming bool `yaml:"streaming"`
		DryRun    bool `yaml:"dry_run"`
		Lookup    bool `yaml:"lookup"`
	} `yaml:"capabilities"`
	Limits struct {
		TimeoutMSDefault int64 `yaml:"timeout_ms_default,omitempty"`
		TimeoutMSMax     int64 `yaml:"timeout_ms_max,omitempty"`
		ConcurrencyMax   int   `yaml:"concurrency_max,omitempty"`
		OutputBytesMax   int64 `yaml:"output_bytes_max,omitempty"`
	} `yaml:"limits,omitempty"`
	Errors []yamlError `yaml:"errors,omitempty"`
}

type yamlFunction struct {
	Description string `yaml:"description"`
	Request     string `yaml:"request"`
	Response    string `yaml:"response"`
}

type yamlError struct {
	Code       string `yaml:"code"`
	Class      string `yaml:"class"`
	HTTPStatus int    `yaml:"http_status,omitempty"`
	Message    string `yaml:"message"`
	Fix        string `yaml:"fix"`
}

func (p part) fn() string { return cmp.Or(p.Fn, "run") }

// file is where one of the two schemas is.
func (p part) file(of string) string { return p.fn() + "." + of + ".json" }

// yaml is the manifest of a tool of these parts. With a command it is that of a program.
func (t *typed) yaml(command []string) yamlManifest {
	a := t.about
	m := yamlManifest{
		ToolID: a.ID, Semver: cmp.Or(a.Version, "0.1.0"), Owner: cmp.Or(a.Owner, "@local"), Title: a.Title,
		Description: cmp.Or(a.Description, a.Title, a.ID), Tags: a.Tags, Determinism: string(a.Class),
		AcceptRerun: a.AcceptRerun, RetentionS: int64(a.Retention / time.Second), Pool: a.Pool,
		Transport: native.Transport, Functions: map[string]yamlFunction{},
	}
	if command != nil {
		m.Transport, m.Endpoint.Command = process.Transport, command
	}
	m.Capabilities.Streaming, m.Capabilities.DryRun = a.Streaming, a.DryRun
	m.Limits.TimeoutMSDefault, m.Limits.TimeoutMSMax = milliseconds(a.Timeout), milliseconds(a.MaxTimeout)
	m.Limits.ConcurrencyMax, m.Limits.OutputBytesMax = a.Concurrency, a.OutputBytes
	for _, p := range t.parts {
		m.Capabilities.Lookup = m.Capabilities.Lookup || p.lookup != nil
		m.Functions[p.fn()] = yamlFunction{cmp.Or(p.FnDescription, m.Description), p.file("request"), p.file("response")}
	}
	for _, e := range a.Errors {
		m.Errors = append(m.Errors, yamlError{e.Name, string(e.Class), e.HTTPStatus, e.Message, e.Fix})
	}
	return m
}

// milliseconds rounds up: what is no default stays none.
func milliseconds(d time.Duration) int64 {
	if d > 0 {
		d += time.Millisecond - 1
	}
	return d.Milliseconds()
}

// files are the manifest and the schemas of the tool, by name.
func (t *typed) files(command []string) (map[string][]byte, error) {
	text, err := yaml.Marshal(t.yaml(command))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"tool.yaml": text}
	for _, p := range t.parts {
		files[p.file("request")], files[p.file("response")] = p.Request, p.Response
	}
	return files, nil
}

// load reads the files of the tool as those of a folder are read. The error is all that is wrong.
func (t *typed) load() (*tool.Manifest, error) {
	files, err := t.files(nil)
	if err != nil {
		return nil, err
	}
	folder := fstest.MapFS{}
	for name, data := range files {
		folder[subjects.Token(t.about.ID)+"/"+name] = &fstest.MapFile{Data: data}
	}
	r, err := tool.LoadFS(folder, app.Transports()...)
	if problems, ok := errors.AsType[tool.Problems](err); ok {
		return nil, withoutPlaces(problems)
	}
	if err != nil {
		return nil, err
	}
	return r.List()[0], nil
}

// withoutPlaces tells problems of a manifest that no file has.
func withoutPlaces(problems tool.Problems) error {
	all := make([]error, len(problems))
	for i, p := range problems {
		all[i] = fmt.Errorf("%s (%s)", p.Message, p.Hint)
	}
	return errors.Join(all...)
}

// fits says why the schema of a type is none of its values: it has tags that only one of generator and encoder
// knows.
func fits(s *schema.Schema, t reflect.Type) error {
	empty, err := json.Marshal(reflect.Zero(t).Interface(), asJSON)
	if err != nil {
		return fmt.Errorf("%s cannot be encoded: %w", t, err)
	}
	if bad := s.Validate(jsontext.Value(empty)); len(bad) > 0 {
		return fmt.Errorf("the empty %s is %s, which its schema refuses at %q: %s", t, empty, bad[0].Pointer, bad[0].Message)
	}
	return nil
}
