package mcp

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// The types of results.
const (
	typeComplete = "complete"
	typeInput    = "input_required"
)

// judge makes of an answer what the call has produced, or its error. passed is how many bytes of chunks there were.
func judge(m *tool.Manifest, e Endpoint, op op, a client.Answer, passed int64) (statement, error) {
	switch a.Type {
	case "", typeComplete:
	case typeInput:
		return statement{}, &tool.Error{Code: errInput}
	default:
		return statement{}, broken("a result of type %.40q, which was not asked for", a.Type)
	}
	if a.IsError {
		f, warnings := fault(m, e, a)
		return statement{result: tool.Result{Warnings: warnings}}, f
	}
	absent := isTrue(a.Meta[envelope.MetaAbsent])
	if op == opLookup && (absent || isEmpty(a)) {
		return statement{absent: true}, nil
	}
	room := m.Limits.OutputBytes - passed
	if e.Output == OutputWhole {
		return statement{result: wholeOf(a, room)}, nil
	}
	result, err := resultOf(a)
	if err == nil {
		err = result.Check()
	}
	if err != nil {
		return statement{}, broken("%v", err)
	}
	if int64(len(result.Output)) > room {
		return statement{}, &tool.LimitError{Limit: m.Limits.OutputBytes}
	}
	return statement{result: result}, nil
}

func isTrue(v jsontext.Value) bool { return string(v) == "true" }

// isEmpty reports whether a result says nothing.
func isEmpty(a client.Answer) bool {
	return string(a.Structured) == "null" || a.Structured == nil && len(blocks(a)) == 0
}

func broken(format string, args ...any) error {
	return &tool.ProtocolError{Reason: fmt.Sprintf(format, args...)}
}

// block is a part of the content, as far as it is looked at.
type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func blocks(a client.Answer) (all []block) {
	if json.Unmarshal(a.Content, &all) != nil {
		return nil
	}
	return all
}

// resultOf returns the result of a call that did not fail, of an endpoint whose output is the structured content.
func resultOf(a client.Answer) (r tool.Result, err error) {
	if r.Output, err = output(a); err != nil {
		return r, err
	}
	for name, into := range map[string]any{envelope.MetaSideEffects: &r.SideEffects, envelope.MetaWarnings: &r.Warnings} {
		if raw := a.Meta[name]; raw != nil {
			if err := json.Unmarshal(raw, into); err != nil {
				return r, fmt.Errorf("%s of its _meta is no list of what it should be", name)
			}
		}
	}
	r.Warnings = append(r.Warnings, lost(a.Repairs, len(r.Warnings), "/structuredContent")...)
	return r, nil
}

// output returns the structured content of an answer, or the JSON that its only text holds.
func output(a client.Answer) (jsontext.Value, error) {
	if a.Structured != nil {
		return a.Structured, nil
	}
	if all := blocks(a); len(all) == 1 && all[0].Type == "text" {
		if value := jsontext.Value(strings.TrimSpace(all[0].Text)); value.IsValid() {
			return value, nil
		}
	}
	return nil, fmt.Errorf("a result without structured content, whose text is no JSON either")
}

// fault returns the error of a failed result, with the result, and warnings about what is missing of it.
func fault(m *tool.Manifest, e Endpoint, a client.Answer) (*tool.Error, []string) {
	text := textOf(a)
	f := &tool.Error{Code: errTool, Message: ijson.Clip(text, envelope.MaxMessage)}
	if code, ok := codeOf(m, e, a, text); ok {
		f.Code = code
	}
	var warnings []string
	f.Result, warnings = failed(a)
	told(a.Meta[envelope.MetaDetails], &f.Details)
	var effect envelope.Effect
	told(a.Meta[envelope.MetaEffect], &effect)
	switch effect {
	case envelope.EffectNone, envelope.EffectApplied, envelope.EffectUnknown:
		f.Effect = effect
	}
	var after int64
	told(a.Meta[envelope.MetaRetryAfterMS], &after)
	f.RetryAfter = time.Duration(min(max(after, 0), envelope.MaxRetryAfter.Milliseconds())) * time.Millisecond
	if f.Details.Kind() != '{' {
		f.Details = nil
	}
	return f, warnings
}

// told reads a member of _meta that may be missing. It ignores one of another type: the result stands without it.
func told(raw jsontext.Value, into any) { _ = json.Unmarshal(raw, into) }

// codeOf finds the name of the error: the one that the server says, or that of its text. A server that is another
// Toolbus says codes, which are no names.
func codeOf(m *tool.Manifest, e Endpoint, a client.Answer, text string) (code string, ok bool) {
	told(a.Meta[envelope.MetaCode], &code)
	if (&tool.Error{Code: code}).Check() == nil {
		return code, true
	}
	var s struct {
		Code  string `json:"code"`
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(a.Structured, &s) == nil {
		if code = cmp.Or(s.Error.Code, s.Code); m.Errors[code].Name != "" {
			return code, true
		}
	}
	for _, rule := range e.Errors {
		if rule.match.MatchString(text) {
			return rule.Code, true
		}
	}
	return "", false
}

// textOf is what people read of a result.
func textOf(a client.Answer) string {
	var texts []string
	for _, b := range blocks(a) {
		if b.Type == "text" && b.Text != "" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}
