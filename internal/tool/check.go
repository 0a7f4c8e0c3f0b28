package tool

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	santhosh "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// errorPattern matches the name of an error that a tool returns.
var errorPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

var poolPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// ValidPool reports whether name is a valid pool name: lower-case letters, digits and -, at most 32 bytes.
func ValidPool(name string) bool { return poolPattern.MatchString(name) }

// effects maps each accepted value of determinism to its effect class.
var effects = map[string]call.EffectClass{
	"pure":                call.Pure,
	"idempotent":          call.Idempotent,
	"side_effectful":      call.SideEffectful,
	"Pure":                call.Pure,
	"IdempotentWrite":     call.Idempotent,
	"NonIdempotentWrite":  call.SideEffectful,
	"ExternalSideEffects": call.SideEffectful,
}

// loaderVariables are environment variables that make a program load or run foreign code before its own. No manifest
// may set or pass them.
var loaderVariables = []string{
	"BASH_ENV", "ENV", "NODE_OPTIONS", "PYTHONSTARTUP", "PERL5OPT", "RUBYOPT",
	"JAVA_TOOL_OPTIONS", "GCONV_PATH", "GLIBC_TUNABLES",
}

// loaderPrefixes are the prefixes of further such variables.
var loaderPrefixes = []string{"LD_", "DYLD_", "BASH_FUNC_"}

// LoaderVariable reports whether the environment variable makes programs load or run foreign code before their own. No
// tool gets such a variable.
func LoaderVariable(name string) bool {
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	return slices.Contains(loaderVariables, name) || slices.ContainsFunc(loaderPrefixes, hasPrefix)
}

// OwnVariable reports whether the environment variable belongs to the programs of Toolbus. It may lead to a credential,
// so no tool inherits it from its executor.
func OwnVariable(name string) bool { return strings.HasPrefix(name, "TOOLBUS_") }

// written holds the members of a manifest whose form in tool.yaml differs from their form in Manifest.
type written struct {
	*Manifest
	RetentionS int64                      `json:"retention_s"`
	Listed     string                     `json:"listed"`
	Endpoint   jsontext.Value             `json:"endpoint"`
	Functions  map[string]writtenFunction `json:"functions"`
	Errors     []ErrorSpec                `json:"errors"`
}

type writtenFunction struct {
	Description string    `json:"description"`
	Request     string    `json:"request"`
	Response    string    `json:"response"`
	Examples    []Example `json:"examples"`
}

// check validates the source against its schema, and then against the rules that a schema cannot express.
func (l *toolLoader) check() error {
	whole, err := json.Marshal(l.tree, json.Deterministic(true))
	if err != nil {
		return err
	}
	l.conform(whole)
	if l.bad[""] { // not a mapping: otherwise every field would be reported as missing
		return nil
	}
	raw := whole
	if len(l.problems) > 0 {
		if raw, err = json.Marshal(l.tree, json.Deterministic(true)); err != nil {
			return err
		}
	}
	w := written{Manifest: l.manifest}
	if err := errors.Join(json.Unmarshal(l.contract.defaults, &w), json.Unmarshal(raw, &w)); err != nil {
		return err
	}
	l.meaning(&w)
	if len(l.problems) > 0 {
		return nil
	}
	l.manifest.Digest, err = l.digest(whole)
	return err
}

// conform reports where the manifest breaks its schema. It removes values that could not be decoded or would cause
// misleading further problems.
func (l *toolLoader) conform(whole jsontext.Value) {
	for _, v := range l.contract.schema.ValidateChecked(whole) {
		at := jsontext.Pointer(v.Pointer)
		message, hint := l.contract.explain(v, l.at(at))
		if where, ok := l.keys[at]; ok && v.Rule == "additionalProperties" { // v.Pointer of a very long name is cut
			l.report(where, message, hint)
			continue
		}
		l.fail(at, message, hint)
		switch v.Rule {
		case "type", "enum", "minimum", "maximum":
			defer l.leaveOut(at)
		}
	}
}

