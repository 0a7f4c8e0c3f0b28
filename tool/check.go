package tool

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/question"
)

var (
	toolIDPattern   = regexp.MustCompile(`^[a-z0-9._-]+(::[a-z0-9._-]+)*$`)
	functionPattern = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,63}$`)
	poolPattern     = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
	errorPattern    = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	envPattern      = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	hostPattern     = regexp.MustCompile(`^(https?)://(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$`)
)

// effects maps every accepted determinism, to its class.
var effects = map[string]call.Class{
	"pure":                call.Pure,
	"idempotent":          call.Idempotent,
	"side_effectful":      call.SideEffectful,
	"Pure":                call.Pure,
	"IdempotentWrite":     call.Idempotent,
	"NonIdempotentWrite":  call.SideEffectful,
	"ExternalSideEffects": call.SideEffectful,
}

var (
	statuses   = []string{string(StatusActive), string(StatusPlanned), string(StatusDeprecated), string(StatusDisabled)}
	transports = []string{string(TransportProcess), string(TransportNative)}
	classes    = []string{
		string(envelope.ClassRequest), string(envelope.ClassAuth), string(envelope.ClassPrecondition),
		string(envelope.ClassTimeout), string(envelope.ClassUpstream), string(envelope.ClassCapacity),
		string(envelope.ClassTool), string(envelope.ClassContract), string(envelope.ClassData),
	}
)

// loaderVariables make a program load or run foreign code before its own, so no manifest may
// set or pass them.
var loaderVariables = []string{
	"BASH_ENV", "ENV", "NODE_OPTIONS", "PYTHONSTARTUP", "PERL5OPT", "RUBYOPT",
	"JAVA_TOOL_OPTIONS", "GCONV_PATH", "GLIBC_TUNABLES",
}

// loaderPrefixes are families of such variables.
var loaderPrefixes = []string{"LD_", "DYLD_", "BASH_FUNC_"}

// identity checks who the tool is.
func (l *toolLoader) identity() {
	r, m := &l.raw, l.manifest
	l.required("tool_id", r.ToolID)
	if r.ToolID != "" && (len(r.ToolID) > envelope.MaxToolID || !toolIDPattern.MatchString(r.ToolID)) {
		l.fail("tool_id", fmt.Sprintf("%q is not a tool id", r.ToolID),
			fmt.Sprintf("lower-case letters, digits and . _ -, optionally namespaced as in local::fs.write, at most %d bytes", envelope.MaxToolID))
	}
	l.required("semver", r.Semver)
	if _, err := semver.StrictNewVersion(r.Semver); err != nil && r.Semver != "" {
		l.fail("semver", fmt.Sprintf("%q is not a semantic version", r.Semver), "write it as 1.2.3")
	}
	l.required("owner", r.Owner)
	l.required("description", r.Description)
	m.ToolID, m.Semver, m.Owner, m.Description, m.Tags = r.ToolID, r.Semver, r.Owner, r.Description, r.Tags
	m.Title = withDefault(r.Title, r.ToolID)
	m.Status = Status(l.oneOf("status", withDefault(r.Status, string(StatusActive)), statuses))
	m.Pool = withDefault(r.Pool, DefaultPool)
	if !poolPattern.MatchString(m.Pool) {
		l.fail("pool", fmt.Sprintf("%q is not a pool name", m.Pool), "lower-case letters, digits and -, at most 32 bytes")
	}
	m.AcceptRerun = r.AcceptRerun
}

// behaviour checks what may be done with the tool's calls.
func (l *toolLoader) behaviour() {
	r, m := &l.raw, l.manifest
	l.required("determinism", r.Determinism)
	if r.Determinism != "" {
		l.oneOf("determinism", r.Determinism, slices.Sorted(maps.Keys(effects)))
	}
	m.Class, m.Effect = effects[r.Determinism], r.Determinism
	m.Retention = time.Duration(l.within("retention_s", r.RetentionS, 1, 365*24*3600, 24*3600)) * time.Second
	m.Limits = l.limits()
	m.Capability = l.capabilities()
	m.Errors = l.errorSpecs()
}

// endpoint checks how the tool is reached, but not whether its program is there.
func (l *toolLoader) endpoint() {
	r, m := &l.raw, l.manifest
	l.required("transport", r.Transport)
	if r.Transport != "" {
		l.oneOf("transport", r.Transport, transports)
	}
	m.Transport = Transport(r.Transport)
	m.Endpoint = Endpoint{Command: r.Endpoint.Command, Env: r.Endpoint.Env, Native: r.Endpoint.Native}
	switch {
	case m.Transport == TransportProcess && r.Endpoint.Native != "":
		l.fail("endpoint.native", "a process tool has no native name", "use endpoint.command, or transport: native")
	case m.Transport == TransportNative && (len(r.Endpoint.Command) > 0 || len(r.Endpoint.Env) > 0):
		l.fail("endpoint", "a native tool has neither command nor env", "use endpoint.native, or transport: process")
	case m.Transport == TransportProcess && len(r.Endpoint.Command) == 0 && m.Callable() && !l.bad["endpoint.command"]:
		l.fail("endpoint.command", "a process tool needs a command", "command: [./program]")
	case m.Transport == TransportNative && r.Endpoint.Native == "":
		m.Endpoint.Native = m.ToolID
	}
	for i, arg := range r.Endpoint.Command {
		if strings.ContainsRune(arg, 0) || i == 0 && arg == "" {
			l.fail(fmt.Sprintf("endpoint.command[%d]", i), "cannot be passed to a program", "the program has a name, and no argument a NUL byte")
		}
	}
	for name, value := range r.Endpoint.Env {
		l.variable("endpoint.env."+name, name, l.failKey)
		if strings.ContainsRune(value, 0) {
			l.fail("endpoint.env."+name, "the value has a NUL byte", "leave it out")
		}
	}
}

