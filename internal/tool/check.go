package tool

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
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
	Schema     writtenSchema              `json:"schema"`
	Examples   []Example                  `json:"examples"`
	Errorspec  string                     `json:"errorspec"`
	Errors     []ErrorSpec                `json:"errors"`
}

// writtenSchema has the schemas of a tool without functions: names of files, or the schemas themselves.
type writtenSchema struct {
	Request  jsontext.Value `json:"request"`
	Response jsontext.Value `json:"response"`
}

type writtenFunction struct {
	Description string    `json:"description"`
	Request     string    `json:"request"`
	Response    string    `json:"response"`
	Examples    []Example `json:"examples"`
}

// check validates the source against its schema, and then against the rules that a schema cannot express.
func (l *toolLoader) check() error {
	asWritten, err := json.Marshal(l.tree, json.Deterministic(true))
	if err != nil {
		return err
	}
	whole := jsontext.Value(asWritten)
	renamed := l.unalias(l.contract.aliases)
	if l.endpointText() || renamed {
		if whole, err = json.Marshal(l.tree, json.Deterministic(true)); err != nil {
			return err
		}
	}
	l.conform(l.contract, whole)
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
	if l.problems.refused() {
		return nil
	}
	l.manifest.Digest, err = l.digest(asWritten)
	return err
}

// conform reports where the source breaks its schema. It removes values that could not be decoded or would cause
// misleading further problems.
func (s *source) conform(c *contract, whole jsontext.Value) {
	violations := c.schema.ValidateChecked(whole)
	for _, v := range violations {
		if v.Rule != "additionalProperties" {
			continue
		}
		if field := c.misspelt(jsontext.Pointer(v.Pointer)); s.at(field) == nil {
			s.bad[field] = true // that it is missing is the same problem
		}
	}
	for _, v := range violations {
		at := jsontext.Pointer(v.Pointer)
		message, hint := c.explain(v, s.at(at), s.named(at))
		if where, ok := s.keys[at]; ok && v.Rule == "additionalProperties" { // v.Pointer of a very long name is cut
			s.report(where, message, hint)
			s.bad[at] = true
			continue
		}
		s.fail(at, message, hint)
		switch v.Rule {
		case "type", "enum", "minimum", "maximum":
			defer s.leaveOut(at)
		}
	}
}

func (l *toolLoader) meaning(w *written) {
	m := l.manifest
	if want := subjects.Token(m.ToolID); m.ToolID != "" && !l.bad["/tool_id"] && l.folder != m.ToolID && l.folder != want {
		l.report(l.values["/tool_id"], fmt.Sprintf("the folder of %s is %s", m.ToolID, l.folder),
			"rename it to "+strings.Join(slices.Compact([]string{want, m.ToolID}), " or "))
	}
	if _, err := semver.StrictNewVersion(m.Semver); err != nil && m.Semver != "" {
		l.fail("/semver", fmt.Sprintf("%q is not a semantic version", m.Semver), "write it as 1.2.3")
	}
	if m.Title == "" {
		m.Title = m.ToolID
	}
	m.Class, m.Retention = effects[m.Effect], time.Duration(w.RetentionS)*time.Second
	if m.ReadOnly && m.Class == call.SideEffectful {
		l.fail("/read_only", "a tool with side effects is not read-only", "determinism: idempotent, or leave read_only out")
	}
	_, m.ConcurrencyGiven = l.keys["/limits/concurrency_max"]
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
	l.errorspec(w.Errorspec, &w.Errors)
	l.errorSpecs(w.Errors)
	l.functions(w)
	l.listed(w.Listed)
	l.whole()
	l.described()
	l.endpoint(w.Endpoint)
	l.artifact()
}

// whole keeps the manifest for descriptions, without the endpoint, which is not for callers. It finds the fields that
// have no effect yet.
func (l *toolLoader) whole() {
	members, _ := l.tree.(map[string]any)
	shown := maps.Clone(members)
	delete(shown, "endpoint")
	whole, err := json.Marshal(shown, json.Deterministic(true))
	if err != nil {
		l.fail("", reason(err), "write it as JSON would, or in quotes")
	}
	l.manifest.Whole = whole
	for _, at := range l.contract.declaredOnly(members) {
		l.manifest.DeclaredOnly = append(l.manifest.DeclaredOnly, named(at))
		l.warn(l.keys[at], l.named(at)+" is declared only: it has no effect yet", declaredHint)
	}
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
	if limits.OutputBytes > envelope.MaxPayload {
		l.warn(l.values["/limits/output_bytes_max"],
			fmt.Sprintf("the output alone has at most %d bytes", envelope.MaxPayload),
			"write the rest of a larger result in chunks")
	}
	if l.manifest.Class == call.SideEffectful && l.manifest.Capability.Lookup && limits.TimeoutDefaultMS < minLookupMS {
		l.warn(l.placeOf("/limits/timeout_ms_default"), "calls may end before the lookup is asked: that needs an executor "+
			"that was silent for the lease, 5 s by default, and time before the deadline",
			fmt.Sprintf("timeout_ms_default and timeout_ms_max of %d or more: two leases", minLookupMS))
	}
}

// minLookupMS is the shortest timeout in which the lookup of a tool is asked, whenever the executor dies: twice the
// default lease.
const minLookupMS = 10_000

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
	err = json.Unmarshal(raw, listed, json.RejectUnknownMembers(true))
	if err != nil || (listed.Tool.Kind() == '{') == listed.Methods {
		l.fail(at, fmt.Sprintf("%s is not an object with the members server and tool", name), hint)
		return
	}
	if len(l.manifest.Functions) > 1 && !listed.Methods {
		l.fail(at, "a tool with several functions is not one that a server lists", hint)
	}
	l.manifest.Listed = listed
}
