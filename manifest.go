package toolbus

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing/fstest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/goccy/go-yaml"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
	"github.com/seed-018f16cc/toolbus/subjects"
)

func (p part) fn() string { return cmp.Or(p.Function, "run") }

// file returns the name of the file with the request or response schema of p.
func (p part) file(of string) string { return p.fn() + "." + of + ".json" }

// members returns a YAML object with the given members, name and value in turn, in that order. It leaves out zero
// values, which are defaults of the manifest.
func members(of ...any) (object yaml.MapSlice) {
	for pair := range slices.Chunk(of, 2) {
		if v := reflect.ValueOf(pair[1]); v.IsValid() && !v.IsZero() {
			object = append(object, yaml.MapItem{Key: pair[0], Value: pair[1]})
		}
	}
	return object
}

// manifestFor returns the tool.yaml of the tool, with its members in the usual order. If command is not nil, the
// manifest is that of a program. The manifest goes through the same checks as that of any other tool.
func (t *typed) manifestFor(command []string) yaml.MapSlice {
	a, transport, endpoint := t.about, native.Transport, members("build", t.about.Build)
	if command != nil {
		transport, endpoint = process.Transport, members("command", command)
	}
	description := cmp.Or(a.Description, a.Title, a.ID)
	var functions, failures []any
	lookup := false
	for _, p := range t.parts {
		lookup = lookup || p.lookup != nil
		functions = append(functions, p.fn(), members("description", cmp.Or(p.FunctionDescription, description),
			"request", p.file("request"), "response", p.file("response")))
	}
	for _, e := range a.Errors {
		e = cmp.Or(e, &ToolError{}) // the checks report all missing fields
		failures = append(failures, members("code", e.Name, "class", string(e.Class), "http_status", e.HTTPStatus,
			"message", e.Message, "fix", e.Fix))
	}
	return members(
		"tool_id", a.ID, "name", a.Name, "semver", cmp.Or(a.Version, "0.1.0"), "owner", cmp.Or(a.Owner, "@local"),
		"title", a.Title,
		"description", description, "tags", a.Tags, "determinism", string(a.Class),
		"accept_rerun_after_power_loss", a.AcceptRerun, "retention_s", whole(a.Retention, time.Second), "pool", a.Pool,
		"transport", transport, "endpoint", endpoint, "functions", members(functions...),
		"capabilities", members("streaming", a.Streaming, "dry_run", a.DryRun, "lookup", lookup),
		"context", a.Context,
		"limits", members("timeout_ms_default", whole(a.Timeout, time.Millisecond), "timeout_ms_max",
			whole(a.MaxTimeout, time.Millisecond), "concurrency_max", a.Concurrency, "output_bytes_max", a.OutputBytes),
		"errors", failures,
	)
}

// whole returns d in units, rounded away from 0, so that only a zero d becomes 0, which means the default.
func whole(d, unit time.Duration) int64 {
	if n := int64(d / unit); d%unit == 0 {
		return n
	} else if d < 0 {
		return n - 1
	} else {
		return n + 1
	}
}

// files returns the contents of the manifest and the schemas of the tool, by file name.
func (t *typed) files(command []string) (map[string][]byte, error) {
	text, err := tool.MarshalYAML(t.manifestFor(command))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"tool.yaml": text}
	for _, p := range t.parts {
		files[p.file("request")], files[p.file("response")] = p.Request, p.Response
	}
	return files, nil
}

// load reads the generated files of the tool as it would read a folder. The error lists all problems.
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
		err = nil
		for _, p := range problems { // without file and line: the manifest is generated
			err = errors.Join(err, fmt.Errorf("%s (%s)", p.Message, p.Hint))
		}
	}
	if err != nil {
		return nil, err
	}
	return r.List()[0], nil
}

// fits returns an error if the schema that was made from t refuses the zero value of t. That happens with struct tags
// that only the schema generator or only the JSON encoder understands.
func fits(s *jsonschema.Schema, t reflect.Type) error {
	empty, err := json.Marshal(reflect.Zero(t).Interface(), asJSON)
	if err != nil {
		return fmt.Errorf("%s cannot be encoded: %w", t, err)
	}
	if bad := s.Validate(jsontext.Value(empty)); len(bad) > 0 {
		return fmt.Errorf("the empty %s is %s, which its schema refuses at %q: %s", t, empty, bad[0].Pointer, bad[0].Message)
	}
	return nil
}

// asJSON are the JSON options for values of Go types: durations are integers of nanoseconds, as in encoding/json, and
// unknown members are refused.
var asJSON = json.JoinOptions(
	json.Deterministic(true), json.RejectUnknownMembers(true), jsonv1.FormatDurationAsNano(true),
)