func (l *toolLoader) limits() question.Limits {
	r := &l.raw.Limits
	longest := l.within("limits.timeout_ms_max", r.TimeoutMSMax, 1, envelope.MaxTimeoutMS, 60_000)
	limits := question.Limits{
		TimeoutMaxMS:     longest,
		TimeoutDefaultMS: l.within("limits.timeout_ms_default", r.TimeoutMSDefault, 1, envelope.MaxTimeoutMS, min(15_000, longest)),
		MemoryMB:         l.within("limits.memory_mb_max", r.MemoryMBMax, envelope.MinMemoryMB, 1<<20, 512),
		Concurrency:      int(l.within("limits.concurrency_max", r.ConcurrencyMax, 1, 10_000, 8)),
		OutputBytes:      l.within("limits.output_bytes_max", r.OutputBytesMax, 1, 1<<30, 8<<20),
		StderrBytes:      l.within("limits.stderr_bytes_max", r.StderrBytesMax, 256, envelope.MaxStderr, envelope.MaxStderr),
	}
	if limits.TimeoutDefaultMS > limits.TimeoutMaxMS {
		l.fail("limits.timeout_ms_default", "the default timeout is longer than the maximum", fmt.Sprintf("at most %d", longest))
	}
	return limits
}

func (l *toolLoader) capabilities() Capabilities {
	r := &l.raw.Capabilities
	for i, folder := range r.FS {
		if folder == "" || strings.ContainsRune(folder, 0) || slices.Contains(strings.Split(folder, "/"), "..") {
			l.fail(fmt.Sprintf("capabilities.fs[%d]", i), fmt.Sprintf("%q is not a folder name", folder), "no .. and not empty")
		}
	}
	for i, host := range r.NetAllowlist {
		if !hostPattern.MatchString(host) {
			l.fail(fmt.Sprintf("capabilities.net_allowlist[%d]", i), fmt.Sprintf("%q is not scheme://host[:port]", host),
				"for example https://api.example.com or https://*.example.com; a path cannot be enforced")
		}
	}
	for i, name := range r.Env {
		path := fmt.Sprintf("capabilities.env[%d]", i)
		l.variable(path, name, l.fail)
		if _, both := l.raw.Endpoint.Env[name]; both {
			l.fail(path, fmt.Sprintf("%q is also set in endpoint.env", name), "keep one of the two")
		}
	}
	return Capabilities{
		FS: r.FS, NetAllowlist: r.NetAllowlist, Env: r.Env,
		Streaming: r.Streaming, DryRun: r.DryRun, Lookup: r.Lookup,
	}
}

func (l *toolLoader) errorSpecs() map[string]ErrorSpec {
	specs := make(map[string]ErrorSpec, len(l.raw.Errors))
	for i, e := range l.raw.Errors {
		path := fmt.Sprintf("errors[%d]", i)
		l.errorSpec(path, e)
		if _, double := specs[e.Code]; double {
			l.fail(path+".code", fmt.Sprintf("the error %q is declared twice", e.Code), "keep one of the two")
		}
		specs[e.Code] = ErrorSpec{
			Name: e.Code, Class: envelope.Class(e.Class), HTTPStatus: int(e.HTTPStatus), Message: e.Message, Fix: e.Fix,
		}
	}
	return specs
}

func (l *toolLoader) errorSpec(path string, e rawError) {
	if !errorPattern.MatchString(e.Code) {
		l.fail(path+".code", fmt.Sprintf("%q is not an error name", e.Code), "lower-case letters, digits and _, for example fetch_failed")
	}
	l.required(path+".class", e.Class)
	if e.Class != "" {
		l.oneOf(path+".class", e.Class, classes)
	}
	l.within(path+".http_status", e.HTTPStatus, 400, 599, 0)
	l.required(path+".message", e.Message)
	l.required(path+".fix", e.Fix)
}

// variable checks the name of an environment variable.
func (l *toolLoader) variable(path, name string, fail func(path, message, hint string)) {
	if !envPattern.MatchString(name) {
		fail(path, fmt.Sprintf("%q is not a variable name", name), "letters, digits and _")
	}
	if LoaderVariable(name) {
		fail(path, fmt.Sprintf("%q makes programs run foreign code", name), "leave it out")
	}
}

// LoaderVariable says whether the environment variable makes programs load or run foreign code
// before their own. No tool gets one.
func LoaderVariable(name string) bool {
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	return slices.Contains(loaderVariables, name) || slices.ContainsFunc(loaderPrefixes, hasPrefix)
}

func (l *toolLoader) required(path, value string) {
	if strings.TrimSpace(value) == "" && !l.bad[path] {
		l.fail(path, path+" is required", "add it, with a value")
	}
}

// oneOf returns value, or "" after reporting that it is none of allowed.
func (l *toolLoader) oneOf(path, value string, allowed []string) string {
	if slices.Contains(allowed, value) {
		return value
	}
	l.fail(path, fmt.Sprintf("%q is not a value of %s", value, path), didYouMean(value, allowed))
	return ""
}

// within returns value, or fallback when the manifest does not name it.
func (l *toolLoader) within(path string, value, low, high, fallback int64) int64 {
	if !l.has(path) || l.bad[path] {
		return fallback
	}
	if value < low || value > high {
		l.fail(path, fmt.Sprintf("%s is %d", path, value), fmt.Sprintf("allowed: %d to %d", low, high))
		return fallback // what depends on it is judged by itself
	}
	return value
}

func withDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