func (l *toolLoader) meaning(w *written) {
	m := l.manifest
	if want := subjects.Token(m.ToolID); want != l.folder && m.ToolID != "" {
		l.report(l.values["/tool_id"], fmt.Sprintf("the folder of %s is %s", m.ToolID, l.folder), "rename it to "+want)
	}
	if _, err := semver.StrictNewVersion(m.Semver); err != nil && m.Semver != "" {
		l.fail("/semver", fmt.Sprintf("%q is not a semantic version", m.Semver), "write it as 1.2.3")
	}
	if m.Title == "" {
		m.Title = m.ToolID
	}
	m.Class, m.Retention = effects[m.Effect], time.Duration(w.RetentionS)*time.Second
	l.limits()
	for i, name := range m.Capability.Env {
		if LoaderVariable(name) {
			l.fail(pointer("/capabilities/env/%d", i), fmt.Sprintf("%q makes programs run foreign code", name), "leave it out")
		}
		if OwnVariable(name) {
			l.fail(pointer("/capabilities/env/%d", i), fmt.Sprintf("%q is the executor's own", name),
				"leave it out: a tool has no business with the executor's bus or credential")
		}
	}
	l.errorSpecs(w.Errors)
	l.functions(w.Functions)
	l.listed(w.Listed)
	l.described()
	l.endpoint(w.Endpoint)
}

func (l *toolLoader) limits() {
	limits := &l.manifest.Limits
	switch {
	case limits.TimeoutDefaultMS == 0:
		limits.TimeoutDefaultMS = min(15_000, limits.TimeoutMaxMS)
	case limits.TimeoutDefaultMS > limits.TimeoutMaxMS:
		l.fail("/limits/timeout_ms_default", "the default timeout is longer than the maximum",
			fmt.Sprintf("at most %d", limits.TimeoutMaxMS))
	}
}

func (l *toolLoader) errorSpecs(all []ErrorSpec) {
	l.manifest.Errors = make(map[string]ErrorSpec, len(all))
	for i, e := range all {
		if _, double := l.manifest.Errors[e.Name]; double {
			l.fail(pointer("/errors/%d/code", i), fmt.Sprintf("the error %q is declared twice", e.Name), "keep one of the two")
		}
		l.manifest.Errors[e.Name] = e
		l.manifest.ErrorNames = append(l.manifest.ErrorNames, e.Name)
	}
}

// endpoint has the transport decode the endpoint, and adds the checksums of the files that it names.
func (l *toolLoader) endpoint(raw jsontext.Value) {
	if l.contract.transport.Endpoint == nil {
		return
	}
	l.manifest.Endpoint = l.contract.transport.Endpoint(l.manifest, raw, func(at, message, hint string) {
		if key, isKey := strings.CutSuffix(at, "#"); isKey {
			l.report(l.keys[jsontext.Pointer(key)], message, hint)
			return
		}
		l.fail(jsontext.Pointer(at), message, hint)
	})
	for _, f := range l.manifest.Endpoint.Files() {
		p, err := l.program(f.Name)
		if err == nil {
			l.sums[f.Name] = p.sum
			l.manifest.programs = append(l.manifest.programs, p)
		}
		if f.Runs && l.manifest.Callable() {
			l.runnable(jsontext.Pointer(f.At), p, err)
		}
	}
}

func (l *toolLoader) functions(all map[string]writtenFunction) {
	l.manifest.Functions = make(map[string]*Function, len(all))
	for name, w := range all {
		at := jsontext.Pointer("/functions").AppendToken(name)
		f := &Function{Name: name, Description: w.Description, Examples: w.Examples}
		f.Request, f.Response = l.schema(at+"/request", w.Request), l.schema(at+"/response", w.Response)
		for i, e := range w.Examples {
			l.conforms(at+pointer("/examples/%d/input", i), f.Request, e.Input)
			l.conforms(at+pointer("/examples/%d/output", i), f.Response, e.Output)
		}
		l.manifest.Functions[name] = f
	}
}

func pointer(format string, i int) jsontext.Pointer { return jsontext.Pointer(fmt.Sprintf(format, i)) }

// listed reads the file that holds the tool as its MCP server lists it.
func (l *toolLoader) listed(name string) {
	const at, hint = "/listed", "`toolbus tools import-mcp` writes this file; leave the field out for a tool of your own"
	if name == "" || l.bad[at] {
		return
	}
	raw, err := l.read(name)
	if err != nil {
		l.fail(at, reason(err), hint)
		return
	}
	listed := &envelope.Listed{}
	if err := json.Unmarshal(raw, listed, json.RejectUnknownMembers(true)); err != nil || listed.Tool.Kind() != '{' {
		l.fail(at, fmt.Sprintf("%s is not an object with the members server and tool", name), hint)
		return
	}
	if len(l.manifest.Functions) > 1 {
		l.fail(at, "a tool with several functions is not one that a server lists", hint)
	}
	l.manifest.Listed = listed
}

