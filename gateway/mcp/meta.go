package mcp

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// said holds what a client sends with a call besides its arguments.
type said struct {
	key, version, run, lane, role string
	scope                         map[string]string
	within                        time.Duration  // timeout of the call; 0 means that of the tool
	report                        bool           // the result has all members of _meta
	server                        jsontext.Value // the members of _meta for the server of the tool; nil for none
	trace, span                   string
}

// HeaderKey is the HTTP header with the idempotency key of a call, an alternative to the _meta member.
const HeaderKey = "Idempotency-Key"

// read reads the options of a call from _meta and the headers. Its errors are protocol errors, because a model cannot
// correct them.
func read(meta map[string]any, header http.Header) (s said, err error) {
	if err := misspelt(meta); err != nil {
		return s, err
	}
	for name, to := range map[string]*string{
		envelope.MetaIdempotencyKey: &s.key, envelope.MetaToolVersion: &s.version, envelope.MetaRunID: &s.run,
		envelope.MetaLaneID: &s.lane, envelope.MetaRoleID: &s.role,
	} {
		value, given := meta[name]
		text, ok := value.(string)
		if given && (!ok || text == "") {
			return s, invalid("_meta %s is a string, and not empty", name)
		}
		*to = text
	}
	if s.scope, err = scopeOf(meta); err != nil {
		return s, err
	}
	if value, given := meta[envelope.MetaDeadlineMS]; given {
		ms, ok := value.(float64)
		if !ok || ms < 1 || ms > envelope.MaxTimeoutMS || ms != math.Trunc(ms) {
			return s, invalid("_meta %s is a whole number of milliseconds, from 1 to %d", envelope.MetaDeadlineMS,
				envelope.MaxTimeoutMS)
		}
		s.within = time.Duration(ms) * time.Millisecond
	}
	if keys := header.Values(HeaderKey); len(keys) > 0 {
		if len(keys) > 1 || keys[0] == "" || s.key != "" && s.key != keys[0] {
			return s, invalid("the header %s is one key, and the one of _meta %s if both are given", HeaderKey,
				envelope.MetaIdempotencyKey)
		}
		s.key = keys[0]
	}
	if s.report, err = reports(meta); err != nil {
		return s, err
	}
	if s.server, err = forServer(meta); err != nil {
		return s, err
	}
	if err := s.headers(header); err != nil {
		return s, err
	}
	if n := utf8.RuneCountInString(s.key); s.key != "" && (n < envelope.MinKey || n > envelope.MaxKey) {
		return s, invalid("an idempotency key has %d to %d characters, not %d", envelope.MinKey, envelope.MaxKey, n)
	}
	s.trace, s.span = traceOf(meta)
	return s, nil
}

// options are the members of _meta with the prefix of Toolbus that a client sends for a call.
var options = []string{
	envelope.MetaDeadlineMS, envelope.MetaIdempotencyKey, envelope.MetaLaneID, envelope.MetaReport, envelope.MetaRoleID,
	envelope.MetaRunID, envelope.MetaScope, envelope.MetaToolVersion,
}

// ours are the members that Toolbus sends besides, which are ignored. A gateway may be the MCP server of another bus,
// and some frameworks send the _meta of the definition of a tool, or of an answer, back with a call.
var ours = []string{
	envelope.MetaAttempt, envelope.MetaCallID, envelope.MetaDigest, envelope.MetaInvocation, envelope.MetaEffectLevel,
	envelope.MetaRef, envelope.MetaAuditEventID, envelope.MetaOutcome, envelope.MetaFinal, envelope.MetaCode,
	envelope.MetaEffect, envelope.MetaRetryAfterMS, envelope.MetaExact, envelope.MetaChunk, envelope.MetaDetails,
	envelope.MetaSideEffects, envelope.MetaWarnings, envelope.MetaAbsent,
}