// described reports a tool whose description for callers does not fit into one message.
func (l *toolLoader) described() {
	raw, _ := json.Marshal(l.manifest.describe(false)) // cannot fail: all texts are valid UTF-8
	size := len(raw)
	if l.manifest.Listed != nil {
		size += len(l.manifest.Listed.Tool) + len(l.manifest.Listed.Server.Instructions)
	}
	for _, f := range l.manifest.Functions {
		for _, s := range []*jsonschema.Schema{f.Request, f.Response} {
			if s != nil {
				size += len(s.Whole())
			}
		}
	}
	if size > MaxDescribed {
		l.fail("/functions", fmt.Sprintf("schemas and texts take %d bytes; callers can be told %d", size, MaxDescribed),
			"shorten schemas and descriptions")
	}
}

// schema compiles the schema file name, which the manifest names at a pointer.
func (l *toolLoader) schema(at jsontext.Pointer, name string) *jsonschema.Schema {
	if l.bad[at] {
		return nil
	}
	raw, err := l.read(name)
	if err != nil {
		l.fail(at, reason(err), "a schema lies in the tool's own folder")
		return nil
	}
	compiled, err := jsonschema.Compile(path.Clean(name), raw, l.read)
	if err != nil {
		l.fail(at, reason(err), schemaHint(err))
		return nil
	}
	return compiled
}

// schemaHint returns a hint on how to correct a schema that does not compile.
func schemaHint(err error) string {
	refused, invalid := new(santhosh.LoadURLError), new(santhosh.SchemaValidationError)
	switch {
	case errors.As(err, &refused) && errors.Is(refused.Err, fs.ErrNotExist):
		return "put the file there, or correct the $ref"
	case errors.As(err, &refused):
		return "refer only to files in the tool's own folder; nothing is fetched"
	case errors.As(err, &invalid) && strings.Contains(err.Error(), "is not valid regex"):
		return "patterns are RE2: brackets are closed, no lookaround, no back-references"
	case errors.As(err, &invalid):
		return "correct the schema at the place that is named; it is JSON Schema 2020-12"
	}
	return "a schema is one JSON document, JSON Schema 2020-12, and what it refers to is there"
}

// read returns a file in the folder, and adds its checksum to the digest.
func (l *toolLoader) read(name string) ([]byte, error) {
	name = path.Clean(name)
	raw, err := readFile(l.files, name, jsonschema.MaxBytes)
	if err == nil {
		l.sums[name] = fmt.Sprintf("%x", sha256.Sum256(raw))
	}
	return raw, err
}

// conforms reports where an example breaks its schema, unless a value of the example already has a problem.
func (l *toolLoader) conforms(at jsontext.Pointer, schema *jsonschema.Schema, value jsontext.Value) {
	if schema == nil || value == nil || slices.ContainsFunc(slices.Collect(maps.Keys(l.bad)), at.Contains) {
		return
	}
	for _, v := range schema.Validate(value) {
		l.report(l.values[at], fmt.Sprintf("the example breaks its schema at %q: %s", v.Pointer, v.Message),
			"correct the example, or the schema")
	}
}

// program reads a file that the endpoint names. It takes the file info before the checksum: if the file changes in
// between, Unchanged reads it again.
func (l *toolLoader) program(name string) (p program, err error) {
	p.name = name
	if p.info, err = fs.Stat(l.files, name); err != nil {
		return p, err
	}
	p.sum, err = sumFile(l.files, name)
	return p, err
}

// runnable reports a program that cannot be read or is not executable. Permissions are checked only in a folder on
// disk.
func (l *toolLoader) runnable(at jsontext.Pointer, p program, err error) {
	if err != nil {
		l.fail(at, reason(err), "the program lies in the tool's own folder; build it first")
		return
	}
	if l.manifest.Dir != "" && p.info.Mode()&0o111 == 0 {
		l.fail(at, p.name+" is not executable", "chmod +x "+p.name)
	}
}

// digest returns the SHA-256 of the canonical JSON of the manifest and of the checksums of the files that it names.
// Comments, order and layout of the YAML do not change it.
func (l *toolLoader) digest(manifest jsontext.Value) (string, error) {
	var raw jsontext.Value
	raw, err := json.Marshal(map[string]any{"manifest": manifest, "files": l.sums})
	if err != nil {
		return "", err
	}
	if err := raw.Canonicalize(); err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(raw)), nil
}