// misspelt returns the error for an unknown member of _meta with the prefix of Toolbus. A call without the key or the
// deadline that its client meant could take effect twice, or too late.
func misspelt(meta map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		word, own := strings.CutPrefix(name, envelope.MetaPrefix)
		if !own || slices.Contains(options, name) || slices.Contains(ours, name) {
			continue
		}
		words := make([]string, len(options))
		for i, option := range options {
			words[i] = strings.TrimPrefix(option, envelope.MetaPrefix)
		}
		if meant, ok := envelope.Nearest(word, words); ok {
			return invalid("_meta of a request has no member %.128q; did you mean %s%s?", name, envelope.MetaPrefix, meant)
		}
		return invalid("_meta of a request has no member %.128q; it has %s", name, strings.Join(options, ", "))
	}
	return nil
}

// Limits of the members of _meta that go on to the server of a tool.
const (
	maxMeta      = 16 << 10 // bytes of JSON
	maxMetaNames = 64
)

// forServer returns the members of _meta that are not reserved, or nil.
func forServer(meta map[string]any) (jsontext.Value, error) {
	kept := maps.Clone(meta)
	maps.DeleteFunc(kept, func(name string, _ any) bool { return envelope.IsReservedMeta(name) })
	if len(kept) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(kept)
	if err != nil || len(text) > maxMeta || len(kept) > maxMetaNames {
		return nil, invalid("_meta has at most %d members and %d bytes of JSON for the server of the tool, not %d and %d",
			maxMetaNames, maxMeta, len(kept), len(text))
	}
	return text, nil
}

// HTTP headers that name the role, lane and scope of a call, for clients that cannot set _meta. A scope is a list of
// NAME=VALUE, separated by commas.
const (
	headerRole  = "Toolbus-Role"
	headerLane  = "Toolbus-Lane"
	headerScope = "Toolbus-Scope"
)

// headers adds what the headers of a request name. A member of _meta wins.
func (s *said) headers(h http.Header) error {
	s.role, s.lane = cmp.Or(s.role, h.Get(headerRole)), cmp.Or(s.lane, h.Get(headerLane))
	list := strings.Join(h.Values(headerScope), ",")
	if s.scope != nil || list == "" {
		return nil
	}
	s.scope = map[string]string{}
	for entry := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok || name == "" || len(s.scope) == envelope.MaxScopeKeys {
			return invalid("the header %s is at most %d NAME=VALUE, separated by commas", headerScope, envelope.MaxScopeKeys)
		}
		s.scope[name] = value
	}
	return nil
}

// reports reports whether a request wants all members of _meta in its answer.
func reports(meta map[string]any) (bool, error) {
	value, given := meta[envelope.MetaReport]
	wanted, ok := value.(bool)
	if given && !ok {
		return false, invalid("_meta %s is true or false", envelope.MetaReport)
	}
	return wanted, nil
}

// scopeOf returns the scope in _meta, or nil if it has none.
func scopeOf(meta map[string]any) (map[string]string, error) {
	value, given := meta[envelope.MetaScope]
	if !given {
		return nil, nil
	}
	members, ok := value.(map[string]any)
	scope := make(map[string]string, len(members))
	for name, value := range members {
		text, isText := value.(string)
		scope[name], ok = text, ok && isText
	}
	if !ok || len(scope) > envelope.MaxScopeKeys {
		return nil, invalid("_meta %s is an object of at most %d strings", envelope.MetaScope, envelope.MaxScopeKeys)
	}
	return scope, nil
}

// traceOf returns the trace id, as a UUID, and the span id of the traceparent in _meta. Both are "" if it is missing or
// invalid.
func traceOf(meta map[string]any) (trace, span string) {
	parent, _ := meta[envelope.MetaTraceparent].(string)
	parts := strings.Split(parent, "-")
	if len(parts) < 4 || len(parts[2]) != 16 {
		return "", ""
	}
	id, err := uuid.Parse(parts[1])
	if err != nil || id == uuid.Nil || strings.Trim(parts[2], "0123456789abcdef") != "" {
		return "", ""
	}
	return id.String(), parts[2]
}
